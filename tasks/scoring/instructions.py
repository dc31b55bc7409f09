"""Instructions for judges: descriptions of aspects, and the choice in their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice
from tasks.llm.answers import not_understood, objects, once, read_value
from tasks.llm.exchange import ChatAnswer
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


def read_intervals(answer: ChatAnswer, lengths: tuple[float, float]) -> tuple[Choice, list[list[float]]]:
    """Return which video an answer names, and where the other one is worse.

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
        The better video, and ``[start_s, end_s]`` of the other one, in the order of the answer.

    Raises
    ------
    NotJudged
        `not_understood` if it has another form, or an interval is empty or outside the video.
    """
    try:
        value = json.loads(answer.text, object_pairs_hook=once)
        better, intervals = value.pop("better"), value.pop("intervals")
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        raise not_understood(answer, 'not a JSON object {"better": …, "intervals": …}') from None
    if better not in ("first", "second") or value:
        raise not_understood(answer, "neither first nor second, or has other keys")
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
    return better, read
