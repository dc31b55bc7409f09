"""Table `answers`: what a language model answered about each caption, beside the analyses made of it."""

from __future__ import annotations

import pyarrow as pa

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.model import Frozen

ANSWERS = pa.schema(
    [
        ("source_id", pa.string()),
        ("clip", pa.int32()),
        ("model", pa.string()),
        ("text", pa.string()),
        ("reasoning", pa.string()),
        ("finish_reason", pa.string()),
        ("characters", pa.int32()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("seconds", pa.float64()),
        ("tries", pa.int32()),
        ("calls", pa.int32()),
        ("refused", pa.list_(pa.string())),
        ("at", pa.string()),
    ]
)


class Answer(Frozen):
    """One accepted answer, with what it took to get it.

    Parameters
    ----------
    caption
        SHA-256 of the caption.
    analysis
        What the answer says.
    text, reasoning
        The answer as it came, and the model's thoughts before it, if the server tells them.
    model
        What the server calls the model that answered.
    characters
        How many characters of the caption were asked about; a longer caption was cut.
    tokens_in, tokens_out, seconds
        Sums over all that was asked about this caption; tokens are None where the server does not count them.
    tries
        How often the caption was asked about until an answer fitted; `refused` says why the others did not.
    calls
        HTTP requests, with those that met a fault of the server.
    at
        When the answer came, UTC.
    """

    caption: str
    analysis: CaptionAnalysis
    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    model: str = ""
    characters: int
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    tries: int = 1
    calls: int = 1
    refused: tuple[str, ...] = ()
    at: str = ""
