"""Texts of aspects for judges, and the choice in their answers."""

from __future__ import annotations

from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice
from tasks.llm.answers import not_understood, objects, read_value
from tasks.llm.chat import ChatAnswer
from tasks.llm.prompt_files import prompt_place, read_prompt
from tasks.scoring.base import AspectText


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
        If there is none: the user must write one for an aspect of another package.
    """
    place = prompt_place(PACKAGE, name, folder, "descriptions")
    if place.is_file():
        return AspectText(name=name, dimension=dimension, description=" ".join(read_prompt(place).split()))
    raise PrerequisiteError(
        f"there is no description of aspect {name} for evaluators: write one into a file {name}.txt, and "
        "give its folder with --descriptions"
    )


def text_digest(text: AspectText) -> str:
    """Return the checksum of an aspect's text."""
    return digest_value(text)


#: JSON Schema of a judge's answer.
CHOICE_SCHEMA = objects({"better": {"type": "string", "enum": ["first", "second"]}})


PACKAGE = "tasks.scoring"


def read_choice(answer: ChatAnswer) -> Choice:
    """Return which video an answer names.

    Raises
    ------
    NotJudged
        `not_understood` unless it names exactly one; nothing is guessed.
    """
    value = read_value(answer, "better")
    if value == "first":
        return "first"
    if value == "second":
        return "second"
    raise not_understood(answer, "neither first nor second")
