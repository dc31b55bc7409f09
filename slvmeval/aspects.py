"""The public interface for packages that add an aspect; see ``docs/adding-an-aspect.md``."""

from __future__ import annotations

from storage_schemas.analysis import AgentAction, CaptionAnalysis, ColoredObject, LocatedObject
from storage_schemas.errors import Reason, SetAside
from storage_schemas.frames import ColorSpec, Planes
from tasks.aspects.base import (
    Arrangement,
    Aspect,
    ClipContext,
    ClipNotDegradable,
    ClipSpan,
    Control,
    FrameMapOperation,
    OrderOperation,
    Parameters,
    PixelOperation,
    any_clip,
)
from tasks.media.planes import merge_masked, planes_to_rgb, rgb_to_planes, split_planes
from tasks.models.base import Models

__all__ = [
    "AgentAction",
    "Arrangement",
    "Aspect",
    "CaptionAnalysis",
    "ClipContext",
    "ClipNotDegradable",
    "ClipSpan",
    "ColorSpec",
    "ColoredObject",
    "Control",
    "FrameMapOperation",
    "LocatedObject",
    "Models",
    "OrderOperation",
    "Parameters",
    "PixelOperation",
    "Planes",
    "Reason",
    "SetAside",
    "any_clip",
    "merge_masked",
    "planes_to_rgb",
    "rgb_to_planes",
    "split_planes",
]
