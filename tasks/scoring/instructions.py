"""What judges are told: texts of aspects and prompts, and the choice that answers name."""

from __future__ import annotations

from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice
from tasks.llm.answers import not_understood, objects, read_value
from tasks.llm.chat import ChatAnswer
from tasks.llm.prompt_files import DESCRIPTIONS, own_description, prompt_catalogue, prompt_text
from tasks.scoring.base import AspectText


def aspect_text(name: str, dimension: str, prompts: str | None = None) -> AspectText:
    """Return an aspect as evaluators are told of it.

    Parameters
    ----------
    name, dimension
        Our name, and the paper's id.
    prompts
        The user's folder of prompts, in which ``descriptions/NAME.txt`` is looked for first.

    Raises
    ------
    UserInputError
        If a text cannot be read or is empty.
    PrerequisiteError
        If there is none: an aspect that a package adds needs one of the user's.
    """
    key = f"{DESCRIPTIONS}/{name}"
    text = own_description(name, prompts)
    if text is None and key in prompt_catalogue():
        text = prompt_text(key)
    if text is None:
        raise PrerequisiteError(
            f"there is no description of aspect {name} for evaluators: write one into DIR/{key}.txt, and "
            "give the folder with --prompts DIR"
        )
    return AspectText(name=name, dimension=dimension, description=" ".join(text.split()))


def text_digest(text: AspectText) -> str:
    """Return the checksum of what evaluators are told of an aspect."""
    return digest_value(text)


#: What a judge answers with.
CHOICE_SCHEMA = objects({"better": {"type": "string", "enum": ["first", "second"]}})


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
