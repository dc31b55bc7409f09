"""Spatial relationship: the clip is mirrored, so left becomes right (SLVMEval, 4.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.frames import Planes
from tasks.aspects.base import Aspect, ClipContext, ClipSpan, Control, Parameters, PixelOperation
from tasks.media.planes import split_planes

#: The words "left" and "right" and their compounds, but not "bright", "leftover" or "upright".
_SIDE = re.compile(r"\b(left|right)(most|wards?)?\b", re.IGNORECASE)

#: Objects that usually show writing, which would reveal that a picture is mirrored.
_WRITING = re.compile(
    r"\b(texts?|words?|letters?|lettering|writing|titles?|subtitles?|captions?|logos?|signs?|signage|labels?"
    r"|posters?|banners?|billboards?|newspapers?|magazines?|books?|numbers?|credits|watermarks?|screens?"
    r"|clocks?|maps?|charts?|scoreboards?|licen[cs]e plates?|number plates?)\b",
    re.IGNORECASE,
)


class FlipParameters(Parameters):
    """No parameters."""


def names_a_side(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return whether a location in the caption contains left or right ("upper left", "right-hand side")."""
    return any(_SIDE.search(where.location) for where in analysis.spatial_relationship)


def may_be_mirrored(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return whether the caption names neither a side nor an object with writing on it."""
    return not names_a_side(analysis, clip) and not any(map(_WRITING.search, _things(analysis)))


def _things(analysis: CaptionAnalysis) -> Iterator[str]:
    yield from (*analysis.subject, *analysis.background, *analysis.scene)
    yield from (entry.object for entry in analysis.color)
    yield from (entry.object for entry in analysis.spatial_relationship)


class HorizontalFlip(PixelOperation[FlipParameters]):
    """Mirrors every plane exactly: flipping twice restores the clip bit by bit.

    The threshold of 2 steps excludes nearly symmetrical pictures, where the flip would not be noticed; over
    60 frames of an animated film the minimum difference was 4.6.
    """

    name = "horizontal-flip"
    parameters_type = FlipParameters
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 2.0

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: FlipParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return planes ``(n, H·3/2, W)``, mirrored."""
        changed = frames.copy(order="C")
        for plane in split_planes(changed):
            plane[...] = plane[..., ::-1].copy()
        return changed


#: What a mirrored clip needs from its caption.
NO_SIDE = "a caption that names neither left or right nor a thing with writing"

#: Control of aspects that concern how a picture looks: all its statistics stay the same to the bit.
MIRRORED = Control(
    operation=HorizontalFlip(),
    takes=may_be_mirrored,
    needs=NO_SIDE,
    reason="the mirrored picture has the same tones, colours, detail and style",
)


ASPECT = Aspect(
    name="spatial_relationship",
    dimension="spatial_relationship",
    category="consistency",
    needs="a location to the left or right (`spatial_relationship`)",
    takes=names_a_side,
    operations={HorizontalFlip.name: HorizontalFlip()},
    control=Control(
        operation=HorizontalFlip(),
        takes=may_be_mirrored,
        needs=NO_SIDE,
        reason="no caption says what is on which side",
    ),
    caption_advice='Say what is on the left or on the right: "On the left of the frame stands a red house."',
)
