"""The table of sets, and what a command line says of one: ``NAME:PATH?videos=DIR&fps=2&long_side=512``."""

from __future__ import annotations

import difflib
import tomllib
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path
from urllib.parse import unquote

from storage_schemas.errors import UserInputError
from tasks.evaluators.meta_sets.base import MetaSet
from tasks.evaluators.meta_sets.fetv import Fetv
from tasks.evaluators.meta_sets.own_pairs import OwnPairs
from tasks.evaluators.meta_sets.uve_bench import UveBench
from tasks.evaluators.meta_sets.videogen_rewardbench import VideoGenRewardBench

#: Sets by name.
SETS: dict[str, MetaSet] = {one.name: one for one in (UveBench(), VideoGenRewardBench(), Fetv(), OwnPairs())}
_OPTIONS = ("videos", "fps", "long_side")


def meta_set(name: str) -> MetaSet:
    """Return the set of that name.

    Raises
    ------
    UserInputError
        If there is none.
    """
    if name not in SETS:
        near = difflib.get_close_matches(name, SETS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SETS)}"
        raise UserInputError(f"no set {name!r}: {hint}")
    return SETS[name]


@cache
def descriptions() -> dict[str, dict[str, str]]:
    """Return what evaluators are told of the sets' own aspects: set → aspect → text."""
    file = resources.files("tasks.evaluators.meta_sets").joinpath("aspects.toml")
    found: dict[str, dict[str, str]] = tomllib.loads(file.read_text(encoding="utf-8"))
    return found


def split_location(text: str) -> tuple[Path, dict[str, str]]:
    """Return path and options of ``PATH?key=value&key=value``.

    Raises
    ------
    UserInputError
        If an option is unknown or has no value.
    """
    path, _, query = text.partition("?")
    if not path:
        raise UserInputError("no path is given: write NAME:PATH")
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if key not in _OPTIONS or not equals or not value:
            raise UserInputError(f"{part!r} is no option: there are {', '.join(_OPTIONS)}, each KEY=VALUE")
        options[key] = unquote(value)
    return Path(path).expanduser().resolve(), options


def rate_of(text: str) -> Fraction:
    """Return frames a second, written as 2, 0.5 or 30/4.

    Raises
    ------
    UserInputError
        If it is no number above 0.
    """
    try:
        rate = Fraction(text)
    except (ValueError, ZeroDivisionError) as problem:
        raise UserInputError(f"fps is {text!r}: give a number above 0") from problem
    if rate <= 0:
        raise UserInputError(f"fps is {text!r}: give a number above 0")
    return rate
