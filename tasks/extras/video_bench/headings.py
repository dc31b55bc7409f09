"""Answers under headings, the form that the paper's own instructions ask for (Video-Bench, appendix F).

A model that is held to our JSON Schema cannot answer so; one without schemas (``structured = "none"``) does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_HEADING = re.compile(r"^\W*\[([A-Za-z' ]+)\]\W*?:?[ \t]*", re.MULTILINE)
#: Which of our keys stands under which heading; the paper writes some headings in two ways.
_KEYS: Mapping[str, str] = {
    "caption": "caption",
    "video caption": "caption",
    "video description": "description",
    "description": "description",
    "descriptions": "description",
    "updated description": "description",
    "updated video description": "description",
    "your analysis": "analysis",
    "your question": "questions",
    "your questions": "questions",
    "answer": "answers",
    "answers": "answers",
    "evaluation result": "score",
}
_TAG = re.compile(r"</?(?:question|example|instructions)>", re.IGNORECASE)
_NUMBER = re.compile(r"^(?:[-*]\s*|(?:question|answer)?\s*\d*\s*[.):]\s*)", re.IGNORECASE)
_NONE = re.compile(r"^i (?:have|do not have|don't have) (?:no|any|a) questions?\W*$", re.IGNORECASE)
#: A score: a whole number in brackets or before what says why.
_SCORE = re.compile(
    r"(?:^|[:\s(\[])(\d)\]?(?=\s*(?:[,.;)]|because\b|points?\b|$))", re.IGNORECASE | re.MULTILINE
)


def value_under_headings(text: str) -> dict[str, Any]:
    """Return the values of an answer with headings, by our keys.

    Raises
    ------
    ValueError
        If it has none of the headings, one of them twice, or not exactly one score; nothing is guessed.

    Examples
    --------
    >>> value_under_headings("[Caption]: A ball.\\n[Video Description]:\\nIt rolls.")
    {'caption': 'A ball.', 'description': 'It rolls.'}
    """
    parts = _HEADING.split(text)
    found: dict[str, Any] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        key = _KEYS.get(" ".join(name.lower().split()))
        if key is None:
            continue
        if key in found:
            raise ValueError(f"the heading of {key} stands twice")
        content = _TAG.sub("", body).strip()
        found[key] = _lines(content) if key in ("questions", "answers") else content
    if not found:
        raise ValueError("it has none of the headings")
    if "score" in found:
        reason = str(found["score"])
        scores = set(_SCORE.findall(reason))
        if len(scores) != 1:
            raise ValueError(f"it has {len(scores)} scores under its heading")
        found |= {"score": int(scores.pop()), "reason": reason}
    return found


def _lines(content: str) -> list[str]:
    lines = (_NUMBER.sub("", line.strip(), count=1).strip().strip('"“”') for line in content.splitlines())
    return [line for line in lines if line and not _NONE.match(line)]
