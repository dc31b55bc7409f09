from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import pyarrow.parquet as pq
import pytest
import yaml

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_file
from storage_schemas.release import Release
from tasks.publish.dataset_card import licence_id, plain
from tasks.publish.export import export_recipe, export_release, recipe_text
from tasks.recipe import load_recipe
from tests.tasks.publish.conftest import Small

FREE, SECRET = "film/<b>one</b>", "secret two"


@pytest.fixture(scope="module")
def exported(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = export_release(small.store, small.release, tmp_path_factory.mktemp("export") / "set")
    assert (result.pairs, result.left_out, result.recipe_only) == (4, (SECRET,), False)
    return result.path


DATASETS = """
import json, sys, datasets
datasets.disable_progress_bars()
here, hub = sys.argv[1:]
found = {}
for name in ("pairs", "sources", "clips"):
    found[name] = [dict(row) for row in datasets.load_dataset(here, name, split="test")]
found["default"] = len(datasets.load_dataset(here)["test"])
pairs = datasets.load_dataset(hub, "pairs", split="test")
for side in ("high", "low"):
    assert isinstance(pairs.features[side], datasets.Video), pairs.features
    pairs = pairs.cast_column(side, datasets.Video(decode=False))
found["hub"] = [[row[side]["path"], row[f"{side}_video"]] for row in pairs for side in ("high", "low")]
print(json.dumps(found))
"""


def test_datasets_loads_it_without_a_network(small: Small, exported: Path, tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    export_release(small.store, small.release, hub, address="hf://datasets/lab/set@main/")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    environment["HF_DATASETS_CACHE"] = str(tmp_path / "cache")
    command = [sys.executable, "-c", DATASETS, str(exported), str(hub)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["default"] == len(found["pairs"]) == 4
    assert [row["source_id"] for row in found["sources"]] == [FREE]
    assert len(found["clips"]) == 9
    pair = next(row for row in found["pairs"] if row["aspect"] == "comprehensiveness")
    assert pair["gold"] == "high"
    assert pair["high_intervals"] == [[10.0, 14.0], [26.0, 30.0]]
    assert json.loads(pair["parameters"]) == {"contrast": -0.8, "nested": {"a": [1, 2]}}
    assert pair["prompt"].startswith("</script>")
    assert pair["prompt"].endswith("Caption 8 of film/<b>one</b>")
    # at a hub the pairs have columns of videos
    assert len(found["hub"]) == 8
    assert all(path == f"hf://datasets/lab/set@main/{video}" for path, video in found["hub"])


def test_paths_and_checksums_hold(exported: Path, small: Small) -> None:
    rows = pq.read_table(exported / "data" / "pairs.parquet").to_pylist()
    for row in rows:
        for side in ("high", "low"):
            path = exported / row[f"{side}_video"]
            assert path.resolve().is_relative_to(exported.resolve())
            assert digest_file(path) == row[f"{side}_video_sha256"]
            with av.open(str(path)) as container:
                assert container.streams.video[0].frames == row[f"{side}_frames"]
        record = small.release.pair(row["pair_id"])
        assert (row["low_checksum"], row["seed"]) == (record.low_checksum, record.seed)
    listed = set(json.loads((exported / "export.json").read_text())["files"])
    present = {path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()}
    assert present == listed | {"export.json"}


def test_the_card_says_where_things_are_and_whose_they_are(exported: Path) -> None:
    text = (exported / "README.md").read_text(encoding="utf-8")
    header = yaml.safe_load(text.split("---")[1])
    assert header["license"] == "cc-by-3.0"
    assert [entry["config_name"] for entry in header["configs"]] == ["pairs", "sources", "clips"]
    assert "1 source is left out" in text
    # of the one source that is passed on
    assert "| videos | unique prompts | longest | mean duration | mean prompt |" in text
    assert "| 5 | 1 | 0:40 |" in text
    assert "| content category | sources | pairs |\n|---|---:|---:|\n| Travel &#38; Events | 1 | 4 |" in text
    assert "Sports" not in text
    assert "A. Person" in text
    assert "<b>" not in text.replace("film/&#60;b", "")
    assert "academic use only: 1" in (exported / "LICENSE.md").read_text(encoding="utf-8")

    # what may not be passed on stays
    for path in exported.rglob("*"):
        assert "secret" not in path.name
        content = path.read_bytes() if path.is_file() else b""
        assert b"Caption 3 of secret" not in content
        assert b"Film secret" not in content


def full(*_: Any, **__: Any) -> None:
    raise OSError("no space")


def test_everything_leaves_only_when_asked_and_nothing_stays_behind(small: Small, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, all_: int, _: str) -> None:
        seen.append((done, all_))

    result = export_release(small.store, small.release, tmp_path, private=True, progress=progress)
    assert (result.pairs, list(result.left_out)) == (8, [])
    assert seen == [(place, 8) for place in range(1, 9)]
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "may not be redistributed" in text
    assert "license: other" in text
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.mp4")}
    export_release(small.store, small.release, tmp_path)
    left = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.mp4")}
    assert len(left) == 5
    assert left.items() <= made.items()
    # an interrupted export is not a data set
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.publish.export.write_low", full)
        with pytest.raises(OSError, match="no space"):
            export_release(small.store, small.release, tmp_path)
    assert not (tmp_path / "README.md").exists()
    export_release(small.store, small.release, tmp_path)
    assert (tmp_path / "README.md").exists()


def test_export_keeps_only_the_recipe(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [row.model_copy(update={"redistributable": False}) for row in small.release.sources()]
    monkeypatch.setattr(Release, "sources", lambda self: sources)
    # opened again: one that other tests have used keeps the sources that it has read
    result = export_release(small.store, Release.open(small.store, small.release.name), tmp_path)
    assert result.recipe_only
    kept = {"README.md", "LICENSE.md", "recipe.json", "export.json"}
    assert {path.name for path in tmp_path.iterdir()} == kept
    assert "configs" not in (tmp_path / "README.md").read_text()
    assert load_recipe(str(tmp_path / "recipe.json")).pins


def test_pinned_recipe_is_a_recipe_without_words_of_the_data_set(small: Small, tmp_path: Path) -> None:
    path = export_recipe(small.release, tmp_path / "recipe.json")
    recipe = load_recipe(str(path))
    assert len(recipe.pins) == 8
    for pin, record in zip(recipe.pins, small.release.pairs(), strict=True):
        for name in ("pair_id", "low_checksum", "drawn_clips"):
            assert getattr(pin, name) == getattr(record, name)
        assert pin.content_sha256 == small.release.source(record.source_id).content_sha256
    assert "Caption" not in path.read_text()
    assert "Film" not in path.read_text()
    assert recipe.model_copy(update={"pins": ()}) == load_recipe("cpu-approx")
    assert recipe_text(small.release) == path.read_text()


def test_files_of_others_are_left_alone(small: Small, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("my project")
    with pytest.raises(UserInputError, match="other content"):
        export_release(small.store, small.release, tmp_path)
    assert (tmp_path / "README.md").read_text() == "my project"


@pytest.mark.parametrize(
    ("licences", "id_"),
    [
        ("CC BY 3.0", "cc-by-3.0"),
        ("cc-by-nc-sa-4.0|cc-by-nc-sa-4.0", "cc-by-nc-sa-4.0"),
        ("CC0", "cc0-1.0"),
        ("CC BY 3.0|CC BY 4.0", "other"),
        ("academic use only", "other"),
    ],
)
def test_licence_ids(licences: str, id_: str) -> None:
    assert licence_id(licences.split("|")) == id_
    assert licence_id([]) == "other"


def test_titles_cannot_write_the_card() -> None:
    assert plain("a\n---\n# b") == "a --- &#35; b"
    assert not set(plain("<script>[x](y)`|`")) & set("<>[]()`|")
