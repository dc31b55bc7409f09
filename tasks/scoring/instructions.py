"""What judges are told: texts of aspects and prompts, and the choice that answers name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice
from tasks.llm.answers import not_understood, read_value
from tasks.llm.chat import ChatAnswer
from tasks.scoring.base import AspectText

if TYPE_CHECKING:
    pass


def aspect_text(name: str, dimension: str, folder: str | None = None) -> AspectText:
    """Return an aspect as evaluators are told of it.

    Parameters
    ----------
    name, dimension
        Our name, and the paper's id.
    folder
        Where ``NAME.txt`` is looked for first.

    Raises
    ------
    UserInputError
        If a text cannot be read or is empty.
    PrerequisiteError
        If there is none: an aspect that a package adds needs one of the user's.
    """
    places = [resources.files("tasks.scoring").joinpath("descriptions", f"{name}.txt")]
    if folder is not None:
        if not Path(folder).is_dir():
            raise UserInputError(f"descriptions: {folder} is no folder")
        places.insert(0, Path(folder) / f"{name}.txt")
    for place in places:
        if place.is_file():
            try:
                text = " ".join(place.read_text(encoding="utf-8").split())
            except (OSError, UnicodeDecodeError) as problem:
                raise UserInputError(f"{place} cannot be read: {problem}") from problem
            if not text:
                raise UserInputError(f"{place} is empty: say what the aspect is about in a video's content")
            return AspectText(name=name, dimension=dimension, description=text)
    raise PrerequisiteError(
        f"there is no description of aspect {name} for evaluators: write one into a file {name}.txt, and "
        "give its folder with --descriptions"
    )


def text_digest(text: AspectText) -> str:
    """Return the checksum of what evaluators are told of an aspect."""
    return digest_value(text)


#: What a judge answers with.
CHOICE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"better": {"type": "string", "enum": ["first", "second"]}},
    "required": ["better"],
    "additionalProperties": False,
}


@cache
def prompt_text(name: str) -> str:
    """Return one of our prompts, ``tasks/scoring/prompts/NAME.txt``."""
    return (files("tasks.scoring") / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip()


def filled(template: str, **values: str) -> str:
    """Return a template with its placeholders replaced, once: what is put in is not looked at again."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)


def read_choice(answer: ChatAnswer) -> Choice:
    """Return which video an answer names.

    Raises
    ------
    NotJudged
        `not_understood` if it does not name exactly one as it was asked to; nothing is guessed.
    """
    value = read_value(answer, "better")
    if value == "first":
        return "first"
    if value == "second":
        return "second"
    raise not_understood(answer, "neither first nor second")
