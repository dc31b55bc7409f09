"""Degrade one clip and store the result as an artifact."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from storage_schemas.errors import Reason, SetAside
from storage_schemas.frames import FrameWriter, Planes
from storage_schemas.ids import artifact_id
from storage_schemas.pair import Segment
from storage_schemas.provenance import provenance
from storage_schemas.release import CLIP_FILE
from storage_schemas.rng import derived_seed
from storage_schemas.store import DEGRADED_CLIP, Store
from tasks.aspects.base import ClipContext, ClipNotDegradable, ClipSpan, FrameMapOperation, PixelOperation
from tasks.media.planes import planes_to_rgb, rgb_to_planes
from tasks.models.base import Models
from tasks.pairs.clip_frames import ClipFrames
from tasks.pairs.draw import PairJob
from tasks.pairs.facts import SourceFacts

#: Distributions whose versions may affect a degraded clip's pixels.
PACKAGES = (
    "opencv-contrib-python-headless",
    "pillow",
    "onnxruntime",
    "torch",
    "transformers",
    "diffusers",
)


@dataclass(frozen=True)
class DegradedClip:
    """How one clip was degraded: its segment in the edit list and the operation's choices.

    `digests` are the checksums of its new frames if they were just written.
    """

    segment: Segment
    choice: dict[str, Any]
    digests: Sequence[int] = ()


class NotDifferentEnough(ClipNotDegradable):
    """The degraded clip looks like its source."""


def degrade_clip(
    store: Store,
    facts: SourceFacts,
    job: PairJob,
    frames: ClipFrames,
    models: Models,
    made: Callable[[int], None] = lambda frames: None,
) -> DegradedClip:
    """Return the degraded form of a clip; create it if the store does not have it.

    Parameters
    ----------
    made
        Called with the number of new frames after each batch.

    Raises
    ------
    ClipNotDegradable
        If the operation finds nothing in the clip, or the result does not differ from it.
    """
    span = frames.span
    segment = Segment(
        kind="degraded", clip=span.index, first_frame=span.first_frame, frame_count=span.frame_count
    )
    if isinstance(job.operation, FrameMapOperation):
        indices = job.operation.frame_map(span.frame_count, job.parameters)
        _check_difference(job, span, _map_difference(frames, indices))
        shown = tuple(span.first_frame + index for index in indices)
        return DegradedClip(segment.model_copy(update={"frame_map": shown}), {})
    consumes = clip_consumes(facts, job, span)
    id_ = artifact_id(DEGRADED_CLIP, consumes)
    digests: Sequence[int] = ()
    if not store.has(DEGRADED_CLIP, id_):
        digests = _write_clip(store, facts, job, frames, models, consumes, made)
    content = store.manifest(DEGRADED_CLIP, id_).content
    _check_difference(job, span, content["difference"])
    choice = content["choice"]
    return DegradedClip(segment.model_copy(update={"degraded_clip": id_}), choice, digests)


def needs_frames(store: Store, facts: SourceFacts, job: PairJob, span: ClipSpan) -> bool:
    """Return whether :func:`degrade_clip` will read the clip's frames: unless its degraded form exists."""
    if isinstance(job.operation, FrameMapOperation):
        return True
    return not store.has(DEGRADED_CLIP, artifact_id(DEGRADED_CLIP, clip_consumes(facts, job, span)))


def clip_consumes(facts: SourceFacts, job: PairJob, span: ClipSpan) -> dict[str, Any]:
    """Return the inputs of a degraded clip's id."""
    return {
        "frames": job.consumes["frames"],
        "clip": span.index,
        "first": span.first_frame,
        "count": span.frame_count,
        "operation": job.operation.name,
        "version": job.operation.version,
        "parameters": job.parameters.model_dump(mode="json"),
        "seed": str(derived_seed(*job.seed)),
        "models": job.consumes["models"],
        "analysis": job.operation.consumed_analysis(facts.analyses[span.index]),
    }


def _write_clip(
    store: Store,
    facts: SourceFacts,
    job: PairJob,
    frames: ClipFrames,
    models: Models,
    consumes: dict[str, Any],
    made: Callable[[int], None],
) -> Sequence[int]:
    """Degrade a clip and store it; return the checksums of its frames."""
    operation, span, timeline = job.operation, frames.span, facts.timeline
    if not isinstance(operation, PixelOperation):
        raise TypeError(f"{operation.name} makes no pixels")
    started, waited_before = time.monotonic(), frames.waited_s
    clip = ClipContext(
        span=span,
        color=timeline.color,
        analysis=facts.analyses[span.index],
        seed=job.seed,
        models=models,
        read=frames.read,
    )
    choice = operation.choose(clip, job.parameters)
    with store.stage(DEGRADED_CLIP, consumes) as staged:
        writer = FrameWriter(
            staged.path / CLIP_FILE, timeline.width, timeline.height, timeline.color, span.frame_count
        )

        def degraded(planes: Planes, index: int) -> Planes:
            if operation.works_on == "planes":
                return operation.apply(planes, index, clip, job.parameters, choice)
            rgb = planes_to_rgb(planes, timeline.color)
            return rgb_to_planes(operation.apply(rgb, index, clip, job.parameters, choice), timeline.color)

        at_once = operation.frames_at_once
        difference, changed = _each_batch(frames, at_once, degraded, writer, timeline.pts_s, made)
        choice |= operation.settle(changed, span.frame_count, job.parameters, clip)
        _check_difference(job, span, difference)
        written = writer.finish()
        staged.content_checksum = written.checksum
        staged.content = {
            "source_id": facts.source.id,
            "aspect": job.aspect.name,
            "operation": operation.name,
            "clip": span.index,
            "first_frame": span.first_frame,
            "frames": written.count,
            "height": written.height,
            "width": written.width,
            "difference": round(difference, 4),
            "choice": choice,
        }
        if clip.log.measured:
            staged.content["measured"] = _summary(clip.log.measured)
        staged.provenance = provenance(
            started, packages=PACKAGES, **_ran(started, frames, waited_before, job, models), **clip.log.facts
        )
    return writer.digests


def _ran(
    started: float, frames: ClipFrames, waited_before: float, job: PairJob, models: Models
) -> dict[str, Any]:
    """Return speed, wait for frames, and the devices of the models, for the provenance."""
    seconds = max(time.monotonic() - started, 1e-6)
    ran: dict[str, Any] = {
        "frames_per_second": round(frames.span.frame_count / seconds, 3),
        "waited_for_frames_s": round(frames.waited_s - waited_before, 3),
    }
    return {**ran, "models_on": models.device} if job.consumes["models"] else ran


def _summary(measured: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return mean, minimum and maximum of each measurement, by name."""
    return {
        name: {
            "mean": round(float(np.mean(values)), 4),
            "least": round(min(values), 4),
            "most": round(max(values), 4),
            "frames": len(values),
        }
        for name, values in measured.items()
    }


def _each_batch(
    frames: ClipFrames,
    at_once: int,
    degraded: Callable[[Planes, int], Planes],
    writer: FrameWriter,
    pts_s: tuple[float, ...],
    made: Callable[[int], None],
) -> tuple[float, int]:
    """Write all frames of a clip; return their mean difference and how many frames differ."""
    span, total, size, changed = frames.span, 0, 0, 0
    for start in range(0, span.frame_count, at_once):
        before = frames.read(start, min(at_once, span.frame_count - start))
        after = degraded(before, start)
        size += before.size
        for offset, planes in enumerate(after):
            frame_difference = absolute_difference(before[offset], planes)
            total += frame_difference
            changed += frame_difference > 0
            writer.append(planes, pts_s[span.first_frame + start + offset])
        made(len(after))
    return total / size, changed


def absolute_difference(before: Planes, after: Planes) -> int:
    """Return the sum of absolute differences, in 8-bit steps."""
    higher, lower = np.maximum(before, after), np.minimum(before, after)
    return int(np.subtract(higher, lower, out=higher).sum(dtype=np.int64))


def _check_difference(job: PairJob, span: ClipSpan, difference: float) -> None:
    """Check that a clip changed enough and, of a control, not too much.

    Raises
    ------
    ClipNotDegradable
        If it did not.
    """
    operation = job.operation
    assert isinstance(operation, PixelOperation | FrameMapOperation)
    if difference < operation.threshold:
        raise NotDifferentEnough(
            f"clip {span.index}: mean difference {difference:.2f} is below {operation.threshold:g}"
        )
    if job.control is not None and difference > job.control.max_difference:
        raise ClipNotDegradable(
            f"clip {span.index}: mean difference {difference:.2f} is above {job.control.max_difference:g}, "
            "more than a control may change"
        )


def _map_difference(frames: ClipFrames, indices: list[int]) -> float:
    """Return the mean difference between a clip and itself with other frames at its places."""
    span, total = frames.span, 0
    frame_size = 0
    for index, shown in enumerate(indices):
        before = frames.read(index, 1)
        frame_size = before.size
        if shown != index:
            total += absolute_difference(before, frames.read(shown, 1))
    return total / (frame_size * span.frame_count)


def pair_failure(job: PairJob, passed_over: dict[int, ClipNotDegradable], title: str) -> SetAside:
    """Return why a pair cannot be made, from the failures of the clips that were tried."""
    same = sum(isinstance(problem, NotDifferentEnough) for problem in passed_over.values())
    reason = Reason.NOT_DIFFERENT_ENOUGH if same * 2 >= len(passed_over) else Reason.NOTHING_FOUND
    first = next(iter(passed_over.values()), None)
    return SetAside(
        reason,
        f"{job.what}: only {len(job.draw) - len(passed_over)} of the {len(job.draw)} eligible clips "
        f"of {title} could be degraded, {job.least} are needed (for example, {first})",
    )
