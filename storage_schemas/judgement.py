"""Table `judgements`: one evaluator's answer on one pair in one presentation order; one row a request."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, field_validator

from storage_schemas.model import Frozen

#: In which order the two videos were shown; a scorer sees one at a time, so it has none.
Order = Literal["high_first", "low_first", "apart"]
#: What an evaluator answered, in the words of the request.
Choice = Literal["first", "second", "tie"]
#: The same, freed from the order.
Preferred = Literal["high", "low", "tie"]


class Failure(StrEnum):
    """Why a request has no answer. Stored: never rename a value."""

    NO_ANSWER = "no_answer"
    NOT_UNDERSTOOD = "not_understood"
    CUT_OFF = "cut_off"
    REFUSED = "refused"
    CONTEXT_TOO_LONG = "context_too_long"
    SERVER_DOWN = "server_down"
    NOT_ALLOWED = "not_allowed"
    LIMIT_REACHED = "limit_reached"
    VIDEO_UNREADABLE = "video_unreadable"
    PREREQUISITE_MISSING = "prerequisite_missing"
    INTERNAL_ERROR = "internal_error"


#: Failures that lie with the machine or the budget: asked again by the next run. The others would fail again.
TRANSIENT_FAILURES = frozenset(
    {
        Failure.SERVER_DOWN,
        Failure.NOT_ALLOWED,
        Failure.LIMIT_REACHED,
        Failure.PREREQUISITE_MISSING,
        Failure.INTERNAL_ERROR,
    }
)

JUDGEMENTS = pa.schema(
    [
        ("key", pa.string()),
        ("evaluator", pa.string()),
        ("settings", pa.string()),
        ("pair_id", pa.string()),
        ("source_id", pa.string()),
        ("aspect", pa.string()),
        ("order", pa.string()),
        ("repeat", pa.int32()),
        ("choice", pa.string()),
        ("preferred", pa.string()),
        ("score_high", pa.float64()),
        ("score_low", pa.float64()),
        ("failure", pa.string()),
        ("message", pa.string()),
        ("raw", pa.string()),
        ("reasoning", pa.string()),
        ("finish_reason", pa.string()),
        ("model", pa.string()),
        ("prompt_digest", pa.string()),
        ("frames", pa.int64()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("cost_usd", pa.float64()),
        ("seconds", pa.float64()),
        ("tries", pa.int32()),
        ("details", pa.string()),
        ("at", pa.string()),
    ]
)


_Count = Annotated[int, Field(ge=0, lt=2**63)]


class Judgement(Frozen):
    """One row of the table.

    Parameters
    ----------
    key
        Checksum of all that was asked: an identical request has the same key and is not asked again.
    evaluator, settings
        Its name, and the checksum of its settings; two settings of one evaluator are two evaluators.
    repeat
        Number of this request among equal ones, from 0; above temperature 0 they may differ.
    choice, preferred
        The answer; both None where there is none. A scorer sees no order, so it has no choice.
    score_high, score_low
        The scores of the two videos, from a scorer.
    failure, message
        Why there is no answer, and for a person.
    raw, reasoning, finish_reason
        The model's text, its thoughts where it gives them apart, and why it stopped.
    model, prompt_digest
        The model that answered, as the server names it, and the checksum of the request's texts.
    frames
        Frames that were looked at, of both videos.
    cost_usd
        What it cost by the price list; None where that has no price.
    details
        JSON of what else is worth knowing (which frames, scene settings, captions used).
    """

    key: str
    evaluator: str
    settings: str
    pair_id: str
    source_id: str
    aspect: str
    order: Order
    repeat: int = 0
    choice: Choice | None = None
    preferred: Preferred | None = None
    score_high: float | None = None
    score_low: float | None = None
    failure: Failure | None = None
    message: str = ""
    raw: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    model: str = ""
    prompt_digest: str = ""
    frames: _Count = 0
    tokens_in: _Count = 0
    tokens_out: _Count = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    tries: Annotated[int, Field(ge=0, lt=2**31)] = 1
    details: str = "{}"
    at: str = ""

    @field_validator("*")
    @classmethod
    def _can_be_written(cls, value: Any) -> Any:
        return whole_characters(value) if type(value) is str else value

    @property
    def answered(self) -> bool:
        """Whether there is an answer; a failed request is neither right nor wrong."""
        return self.preferred is not None


def whole_characters(text: str) -> str:
    """Return a model's text with halves of characters replaced: JSON may hold them, no file can."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def preferred(choice: Choice, order: Order) -> Preferred:
    """Return an answer freed from the order in which the videos were shown.

    Examples
    --------
    >>> preferred("first", "low_first")
    'low'
    """
    if choice == "tie":
        return "tie"
    return "high" if (choice == "first") == (order != "low_first") else "low"
