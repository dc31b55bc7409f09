"""Prompt templates with placeholders such as ``{object}``; the defaults are files in ``prompts/``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from string import Formatter

_FOLDER = Path(__file__).parent / "prompts"


def default_text(name: str) -> str:
    """Return one of this package's texts, stripped of surrounding white space."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip()


def checked_template(text: str, required: Collection[str], optional: Collection[str] = ()) -> str:
    """Check a template's placeholders and return it.

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


def filled(template: str, **values: str) -> str:
    """Return a checked template with its placeholders replaced; braces in the values stay as they are."""
    return template.format(**values)
