"""What answers look like, and how their parts are read; nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storage_schemas.judgement import Failure, whole_characters
from tasks.evaluators.base import NotJudged


def objects(required: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": dict(required),
        "required": list(required),
        "additionalProperties": False,
    }


def text_in(value: Any, key: str) -> str:
    """Return a text of an answer.

    Raises
    ------
    NotJudged
        `not_understood` if it is missing, no text, or empty.
    """
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, str) or not found.strip():
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has no text {key!r}")
    return whole_characters(found.strip())


def texts_in(value: Any, key: str) -> list[str]:
    """Return a list of texts of an answer, the empty ones left out.

    Raises
    ------
    NotJudged
        `not_understood` if it is missing or holds something else.
    """
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has no list of texts {key!r}")
    return [whole_characters(one.strip()) for one in found if one.strip()]


def score_in(value: Any, low: int, high: int) -> int:
    """Return the whole number ``score`` of an answer.

    Raises
    ------
    NotJudged
        `not_understood` if it is missing, no whole number, or outside the scale.
    """
    found = value.get("score") if isinstance(value, dict) else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has no number 'score' but {found!r:.60}")
    if not low <= found <= high:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"a score of {found} is outside the scale {low} to {high}")
    if found != int(found):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"a score of {found} is no whole number")
    return int(found)
