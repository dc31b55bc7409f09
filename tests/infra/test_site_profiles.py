from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from infra.pool import Pool
from infra.profile import Profile, load_profile

PROFILES = Path(__file__).parents[2] / "slurm" / "profiles"
TEMPLATE = PROFILES / "template.toml"


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.toml")), ids=lambda path: path.stem)
def test_each_loads_and_has_both_pools(path: Path) -> None:
    profile = load_profile(path, environment={})
    assert set(profile.pools) == {"cpu", "h100"}
    assert profile.pools["h100"].gpus > 0


def test_all_three_are_there() -> None:
    assert {path.stem for path in PROFILES.glob("*.toml")} == {"genkai", "template", "one-machine"}


@pytest.fixture
def uncommented(tmp_path: Path) -> Path:
    """The template with every setting in use."""
    path = tmp_path / "all.toml"
    path.write_text(re.sub(r"^#(?=[a-z\[])", "", TEMPLATE.read_text(encoding="utf-8"), flags=re.M))
    return path


def test_the_template_names_every_setting(uncommented: Path) -> None:
    load_profile(uncommented, environment={})
    values = tomllib.loads(uncommented.read_text(encoding="utf-8"))
    assert set(values) == set(Profile.model_fields)
    pools = values["pools"]
    assert set(pools["cpu"]) | set(pools["h100"]) == set(Pool.model_fields)


def test_the_template_shows_the_defaults_where_there_are_some(uncommented: Path) -> None:
    values = tomllib.loads(uncommented.read_text(encoding="utf-8"))
    commented = set(re.findall(r"^#([a-z_]+) =", TEMPLATE.read_text(encoding="utf-8"), flags=re.M))
    fields: dict[str, FieldInfo] = {**Pool.model_fields, **Profile.model_fields}
    shown = {**values["pools"]["h100"], **values["pools"]["cpu"], **values}
    with_default = {
        key
        for key in commented & set(fields)
        if fields[key].default_factory is None and fields[key].default not in (None, ())
    }
    assert len(with_default) > 8
    assert {key: shown[key] for key in with_default} == {key: fields[key].default for key in with_default}


def test_each_setting_of_the_template_has_words(uncommented: Path) -> None:
    explained = set()
    before = ""
    for line in TEMPLATE.read_text(encoding="utf-8").splitlines():
        key = re.match(r"#?([a-z_0-9]+) =", line)
        if key and (before.startswith("# ") or re.match(r"#?[a-z_0-9]+ =", before)):
            explained.add(key.group(1))
        before = line
    assert explained >= (set(Pool.model_fields) | set(Profile.model_fields)) - {
        "pools",
        "placement",
        "model_servers",
    }
