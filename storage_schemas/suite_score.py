"""Table `suite_scores`: a suite's score of one video of one model in one dimension."""

from __future__ import annotations

import pyarrow as pa

from storage_schemas.judgements import EstimatedTokens, Failure, estimated_in
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
        ("prompts", pa.string()),
        ("details", pa.string()),
        ("at", pa.string()),
    ]
)


class SuiteScore(Frozen):
    """One row of the table.

    Parameters
    ----------
    key
        Checksum of all inputs of the score; an identical score is not computed or paid for again.
    suite, settings
        The suite's name, followed by ``+`` with its variant and the videos' blur, and the checksum of its
        settings.
    model, prompt_id, sample
        The model that generated the video, the prompt, and the number of the video among those for the
        prompt.
    video
        Checksum of the video's file.
    repeat
        Number of this score among equal ones, from 0.
    score
        On the dimension's own scale; None if there is none. A failed dimension is omitted from means, never
        counted as zero.
    failure, message
        Why there is no score: the kind of failure, and a readable message.
    calls, tokens_in, tokens_out, cost_usd
        Model requests and their cost; those of a batch are divided evenly among its videos.
    prompts
        Which prompts its requests used: ``built-in``, or the folder and the digest of the changes; empty if
        nothing was sent.
    details
        Further data as JSON: the conversation, matched events, frames.
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
    prompts: str = ""
    details: str = "{}"
    at: str = ""

    @property
    def estimated(self) -> EstimatedTokens | None:
        """Estimated usage of answers whose tokens the server did not count, from the details."""
        return estimated_in(self.details)
