"""The table of suites: those of this project, and those that other packages add.

A package adds one by an entry point in the group ``slvmeval.suites``, whose name is the suite's and whose
value is ``module:factory``: a class or function that is called with a
:class:`~tasks.scoring.setup.Setup` and the suite's settings by keyword and gives a
:class:`~tasks.scoring.suites.base.Suite`. Listing names imports none of these modules.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import ValidationError

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.plugins import added_points
from tasks.scoring.registry import load_factory
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Suite
from tasks.scoring.suites.built_in import BUILT_IN

#: Entry-point group that other packages use.
GROUP = "slvmeval.suites"


def added_suites() -> dict[str, EntryPoint]:
    """Return the suites that installed packages add, by name; nothing is imported."""
    return added_points(GROUP, BUILT_IN, "suite")


def suite_names() -> tuple[str, ...]:
    """Return the names of all suites, the built-in ones first; nothing is imported."""
    return (*BUILT_IN, *added_suites())


def factory(name: str) -> Callable[..., Any]:
    """Return what makes the suite of that name, importing its module; raises as `load_factory` does."""
    return load_factory("suite", name, BUILT_IN, {} if name in BUILT_IN else added_suites())


def make_suite(name: str, setup: Setup, settings: Mapping[str, Any] | None = None) -> Suite:
    """Make a suite with its settings; nothing is loaded yet.

    Raises
    ------
    UserInputError
        If there is none of that name, or its settings do not fit.
    PrerequisiteError
        If it cannot be imported, or is none.
    """
    make, given = factory(name), dict(settings or {})
    takes = _settings_of(make)
    for key in given:
        if takes is not None and key not in takes:
            near = difflib.get_close_matches(key, takes, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(takes) or 'none'}"
            raise UserInputError(f"suite {name} has no setting {key!r}: {hint}")
    try:
        made = make(setup, **given)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserInputError(f"suite {name}: {key}: {first['msg']}") from problem
    except (TypeError, ValueError) as problem:
        raise UserInputError(f"suite {name}: {problem}") from problem
    if not isinstance(made, Suite):
        raise PrerequisiteError(f"suite {name} is a {type(made).__name__}: it has to be a Suite")
    if made.name != name:
        raise PrerequisiteError(f"suite {name} calls itself {made.name!r}: its rows would not be found again")
    return made


def _settings_of(make: Callable[..., Any]) -> list[str] | None:
    """Return the names of a factory's settings; None where it takes any."""
    try:
        takes = list(inspect.signature(make).parameters.values())
    except ValueError:
        return None
    if any(one.kind is one.VAR_KEYWORD for one in takes):
        return None
    # the first one is the setup
    return [one.name for one in takes[1:]]
