"""The table of aspects: names without imports, helpful errors, aspects of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks import plugins
from tasks.aspects import registry


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """A list of (name, value) that stands for what other packages add."""
    added: list[tuple[str, str]] = []

    def installed_points(group: str, _state: object) -> EntryPoints:
        return EntryPoints(EntryPoint(name, value, group) for name, value in added)

    monkeypatch.setattr(plugins, "installed_points", installed_points)
    registry.aspect.cache_clear()
    yield added
    registry.aspect.cache_clear()


def test_a_name_that_is_nearly_right_gets_a_hint() -> None:
    with pytest.raises(UserInputError, match="did you mean color"):
        registry.aspect("colour")
    with pytest.raises(UserInputError, match="there are aesthetics, "):
        registry.aspect("zzz")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        # an aspect of ours under a name of its own
        ("tasks.aspects.aesthetics:ASPECT", "not an aspect named 'blur'"),
        ("no_such_module:ASPECT", "repair or uninstall"),
        ("tasks.aspects.aesthetics:NOTHING", "repair or uninstall"),
    ],
)
def test_aspect_of_a_package_is_checked(installed: list[tuple[str, str]], value: str, said: str) -> None:
    installed.append(("blur", value))
    assert registry.aspect_names()[-1] == "blur"
    with pytest.raises(PrerequisiteError, match=said):
        registry.aspect("blur")


def test_two_aspects_of_one_name_are_refused_and_built_in_names(installed: list[tuple[str, str]]) -> None:
    installed += [("blur", "one:ASPECT"), ("blur", "one:ASPECT")]
    assert registry.aspect_names()[-1] == "blur"
    installed.append(("blur", "two:ASPECT"))
    with pytest.raises(PrerequisiteError, match="uninstall one"):
        registry.aspect_names()
    installed[:] = [("color", "one:ASPECT")]
    with pytest.raises(PrerequisiteError, match="built-in"):
        registry.aspect_names()
