"""Instructions for judges: descriptions of aspects, and the choice in their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice
from tasks.aspects.registry import added_aspects, aspect
from tasks.llm.answers import not_understood, objects, understood
from tasks.llm.exchange import ChatAnswer
from tasks.llm.json_answers import AnswerForm, Understood
from tasks.llm.prompt_files import DESCRIPTIONS, own_description, prompt_catalogue, prompt_text
from tasks.scoring.base import AspectText


def aspect_text(name: str, dimension: str, prompts: str | None = None) -> AspectText:
    """Return an aspect's description for evaluators.

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
        If there is none: a package's aspect has no `description`, and the user wrote none.
    """
    key = f"{DESCRIPTIONS}/{name}"
    text = own_description(name, prompts)
    if text is None and key in prompt_catalogue():
        text = prompt_text(key)
    if text is None and name in added_aspects():
        text = aspect(name).description
    if not text:
        raise PrerequisiteError(
            f"aspect {name} has no description for evaluators: write one into DIR/{key}.txt, and "
            "give the folder with --prompts DIR"
        )
    return AspectText(name=name, dimension=dimension, description=" ".join(text.split()))


def text_digest(text: AspectText) -> str:
    """Return the checksum of an aspect's description."""
    return digest_value(text)


_CHOICE: Mapping[str, Any] = {"type": "string", "enum": ["first", "second"]}
_SECONDS: Mapping[str, Any] = {"type": "number"}
#: JSON Schema of a judge's answer.
CHOICE_SCHEMA = objects({"better": _CHOICE})
#: The same for a judge that also says where the other video is worse.
INTERVALS_SCHEMA = objects(
    {
        "better": _CHOICE,
        "intervals": {"type": "array", "items": objects({"start_s": _SECONDS, "end_s": _SECONDS})},
    }
)
#: How far past a video's end an interval may reach, seconds: times are rounded.
SLACK_S = 0.5


def read_choice(answer: ChatAnswer, form: AnswerForm = "tolerant") -> tuple[Choice, str]:
    """Return which video an answer names, and how that was found if it was not the whole text.

    Raises
    ------
    NotJudged
        `not_understood` if it does not name exactly one; nothing is guessed.
    """
    read = understood(answer, CHOICE_SCHEMA, form)
    return _choice_in(answer, read), read.found


def _choice_in(answer: ChatAnswer, read: Understood) -> Choice:
    value = read.value["better"]
    if value not in ("first", "second"):
        raise not_understood(answer, "neither first nor second")
    other = "second" if value == "first" else "first"
    # what comes before is the way to the choice
    if re.search(rf"\b{other}\b", read.after, re.IGNORECASE):
        raise not_understood(answer, f"{value} and, after it, {other}")
    return "first" if value == "first" else "second"


def read_intervals(
    answer: ChatAnswer, lengths: tuple[float, float], form: AnswerForm = "tolerant"
) -> tuple[Choice, list[list[float]], str]:
    """Return which video an answer names, where the other one is worse, and how that was found.

    Parameters
    ----------
    answer
        An answer to `INTERVALS_SCHEMA`.
    lengths
        Length of the first and of the second video, seconds. An interval that ends up to `SLACK_S` later is
        cut there.

    Returns
    -------
    tuple
        The better video, ``[start_s, end_s]`` of the other one, in the order of the answer, and how it was
        found if it was not the whole text.

    Raises
    ------
    NotJudged
        `not_understood` if it has another form, or an interval is empty or outside the video.
    """
    found = understood(answer, INTERVALS_SCHEMA, form)
    better, intervals = _choice_in(answer, found), found.value["intervals"]
    length = lengths[better == "first"]
    if not isinstance(intervals, list):
        raise not_understood(answer, "without a list of intervals")
    read = []
    for one in intervals:
        ends: list[Any] = []
        if isinstance(one, dict) and len(one) == 2:
            ends = [one.get("start_s"), one.get("end_s")]
        if not ends or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
            raise not_understood(answer, f"with an interval that is not two numbers, {one!r:.60}")
        start, end = ends
        if not 0 <= start < end <= length + SLACK_S or start >= length:
            raise not_understood(answer, f"with an interval outside the video's {length:g} s, {one!r:.60}")
        read.append([float(start), float(min(end, length))])
    return better, read, found.found
