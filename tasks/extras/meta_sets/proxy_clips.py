"""Lazy videos of the proxy study: short videos joined, with one clip degraded by an aspect's
operation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.ids import digest_text
from storage_schemas.rng import shuffled
from tasks.aspects.base import (
    Aspect,
    ClipContext,
    ClipNotDegradable,
    ClipSpan,
    Operation,
    OrderOperation,
    Parameters,
    PixelOperation,
)
from tasks.aspects.registry import aspect as find_aspect
from tasks.media.planes import empty_planes, planes_to_rgb, rgb_to_planes, split_planes
from tasks.models.base import Models
from tasks.pairs.degrade_clip import absolute_difference
from tasks.pairs.view import Side

_NO_COLOUR = 128


class ChangedSide(Side):
    """A short clip with changed pixels; all frames are made when the first is read.

    Parameters
    ----------
    clip
        The original clip.
    change
        Computes the planes ``(n, H·3/2, W)`` of all its frames from those of the clip.
    name
        Identifies the change and everything its pixels depend on: part of the frames' identity.
    """

    def __init__(self, clip: Side, change: Callable[[Planes], Planes], name: str) -> None:
        self._clip, self._change, self._name = clip, change, name
        self.width, self.height, self.color, self.fps = clip.width, clip.height, clip.color, clip.fps

    @cached_property
    def _frames(self) -> Planes:
        frames = self._change(self._clip.planes(range(len(self._clip))))
        frames.setflags(write=False)
        return frames

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._clip)

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return frames by index as ``(n, H·3/2, W)`` uint8."""
        return self._frames[list(indices)]

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return the identity of frames: the clip's, and the change's."""
        # a change may depend on the whole clip and on the position in it
        whole = digest_text(f"{self._clip.identity()}:{self._name}")
        return [f"{whole}:{index}" for index in indices]


class JoinedSide(Side):
    """A sequence of clips on one canvas.

    The canvas is as wide as the widest and as high as the highest of all clips, whichever are shown. A
    smaller
    clip is centred, with black around it; one with another colour matrix or range is
    converted to the first one's.

    Parameters
    ----------
    clips
        All clips, with the same number of frames a second.
    order
        Which of them are shown, one after another; all by default.

    Raises
    ------
    ValueError
        If there are none, or their rates differ.
    """

    def __init__(self, clips: Sequence[Side], order: Sequence[int] | None = None) -> None:
        if not clips or len({clip.fps for clip in clips}) > 1:
            raise ValueError("joining needs at least one clip, and all at one rate")
        self._clips = list(clips)
        self._shown = [self._clips[at] for at in (range(len(clips)) if order is None else order)]
        self._ends = list(accumulate(len(clip) for clip in self._shown))
        self.width = max(clip.width for clip in clips)
        self.height = max(clip.height for clip in clips)
        self.color: ColorSpec = clips[0].color
        self.fps = clips[0].fps

    def __len__(self) -> int:
        """Return the number of frames."""
        return self._ends[-1] if self._ends else 0

    @cached_property
    def family(self) -> str:
        """Sharing group of both videos of a pair: all clips of its canvas."""
        return digest_text("\n".join(clip.family for clip in self._clips))

    def _locate(self, index: int) -> tuple[Side, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"frame {index} of {len(self)}")
        at = bisect_right(self._ends, index)
        clip = self._shown[at]
        return clip, index - (self._ends[at] - len(clip))

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return the identity of frames: the clips', and the canvas."""
        reach = "full" if self.color.full_range else "limited"
        canvas = f"{self.width}x{self.height}:{self.color.matrix}:{reach}"
        located = [self._locate(index) for index in indices]
        return [f"{clip.frame_ids([at])[0]}@{canvas}" for clip, at in located]

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return frames by index as ``(n, H·3/2, W)`` uint8; neighbours in a clip are read together."""
        located = [self._locate(index) for index in indices]
        parts: list[Planes] = []
        start = 0
        for end in range(1, len(located) + 1):
            clip = located[start][0]
            if end == len(located) or located[end][0] is not clip:
                parts.append(self._on_canvas(clip, clip.planes([at for _, at in located[start:end]])))
                start = end
        return np.concatenate(parts) if parts else empty_planes(0, self.height, self.width)

    def _on_canvas(self, clip: Side, planes: Planes) -> Planes:
        if clip.color != self.color:
            planes = rgb_to_planes(planes_to_rgb(planes, clip.color), self.color)
        if (clip.width, clip.height) == (self.width, self.height):
            return planes
        canvas = empty_planes(len(planes), self.height, self.width)
        to, given = split_planes(canvas), split_planes(np.ascontiguousarray(planes))
        to.y[...] = 0 if self.color.full_range else 16
        to.u[...] = to.v[...] = _NO_COLOUR
        # even, so that chroma samples stay aligned
        top, left = ((self.height - clip.height) // 4) * 2, ((self.width - clip.width) // 4) * 2
        to.y[:, top : top + clip.height, left : left + clip.width] = given.y
        rows = slice(top // 2, (top + clip.height) // 2)
        columns = slice(left // 2, (left + clip.width) // 2)
        to.u[:, rows, columns], to.v[:, rows, columns] = given.u, given.v
        return canvas


class _NoModels(Models):
    def get(self, name: str, **options: str | float | bool) -> Any:
        raise LookupError(f"an operation without models asks for {name}")


@dataclass(frozen=True)
class ClipDamage:
    """Degrades one clip of a joined video; every draw is keyed by the seed and the prompts."""

    aspect: Aspect
    operation: Operation[Any]
    parameters: Parameters
    seed: int

    def identity(self, couple: Sequence[str]) -> list[Any]:
        """Return everything the degraded video depends on besides its clips, JSON-compatible."""
        parameters = self.parameters.model_dump(mode="json")
        return [self.operation.name, self.operation.version, parameters, *self._key(couple)]

    def _key(self, couple: Sequence[str]) -> tuple[str | int, ...]:
        return (self.seed, "+".join(couple), self.aspect.name)

    def degraded(self, clips: Sequence[Side], couple: Sequence[str]) -> tuple[Side, dict[str, Any]]:
        """Return the joined video with one clip degraded, and a record of the change.

        Raises
        ------
        SetAside
            If no clip can be degraded.
        """
        key = self._key(couple)
        starts = [sum(len(clip) for clip in clips[:at]) for at in range(len(clips))]
        spans = [ClipSpan(at, starts[at], len(clip)) for at, clip in enumerate(clips)]
        done: dict[str, Any] = {"operation": self.operation.name}
        if isinstance(self.operation, OrderOperation):
            rearranged = self.operation.rearrange(spans, 1, key, self.parameters)
            return JoinedSide(clips, rearranged.order), done | {"clips": list(rearranged.drawn)}
        problem: ClipNotDegradable | None = None
        for span in shuffled(spans, *key, "clips"):
            try:
                changed, choice = self._changed(clips[span.index], span, key)
            except ClipNotDegradable as reason:
                problem = reason
                continue
            shown = [changed if at == span.index else clip for at, clip in enumerate(clips)]
            return JoinedSide(shown), done | {"clips": [span.index], "choice": choice}
        raise SetAside(
            Reason.NOT_DIFFERENT_ENOUGH, f"no clip of {'+'.join(couple)} can be degraded: {problem}"
        )

    def _changed(self, clip: Side, span: ClipSpan, key: tuple[str | int, ...]) -> tuple[Side, dict[str, Any]]:
        operation = self.operation
        assert isinstance(operation, PixelOperation)

        def read(index: int, count: int) -> Planes:
            return clip.planes(range(index, index + count))

        context = ClipContext(
            span=span,
            color=clip.color,
            analysis=CaptionAnalysis(),
            seed=key,
            models=_NoModels(),
            read=read,
        )
        choice = operation.choose(context, self.parameters)

        def change(frames: Planes) -> Planes:
            made = []
            for first in range(0, len(frames), operation.frames_at_once):
                some = frames[first : first + operation.frames_at_once]
                if operation.works_on == "rgb":
                    rgb = planes_to_rgb(some, clip.color)
                    new = operation.apply(rgb, first, context, self.parameters, choice)
                    made.append(rgb_to_planes(new, clip.color))
                else:
                    made.append(operation.apply(some, first, context, self.parameters, choice))
            return np.concatenate(made)

        changed = ChangedSide(
            clip, change, f"{operation.name}:{operation.version}:{self.parameters!r}:{choice!r}"
        )
        before, after = (side.planes(range(len(clip))) for side in (clip, changed))
        difference = absolute_difference(before, after) / max(before.size, 1)
        if difference < operation.threshold:
            raise ClipNotDegradable(
                f"clip {span.index}: mean difference {difference:.2f} is below {operation.threshold:g}"
            )
        return changed, choice


def damage_of(aspect: str, operation: str, strength: str, seed: int) -> ClipDamage:
    """Return the degradation of one of two clips by an aspect's operation.

    Raises
    ------
    UserInputError
        If there is no such aspect, operation or strength; or if it needs more than a clip's pictures: a
        model, or a caption's words.
    """
    damaged = find_aspect(aspect)
    if not damaged.operations:
        raise UserInputError(f"aspect {aspect} has no operation")
    selected = damaged.operation(operation or next(iter(damaged.operations)))
    if (
        damaged.needs != "nothing"
        or selected.models
        or not isinstance(selected, OrderOperation | PixelOperation)
    ):
        raise UserInputError(
            f"{aspect} by {selected.name} needs a model or a caption's words; the study on short videos "
            "takes aspects that need nothing, such as comprehensiveness, aesthetics or technical_quality"
        )
    return ClipDamage(damaged, selected, selected.parameters(strength or None), seed)
