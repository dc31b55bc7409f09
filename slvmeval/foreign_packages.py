"""Packages of other projects under the names of ours, which Python would import instead."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

#: Our other packages.
OURS = ("storage_schemas", "tasks", "infra", "flows")


def foreign_packages(names: Sequence[str] = OURS) -> dict[str, str]:
    """Return where Python finds those of our packages that are not next to this one."""
    home = Path(__file__).resolve().parents[1]
    foreign = {}
    for name in names:
        # an editable installation's finder comes last, and finds ours
        spec = PathFinder.find_spec(name)
        if spec is None:
            continue
        # a folder without an __init__.py has no origin
        origin = spec.origin or str(next(iter(spec.submodule_search_locations or ()), ""))
        if not Path(origin).resolve().is_relative_to(home / name):
            foreign[name] = origin
    return foreign


def in_words(foreign: dict[str, str]) -> str:
    """Return what is wrong and what to do, as one sentence."""
    listed = ", ".join(f"{name} is {origin}" for name, origin in foreign.items())
    return (
        f"Python finds other code under the names of slvmeval's packages ({listed}): start from another "
        "folder, set PYTHONSAFEPATH=1, or install slvmeval into a separate environment"
    )
