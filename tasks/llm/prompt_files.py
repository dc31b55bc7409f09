"""Prompts as text files: a package has defaults, which the user's files may replace."""

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
    """Return a package's prompt, or the user's replacement, stripped of white space.

    Parameters
    ----------
    package
        The package, such as ``tasks.captions``.
    name
        Name of the file, without ``.txt``.
    own
        Folder of the user; its files replace defaults of the same names. Empty or None for none.
    folder
        Folder of the prompts within the package.

    Raises
    ------
    UserInputError
        If it cannot be read or is empty, or `own` is not a folder.
    """
    if not own:
        return _default(package, folder, name)
    return read_prompt(prompt_place(package, name, own, folder))


@cache
def _default(package: str, folder: str, name: str) -> str:
    return read_prompt(prompt_place(package, name, None, folder))


def prompt_place(
    package: str, name: str, own: str | None = None, folder: str = PROMPTS
) -> Traversable | Path:
    """Return the path of a prompt, see :func:`prompt_text`; a default need not exist."""
    if own:
        if not Path(own).is_dir():
            raise UserInputError(f"{own} is not a folder: give one whose files replace the default {folder}")
        replacement = Path(own) / f"{name}.txt"
        if replacement.is_file():
            return replacement
    return resources.files(package).joinpath(folder, f"{name}.txt")


def read_prompt(place: Traversable | Path) -> str:
    """Return the text of a file, stripped of white space.

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
        raise UserInputError(f"{place} is empty: write the instructions for the model, or remove the file")
    return text


def filled(template: str, **values: str) -> str:
    """Return a template with its placeholders replaced; placeholders in values are not replaced.

    Other braces are unchanged, so that a template may contain JSON.

    Examples
    --------
    >>> filled('Answer {"score": 1}, at most {most}.', most="{least}")
    'Answer {"score": 1}, at most {least}.'
    """
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


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
