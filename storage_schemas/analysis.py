"""Table `analyses`: what the caption of each clip names (SLVMEval, appendix E.1)."""

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
