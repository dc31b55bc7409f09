"""Prompts as text files: those of a package, each of which a file of the user's own may replace."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Formatter

from storage_schemas.errors import UserInputError

PROMPTS = "prompts"


def prompt_text(package: str, name: str, own: str | None = None, folder: str = PROMPTS) -> str:
    """Return a prompt of a package, or the user's in its place, without white space at its ends.

    Parameters
    ----------
    package
        The package, such as ``tasks.captions``.
    name
        The file's, without ``.txt``.
    own
        A folder of the user's, whose files replace ours of the same names; empty or None for none.
    folder
        Where in the package it lies.

    Raises
    ------
    UserInputError
        If it cannot be read or is empty, or `own` is no folder.
    """
    if not own:
        return _ours(package, folder, name)
    return read_prompt(prompt_place(package, name, own, folder))


@cache
def _ours(package: str, folder: str, name: str) -> str:
    return read_prompt(prompt_place(package, name, None, folder))


def prompt_place(
    package: str, name: str, own: str | None = None, folder: str = PROMPTS
) -> Traversable | Path:
    """Return where a prompt lies, see :func:`prompt_text`; ours need not be there."""
    if own:
        if not Path(own).is_dir():
            raise UserInputError(f"{own} is no folder: give one whose files replace {folder} of ours")
        mine = Path(own) / f"{name}.txt"
        if mine.is_file():
            return mine
    return resources.files(package).joinpath(folder, f"{name}.txt")


def read_prompt(place: Traversable | Path) -> str:
    """Return the text of a file, without white space at its ends.

    Raises
    ------
    UserInputError
        If it cannot be read or is empty.
    """
    try:
        text = place.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{place} cannot be read: {problem}") from problem
    if not text:
        raise UserInputError(f"{place} is empty: write what the model is to be told, or take the file away")
    return text


def filled(template: str, **values: str) -> str:
    """Return a template with its placeholders replaced, once: what is put in is not looked at again.

    Other braces stay as they are, so that a template may hold JSON.

    Examples
    --------
    >>> filled('Answer {"score": 1}, at most {most}.', most="{least}")
    'Answer {"score": 1}, at most {least}.'
    """
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)


def checked_template(text: str, required: Collection[str], optional: Collection[str] = ()) -> str:
    """Check the placeholders of a template for `str.format` and return it.

    Parameters
    ----------
    text
        The template; literal braces are doubled.
    required, optional
        Names of required and of optional placeholders.

    Raises
    ------
    ValueError
        If a placeholder is missing, unknown or has a format, or a brace is unmatched.
    """
    known = ", ".join(f"{{{name}}}" for name in (*required, *optional))
    try:
        parts = list(Formatter().parse(text))
    except ValueError as problem:
        raise ValueError(f"{problem}: write {{{{ and }}}} for literal braces") from problem
    placeholders = [(name, spec, conversion) for _, name, spec, conversion in parts if name is not None]
    for name, spec, conversion in placeholders:
        if name not in (*required, *optional) or spec or conversion:
            raise ValueError(f"unknown placeholder {{{name}}}: it may have {known}")
    missing = [name for name in required if name not in [each for each, _, _ in placeholders]]
    if missing:
        raise ValueError(f"the placeholder {{{missing[0]}}} is missing: it may have {known}")
    return text
