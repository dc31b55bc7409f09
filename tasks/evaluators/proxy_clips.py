"""One clip of two is degraded, by the operation of an aspect, without a store or a build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.frames import Planes
from storage_schemas.rng import shuffled
from tasks.aspects.base import (
    Aspect,
    ClipContext,
    ClipNotDegradable,
    ClipSpan,
    Models,
    Operation,
    OrderOperation,
    Parameters,
    PixelOperation,
)
from tasks.aspects.registry import aspect as find_aspect
from tasks.evaluators.joined import ChangedSide, JoinedSide
from tasks.media.planes import planes_to_rgb, rgb_to_planes
from tasks.pairs.degrade_clip import absolute_difference
from tasks.pairs.view import Side


class _NoModels(Models):
    def get(self, name: str, **options: str | float | bool) -> Any:
        raise LookupError(f"an operation without models asks for {name}")


@dataclass(frozen=True)
class Damage:
    """How one clip of a joined video is degraded; every draw is keyed by the seed and the prompts."""

    aspect: Aspect
    operation: Operation[Any]
    parameters: Parameters
    seed: int

    def identity(self, couple: Sequence[str]) -> list[Any]:
        """Return all that the degraded video depends on besides its clips, JSON-able."""
        parameters = self.parameters.model_dump(mode="json")
        return [self.operation.name, self.operation.version, parameters, *self._key(couple)]

    def _key(self, couple: Sequence[str]) -> tuple[str | int, ...]:
        return (self.seed, "+".join(couple), self.aspect.name)

    def degraded(self, clips: Sequence[Side], couple: Sequence[str]) -> tuple[Side, dict[str, Any]]:
        """Return the joined video with one clip degraded, and what was done.

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
            found = self.operation.rearrange(spans, 1, key, self.parameters)
            return JoinedSide(clips, found.order), done | {"clips": list(found.drawn)}
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

        def read(place: int, count: int) -> Planes:
            return clip.planes(range(place, place + count))

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


def damage_of(aspect: str, operation: str, strength: str, seed: int) -> Damage:
    """Return how the operation of an aspect degrades one clip of two.

    Raises
    ------
    UserInputError
        If there is no such aspect, operation or strength; or if it needs more than a clip's pictures: a
        model, or what a long caption names.
    """
    found = find_aspect(aspect)
    if not found.operations:
        raise UserInputError(f"aspect {aspect} has no operation")
    chosen = found.operation(operation or next(iter(found.operations)))
    if found.needs != "nothing" or chosen.models or not isinstance(chosen, OrderOperation | PixelOperation):
        raise UserInputError(
            f"{aspect} by {chosen.name} needs a model or what a caption names; the study on short videos "
            "takes aspects that need nothing, such as comprehensiveness, aesthetics or technical_quality"
        )
    return Damage(found, chosen, chosen.parameters(strength or None), seed)
