"""Tables `analyses` and `answers`: what the caption of each clip names (SLVMEval, appendix E.1), and what a
language model answered about it.
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
    """Who or what moves, and how."""

    agent: str
    action: str


class ColoredObject(Frozen):
    """A colour word and the thing that the caption says has it."""

    color: str
    object: str


class LocatedObject(Frozen):
    """A clear position (left, right, up, down, front, back and their like) and the thing there."""

    location: str
    object: str


class CaptionAnalysis(Frozen):
    """What one caption says; an empty tuple where it says nothing."""

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
