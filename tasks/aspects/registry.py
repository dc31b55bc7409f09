"""Registry of aspects: the ten of this project and those added by other packages.

A package adds an aspect through an entry point in the group ``slvmeval.aspects``, whose name is the aspect's
name and whose value is ``module:attribute`` of an :class:`~tasks.aspects.base.Aspect`. Listing names
imports none of these modules.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import EntryPoint

from storage_schemas.errors import PrerequisiteError, UserInputError, suggestion
from storage_schemas.extras import explain_missing_packages
from tasks.aspects.base import Aspect
from tasks.plugins import added_points

#: Entry-point group that other packages use.
GROUP = "slvmeval.aspects"

#: The ten aspects in the order of the paper's tables; each module holds its aspect as ``ASPECT``.
BUILT_IN: tuple[str, ...] = (
    "aesthetics",
    "technical_quality",
    "appearance_style",
    "background_consistency",
    "temporal_flow",
    "comprehensiveness",
    "object_integrity",
    "spatial_relationship",
    "dynamics_degree",
    "color",
)


def added_aspects() -> dict[str, EntryPoint]:
    """Return the aspects added by installed packages, by name; nothing is imported."""
    return added_points(GROUP, BUILT_IN, "aspect")


def aspect_names() -> tuple[str, ...]:
    """Return the names of all aspects, built-in ones first; nothing is imported."""
    return (*BUILT_IN, *added_aspects())


@cache
def aspect(name: str) -> Aspect:
    """Return an aspect by name, importing its module.

    Raises
    ------
    UserInputError
        If the name is unknown; the message lists similar names.
    PrerequisiteError
        If a package's entry point cannot be loaded or holds something else, or the extra `build` is missing.
    """
    if name in BUILT_IN:
        with explain_missing_packages():
            built_in: Aspect = importlib.import_module(f"tasks.aspects.{name}").ASPECT
        return built_in
    added = added_aspects()
    if name not in added:
        raise UserInputError(f"no aspect {name!r}: {suggestion(name, aspect_names(), 'there are')}")
    return _load(added[name])


def _load(point: EntryPoint) -> Aspect:
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as problem:
        raise PrerequisiteError(
            f"aspect {point.name!r} cannot be loaded from {point.value}: {problem}; "
            "repair or uninstall its package"
        ) from problem
    if not isinstance(loaded, Aspect) or loaded.name != point.name:
        raise PrerequisiteError(
            f"{point.value} is not an aspect named {point.name!r}: its package must set name = module:ASPECT"
        )
    return loaded


def aspects() -> tuple[Aspect, ...]:
    """Return all aspects, built-in ones first."""
    return tuple(aspect(name) for name in aspect_names())
