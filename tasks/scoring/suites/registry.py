"""The suites that are installed.

A package adds one by an entry point in the group ``slvmeval.suites``, whose name is the suite's and whose
value is ``module:factory``: a class or function with a parameter ``setup``
(:class:`~tasks.scoring.setup.Setup`) and the suite's settings as further parameters; it returns a
:class:`~tasks.scoring.suites.base.Suite`. Listing names imports none of these modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.names import is_name
from tasks.plugins import added_points
from tasks.scoring.registry import load_factory, made_with
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Suite, Variant

#: Entry-point group that other packages use.
GROUP = "slvmeval.suites"


def suites() -> dict[str, EntryPoint]:
    """Return the suites of installed packages by name; nothing is imported."""
    return added_points(GROUP, (), "suite")


def factory(name: str) -> Callable[..., Any]:
    """Return the factory of a suite, importing its module; raises as `load_factory`."""
    return load_factory("suite", name, {}, suites())


def suite_variants(name: str) -> Mapping[str, Variant]:
    """Return the ablations that a suite names, importing its module; raises as `load_factory`."""
    variants: Mapping[str, Variant] = getattr(factory(name), "variants", {})
    return variants


def settings_of_variant(suite: str, variant: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run: those of a variant, if any, and the user's.

    Parameters
    ----------
    variant
        Name of one of the suite's ablations, or a new name for the user's settings; empty for none.

    Raises
    ------
    UserInputError
        If the name is invalid, or unknown and without settings, or if a setting belongs to the variant.
    """
    if not variant:
        return dict(settings)
    # it becomes part of the suite's name in rows, as does a blur
    if not is_name(variant) or variant.startswith("blur"):
        raise UserInputError(
            f"variant {variant!r}: a name has letters, digits, '.', '_' and '-', and does not begin with blur"
        )
    variants = suite_variants(suite)
    if variant not in variants:
        if not settings:
            raise UserInputError(
                f"{suite} has no variant {variant!r}: it has {', '.join(variants) or 'none'}; "
                "for one of your own say what is different with --set"
            )
        return dict(settings)
    both = sorted(set(variants[variant].settings) & set(settings))
    if both:
        raise UserInputError(f"variant {variant} sets {', '.join(both)}: give your own values another name")
    return {**variants[variant].settings, **settings}


def make_suite(name: str, setup: Setup, settings: Mapping[str, Any] | None = None) -> Suite:
    """Make a suite with its settings; nothing is loaded yet.

    Raises
    ------
    UserInputError
        If the name is unknown or a setting is invalid.
    PrerequisiteError
        If it cannot be imported or is not a suite.
    """
    made = made_with(f"suite {name}", factory(name), setup, settings or {})
    if not isinstance(made, Suite):
        raise PrerequisiteError(f"suite {name} is a {type(made).__name__}: it has to be a Suite")
    if made.name != name:
        raise PrerequisiteError(f"suite {name} calls itself {made.name!r}: its rows would not be found again")
    return made
