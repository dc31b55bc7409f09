"""Table `suite_scores`: what a suite gave one video of one model in one dimension."""

from __future__ import annotations

import pyarrow as pa

from storage_schemas.judgements import Failure
from storage_schemas.model import Frozen

SUITE_SCORES = pa.schema(
    [
        ("key", pa.string()),
        ("suite", pa.string()),
        ("settings", pa.string()),
        ("dimension", pa.string()),
        ("model", pa.string()),
        ("prompt_id", pa.string()),
        ("sample", pa.int32()),
        ("video", pa.string()),
        ("repeat", pa.int32()),
        ("score", pa.float64()),
        ("failure", pa.string()),
        ("message", pa.string()),
        ("calls", pa.int32()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("cost_usd", pa.float64()),
        ("seconds", pa.float64()),
        ("details", pa.string()),
        ("at", pa.string()),
    ]
)


class SuiteScore(Frozen):
    """One row of the table.

    Parameters
    ----------
    key
        Checksum of all that the score depends on: an identical one is not computed, or paid for, again.
    suite, settings
        The suite's name, and the checksum of its settings.
    model, prompt_id, sample
        The model that made the video, the prompt, and the number of the video among those of one prompt.
    video
        Checksum of the video's file.
    repeat
        Number of this score among equal ones, from 0.
    score
        In the dimension's own scale; None where there is none. A failed dimension is missing in a mean, never
        zero.
    failure, message
        Why there is no score, and for a person.
    calls, tokens_in, tokens_out, cost_usd
        Requests to models and what they took; a batch's are shared evenly by its videos.
    details
        JSON of what else is worth knowing: the conversation, matched events, frames.
    """

    key: str
    suite: str
    settings: str
    dimension: str
    model: str
    prompt_id: str
    sample: int = 0
    video: str
    repeat: int = 0
    score: float | None = None
    failure: Failure | None = None
    message: str = ""
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    details: str = "{}"
    at: str = ""
