"""Comprehensiveness: parts of the story are missing (SLVMEval, 4.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from storage_schemas.errors import Reason, SetAside
from storage_schemas.rng import shuffled
from tasks.aspects.base import (
    ANY_CAPTION,
    Arrangement,
    Aspect,
    ClipSpan,
    Control,
    OrderOperation,
    Parameters,
    any_clip,
)


class RemoveParameters(Parameters):
    """No parameters: the recipe sets the number of clips."""


class RemoveClips(OrderOperation[RemoveParameters]):
    """Removes random clips; at least half of the clips remain."""

    name = "remove-clips"
    parameters_type = RemoveParameters

    def most(self, clips: int, parameters: RemoveParameters) -> int:
        """Return half of the clips, rounded down."""
        return clips // 2

    def rearrange(
        self, clips: Sequence[ClipSpan], count: int, seed: tuple[str | int, ...], parameters: RemoveParameters
    ) -> Arrangement:
        """Return the order without the first `count` clips of a keyed shuffle.

        Raises
        ------
        SetAside
            `too_few_clips` if more than half would be removed.
        """
        if count > self.most(len(clips), parameters):
            raise SetAside(
                Reason.TOO_FEW_CLIPS,
                f"{count} of {len(clips)} clips cannot be removed: at least half must remain; "
                "lower clips_per_pair or use a source with more clips",
            )
        drawn = shuffled([clip.index for clip in clips], *seed, "removed")[:count]
        gone = set(drawn)
        return Arrangement(
            order=tuple(clip.index for clip in clips if clip.index not in gone), drawn=tuple(sorted(drawn))
        )


class TrimClips(OrderOperation[RemoveParameters]):
    """Trims the ends of clips by as many frames in total as :class:`RemoveClips` removes; no clip is lost.

    The clips that would be removed are trimmed first, then others of the same shuffle, each by at most half
    of its frames, or by two thirds if that is not enough.
    """

    name = "trim-clips"
    parameters_type = RemoveParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"control": {}}
    default_strength: ClassVar[str] = "control"

    def most(self, clips: int, parameters: RemoveParameters) -> int:
        """Return half of the clips, rounded down: as many as could be removed."""
        return clips // 2

    def rearrange(
        self, clips: Sequence[ClipSpan], count: int, seed: tuple[str | int, ...], parameters: RemoveParameters
    ) -> Arrangement:
        """Return all clips in order, some trimmed, as short in total as without `count` of them.

        Raises
        ------
        SetAside
            `too_few_clips` if more than half would be removed, or the clips are too short to be trimmed.
        """
        removed = set(RemoveClips().rearrange(clips, count, seed, parameters).drawn)
        frames = sum(clip.frame_count for clip in clips if clip.index in removed)
        by_index = {clip.index: clip for clip in clips}
        order = [by_index[index] for index in shuffled([clip.index for clip in clips], *seed, "removed")]
        for kept_of in (2, 3):
            kept = _trimmed(order, frames, kept_of)
            if kept:
                return Arrangement(tuple(clip.index for clip in clips), tuple(sorted(kept)), kept)
        raise SetAside(
            Reason.TOO_FEW_CLIPS,
            f"the clips are too short to be trimmed by {frames} frames in total, as {count} removed "
            "clips have: each must keep a third of its frames",
        )


def _trimmed(clips: Sequence[ClipSpan], frames: int, kept_of: int) -> dict[int, int]:
    """Return the frames left of each trimmed clip, by index, so that `frames` are lost; or nothing.

    Each keeps one of `kept_of` parts, rounded up.
    """
    kept = {}
    for clip in clips:
        lost = min(frames, clip.frame_count - math.ceil(clip.frame_count / kept_of))
        if lost:
            kept[clip.index] = clip.frame_count - lost
            frames -= lost
    return kept if not frames else {}


ASPECT = Aspect(
    name="comprehensiveness",
    dimension="scene",
    category="consistency",
    needs="nothing",
    takes=any_clip,
    operations={RemoveClips.name: RemoveClips()},
    least_clips=2,
    control=Control(
        operation=TrimClips(),
        takes=any_clip,
        needs="clips of two frames or more",
        reason="the video is just as short, but every part of the story remains",
    ),
    caption_advice=ANY_CAPTION,
)
