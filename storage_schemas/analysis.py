"""Tables `analyses` (entities named in each caption; SLVMEval, appendix E.1) and `answers` (the language
model's answers they come from).
"""

from __future__ import annotations

import pyarrow as pa

from storage_schemas.model import Frozen

ANALYSES = pa.schema(
    [
        ("source_id", pa.string()),
        ("clip", pa.int32()),
        ("analyser", pa.string()),
        ("analysis", pa.string()),
    ]
)


class AgentAction(Frozen):
    """An agent and its action."""

    agent: str
    action: str


class ColoredObject(Frozen):
    """A colour word and the thing it describes."""

    color: str
    object: str


class LocatedObject(Frozen):
    """A clear position (left, right, up, down, front, back or similar) and the thing there."""

    location: str
    object: str


class CaptionAnalysis(Frozen):
    """Entities named in one caption; a tuple is empty if the caption names none."""

    subject: tuple[str, ...] = ()
    background: tuple[str, ...] = ()
    dynamic_degree: tuple[AgentAction, ...] = ()
    human_action: tuple[AgentAction, ...] = ()
    color: tuple[ColoredObject, ...] = ()
    spatial_relationship: tuple[LocatedObject, ...] = ()
    scene: tuple[str, ...] = ()


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


class CaptionAnswer(Frozen):
    """One accepted answer, with its cost.

    Parameters
    ----------
    caption
        SHA-256 of the caption.
    analysis
        Parsed answer.
    text, reasoning
        Raw answer, and the model's reasoning before it, if the server returns it.
    model
        Name of the model according to the server.
    characters
        Number of caption characters sent; a longer caption is truncated.
    tokens_in, tokens_out, seconds
        Totals over all requests for this caption; tokens are None if the server does not count them.
    tries
        Number of attempts until an answer was valid; `refused` has the reasons for the rejected ones.
    calls
        Number of HTTP requests, including those that failed at the server.
    at
        Time of the answer, UTC.
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
