"""The texts that models are told: one file a dimension, in sections, and one for each step.

Ours lie in ``criteria/`` and ``prompts/`` beside this file. A user's folder replaces those that it has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from storage_schemas.errors import UserInputError

#: Sections that the steps of a dimension need.
CHAIN_SECTIONS = (
    "meaning",
    "describe",
    "first assistant",
    "second assistant",
    "look again",
    "scale",
    "notes",
)
BATCH_SECTIONS = ("meaning", "look at", "scale", "notes")


def text_of(name: str, kind: str, folder: str = "") -> str:
    """Return a text of ours, or the user's own.

    Parameters
    ----------
    name
        The file's, without its ending.
    kind
        ``criteria`` or ``prompts``.
    folder
        The user's; empty for none.

    Raises
    ------
    UserInputError
        If it cannot be read or is empty.
    """
    place = resources.files("tasks.scoring.suites.video_bench").joinpath(kind, f"{name}.txt")
    if folder:
        if not Path(folder).is_dir():
            raise UserInputError(f"criteria: {folder} is no folder")
        own = Path(folder) / f"{name}.txt"
        place = own if own.is_file() else place
    try:
        text = place.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{place} cannot be read: {problem}") from problem
    if not text:
        raise UserInputError(f"{place} is empty: write what the model is to be told, or take the file away")
    return text


def sections_of(dimension: str, needed: tuple[str, ...], folder: str = "") -> Mapping[str, str]:
    """Return the sections of a dimension's file: each begins with a line ``# NAME``.

    Raises
    ------
    UserInputError
        As :func:`text_of`, or if a section is missing or empty.
    """
    parts = re.split(r"^# +(.+?) *$", text_of(dimension, "criteria", folder), flags=re.MULTILINE)
    found = {name.lower(): text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    missing = [name for name in needed if not found.get(name)]
    if missing:
        raise UserInputError(
            f"the criteria of {dimension} have no section {missing[0]!r}: write a line '# {missing[0]}' and "
            "its text under it"
        )
    return {name: found[name] for name in needed}
