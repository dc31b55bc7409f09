"""Instructions for judges: descriptions of aspects, and the choice in their answers."""

from __future__ import annotations

from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice
from tasks.llm.answers import not_understood, objects, read_value
from tasks.llm.chat import ChatAnswer
from tasks.llm.prompt_files import DESCRIPTIONS, own_description, prompt_catalogue, prompt_text
from tasks.scoring.base import AspectText


def aspect_text(name: str, dimension: str, prompts: str | None = None) -> AspectText:
    """Return an aspect as it is described to evaluators.

    Parameters
    ----------
    name, dimension
        Name of the aspect, and the paper's id.
    prompts
        The user's folder of prompts, whose ``descriptions/NAME.txt`` takes precedence.

    Raises
    ------
    UserInputError
        If a text cannot be read or is empty.
    PrerequisiteError
        If there is none: for an aspect that a package adds, the user has to write one.
    """
    key = f"{DESCRIPTIONS}/{name}"
    text = own_description(name, prompts)
    if text is None and key in prompt_catalogue():
        text = prompt_text(key)
    if text is None:
        raise PrerequisiteError(
            f"aspect {name} has no description for evaluators: write one into DIR/{key}.txt, and "
            "give the folder with --prompts DIR"
        )
    return AspectText(name=name, dimension=dimension, description=" ".join(text.split()))


def text_digest(text: AspectText) -> str:
    """Return the checksum of an aspect's description."""
    return digest_value(text)


#: JSON Schema of a judge's answer.
CHOICE_SCHEMA = objects({"better": {"type": "string", "enum": ["first", "second"]}})


def read_choice(answer: ChatAnswer) -> Choice:
    """Return which video an answer names.

    Raises
    ------
    NotJudged
        `not_understood` if it does not name exactly one in the requested form; nothing is guessed.
    """
    value = read_value(answer, "better")
    if value == "first":
        return "first"
    if value == "second":
        return "second"
    raise not_understood(answer, "neither first nor second")
