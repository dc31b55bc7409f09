"""Prompt texts with places to fill in, such as ``{object}``; the defaults are files in ``prompts/``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from string import Formatter

_FOLDER = Path(__file__).parent / "prompts"


def default_text(name: str) -> str:
    """Return one of the texts that come with this package, without white space at its ends."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip()


def checked_template(text: str, required: Collection[str], optional: Collection[str] = ()) -> str:
    """Return a template after checking its placeholders.

    Parameters
    ----------
    text
        What a user may have written; a brace that is meant as such is doubled.
    required, optional
        Names of placeholders that must, and may, be in it.

    Raises
    ------
    ValueError
        If one is missing or unknown, has a format of its own, or a brace stands alone.
    """
    known = ", ".join(f"{{{name}}}" for name in (*required, *optional))
    try:
        parts = list(Formatter().parse(text))
    except ValueError as problem:
        raise ValueError(f"{problem}: write {{{{ and }}}} for braces that are no placeholder") from problem
    found = [(name, spec, conversion) for _, name, spec, conversion in parts if name is not None]
    for name, spec, conversion in found:
        if name not in (*required, *optional) or spec or conversion:
            raise ValueError(f"unknown placeholder {{{name}}}: it may have {known}")
    missing = [name for name in required if name not in [each for each, _, _ in found]]
    if missing:
        raise ValueError(f"the placeholder {{{missing[0]}}} is missing: it may have {known}")
    return text


def filled(template: str, **values: str) -> str:
    """Return a checked template with its placeholders replaced; braces in the values stay as they are."""
    return template.format(**values)
