"""The models' instructions: one file per dimension, in sections, and one per step.

Ours are in ``criteria/`` and ``prompts/`` beside this file. A user's folder may replace some of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from storage_schemas.errors import UserInputError
from tasks.llm.prompt_files import prompt_text

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


PACKAGE = "tasks.scoring.suites.video_bench"


def sections_of(dimension: str, needed: tuple[str, ...], folder: str = "") -> Mapping[str, str]:
    """Return the sections of a dimension's file: each begins with a line ``# NAME``.

    Raises
    ------
    UserInputError
        As :func:`~tasks.llm.prompt_files.prompt_text`, or if a section is missing or empty.
    """
    parts = re.split(r"^# +(.+?) *$", prompt_text(PACKAGE, dimension, folder, "criteria"), flags=re.MULTILINE)
    sections = {name.lower(): text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    missing = [name for name in needed if not sections.get(name)]
    if missing:
        raise UserInputError(
            f"the criteria of {dimension} have no section {missing[0]!r}: write a line '# {missing[0]}' and "
            "its text under it"
        )
    return {name: sections[name] for name in needed}
