"""A missing package of an extra is one sentence with the command; the list of extras is pyproject's."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from storage_schemas.errors import PrerequisiteError
from storage_schemas.extras import (
    EXTRAS,
    explain_missing_packages,
    is_installed,
    missing_package,
    require_extra,
    require_package,
)

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normal(name: str) -> str:
    return re.split(r"[\[<>=~! ;]", name)[0].lower().replace("_", "-")


def test_the_modules_of_an_extra_are_those_of_its_packages() -> None:
    brought = {**packages_distributions(), "google": ["google-genai"]}  # one of several with this name
    for extra, modules in EXTRAS.items():
        declared = {normal(line) for line in PROJECT["optional-dependencies"][extra]}
        found = {normal(one) for name in modules for one in brought.get(name.partition(".")[0], [])}
        assert found <= declared, extra
        # torch and its companions are not installed where most tests run
        if all(is_installed(name) for name in modules):
            assert declared - found <= {"sqlalchemy"}, extra


def test_no_module_is_in_two_extras_and_each_command_names_an_extra() -> None:
    modules = [name for names in EXTRAS.values() for name in names]
    assert len(modules) == len(set(modules))
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - {"all", "dev"}


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("cv2", "cv2 is not installed: pip install 'slvmeval[build]'"),
        ("prefect.artifacts", "prefect is not installed: pip install 'slvmeval[cluster]'"),
        ("google.genai.types", "google.genai is not installed: pip install 'slvmeval[providers]'"),
    ],
)
def test_the_sentence_has_the_command(module: str, says: str) -> None:
    assert str(missing_package(module)) == says


def test_an_extra_is_asked_for_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage_schemas.extras.is_installed", lambda module: module == "cv2")
    with pytest.raises(PrerequisiteError, match=r"is not installed: pip install 'slvmeval\[build\]'"):
        require_extra("build")
    monkeypatch.setattr("storage_schemas.extras.is_installed", lambda module: True)
    require_extra("build")


def test_a_missing_module_of_nobody_stays_what_it_was() -> None:
    assert missing_package("cv") is None
    assert missing_package("") is None
    with pytest.raises(ModuleNotFoundError), explain_missing_packages():
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401
    with pytest.raises(PrerequisiteError, match="pip install no_such_module"):
        require_package("no_such_module")
    assert not is_installed("no_such_module.inner")
    require_package("numpy")
