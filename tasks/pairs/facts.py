"""Facts about a source before and after ingest: timeline, frames of each clip, caption analyses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import IntegrityError, Reason, SetAside
from storage_schemas.frames import ColorSpec
from storage_schemas.ids import artifact_id
from storage_schemas.source import DamageRule, Source, Timeline, read_timeline
from storage_schemas.store import FRAMES, TIMELINE, Store
from tasks.aspects.base import Aspect, ClipSpan, Operation, Parameters
from tasks.captions.stage import is_analysed, source_analyses
from tasks.llm.servers import Servers
from tasks.media.decode import FrameSampler
from tasks.media.probe import probe
from tasks.recipe import Recipe
from tasks.sources.clips import check_clips_against_duration, clips_before

#: Part of the frames' id: increase it when sampling or scaling changes.
SAMPLER_VERSION = 1


def frames_consumes(source: Source, recipe: Recipe) -> dict[str, Any]:
    """Return the inputs of a source's frames; the timeline has the same inputs."""
    consumes = {
        "content_sha256": source.content_sha256,
        "fps": str(recipe.fps),
        "long_side": recipe.long_side,
        "sampler": SAMPLER_VERSION,
    }
    return consumes if recipe.damaged == "refuse" else {**consumes, "damaged": recipe.damaged}


def frames_id(source: Source, recipe: Recipe) -> str:
    """Return the id of a source's frames, without opening the file."""
    return artifact_id(FRAMES, frames_consumes(source, recipe))


def timeline_id(source: Source, recipe: Recipe) -> str:
    """Return the id of a source's timeline, without opening the file."""
    return artifact_id(TIMELINE, frames_consumes(source, recipe))


@dataclass(frozen=True)
class SourceFacts:
    """A source with its timeline, the frames each clip owns, and its caption analyses.

    The source has no clips past the end of a damaged video.
    """

    source: Source
    timeline: Timeline
    spans: tuple[ClipSpan, ...]
    analyses: tuple[CaptionAnalysis, ...]

    @property
    def clips_with_frames(self) -> list[ClipSpan]:
        """The clips that own at least one frame."""
        return [span for span in self.spans if span.frame_count]

    def eligible(self, aspect: Aspect, operation: Operation[Any], parameters: Parameters) -> list[ClipSpan]:
        """Return the clips eligible for an aspect, in clip order; clips without frames are never eligible."""
        return [
            span
            for span in self.clips_with_frames
            if aspect.takes(self.analyses[span.index], span)
            and operation.takes(self.analyses[span.index], span, parameters)
        ]


def clip_spans(source: Source, timeline: Timeline) -> tuple[ClipSpan, ...]:
    """Return the frames that each clip owns: those whose image has start ≤ t < end."""
    return tuple(ClipSpan(clip.index, *timeline.span(clip.start_s, clip.end_s)) for clip in source.clips)


def source_within(source: Source, timeline: Timeline, recipe: Recipe) -> Source:
    """Return a source with the clips that a damaged video still holds; of a whole one, with all.

    Raises
    ------
    SetAside
        `clip_past_end` if a clip ends after a whole video, or the first one after a damaged one.
    """
    # after a prediction, decoding may still find that the file ends early
    may_end_early = timeline.damage or (recipe.damaged != "refuse" and not timeline.exact)
    clips = clips_before(source.clips, timeline.duration_s) if may_end_early else ()
    try:
        check_clips_against_duration(clips or source.clips, timeline.duration_s)
    except SetAside as problem:
        raise SetAside(problem.reason, f"{source.title}: {problem.message}") from problem
    return source.model_copy(update={"clips": clips}) if may_end_early else source


def as_analysed(source: Source, frame_counts: Iterable[int]) -> Source:
    """Return a source as its captions are analysed: those of clips that own no frame are empty.

    Such clips are in no pair, and there may be thousands of them for a short video. The captions left are
    part of the analysis' id, which thus depends on the frames.

    Parameters
    ----------
    frame_counts
        Number of frames that each clip owns, in clip order.
    """
    owned = list(zip(source.clips, frame_counts, strict=True))
    if all(count for _, count in owned):
        return source
    clips = tuple(clip if count else clip.model_copy(update={"caption": ""}) for clip, count in owned)
    return source.model_copy(update={"clips": clips})


def captions_analysed(store: Store, source: Source, recipe: Recipe) -> bool:
    """Return whether the captions of a source are analysed; False if that depends on frames not yet known."""
    if is_analysed(store, source, recipe.caption_analysis):
        return True
    if not store.has(TIMELINE, timeline_id(source, recipe)):
        return False
    try:
        timeline = read_timeline(store, timeline_id(source, recipe))
        source = source_within(source, timeline, recipe)
    except (IntegrityError, SetAside):  # who needs the timeline makes it again, or sets the source aside
        return False
    seen = as_analysed(source, (span.frame_count for span in clip_spans(source, timeline)))
    return is_analysed(store, seen, recipe.caption_analysis)


def file_stamp(path: Path) -> list[int]:
    """Return what changes with a file's content; empty without the file."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return []
    return [state.st_size, state.st_mtime_ns, state.st_ino]


def video_sampler(
    video: str, fps: Fraction, long_side: int, damaged: DamageRule, threads: int = 1
) -> FrameSampler:
    """Return the sampler of a video.

    The process keeps the last one, so that a source that is ingested right after its inspection has its
    packets read once for both.

    Raises
    ------
    SetAside
        If the video cannot be used.
    """
    return _sampler(video, tuple(file_stamp(Path(video))), fps, long_side, damaged, threads)


@lru_cache(maxsize=1)
def _sampler(
    video: str,
    stamp: tuple[int, ...],
    fps: Fraction,
    long_side: int,
    damaged: DamageRule,
    threads: int,
) -> FrameSampler:
    return FrameSampler(Path(video), fps=fps, long_side=long_side, damaged=damaged, threads=threads)


@lru_cache(maxsize=64)
def _predicted(
    video: str, content_sha256: str, fps: Fraction, long_side: int, damaged: DamageRule
) -> Timeline:
    sampler = video_sampler(video, fps, long_side, damaged)
    info, (width, height) = sampler.info, sampler.size
    if sampler.times_s is not None:
        times = [float(time) for time in sampler.times_s]
    else:
        # the packets do not prove the times: estimate them for the plan; ingest stores the exact ones
        times = [float(k / fps) for k in range(round(info.duration_s * fps))]
    return Timeline(
        width=width,
        height=height,
        color=ColorSpec(info.matrix, info.full_range),
        duration_s=info.duration_s,
        pts_s=tuple(times),
        exact=False,
        damage=sampler.damage,
    )


def source_timeline(store: Store, source: Source, recipe: Recipe) -> Timeline:
    """Return the stored timeline of a source; without a sound one, one predicted from its packets."""
    id_ = timeline_id(source, recipe)
    if store.has(TIMELINE, id_):
        try:
            return read_timeline(store, id_)
        except IntegrityError as problem:
            # ingest makes it again
            store.discard(TIMELINE, id_, problem)
    probe(Path(source.video), recipe.damaged, quick=True)
    return _predicted(source.video, source.content_sha256, recipe.fps, recipe.long_side, recipe.damaged)


def require_length(title: str, duration_s: float, recipe: Recipe) -> None:
    """Raise SetAside if a video is too short for a recipe."""
    if duration_s < recipe.least_duration_s:
        raise SetAside(
            Reason.TOO_SHORT,
            f"{title} lasts {duration_s:.1f} s, recipe {recipe.name} requires at least "
            f"{recipe.least_duration_s:g} s (`build --set least_duration_s=N` changes that)",
        )


def source_facts(
    store: Store, source: Source, recipe: Recipe, servers: Servers | None = None, bounded: bool = False
) -> SourceFacts:
    """Return the facts about a source; analyse the captions of clips that own a frame if necessary.

    Parameters
    ----------
    servers
        Model servers available to the caption analysis.
    bounded
        Analyse one part of the captions only.

    Raises
    ------
    Unfinished
        If `bounded`, and captions are left to analyse.
    SetAside
        If the video cannot be used or is too short for the recipe, a clip ends after the video does, or a
        caption cannot be analysed.
    """
    timeline = source_timeline(store, source, recipe)
    require_length(source.title, timeline.duration_s, recipe)
    source = source_within(source, timeline, recipe)
    spans = clip_spans(source, timeline)
    seen = as_analysed(source, (span.frame_count for span in spans))
    return SourceFacts(
        source=source,
        timeline=timeline,
        spans=spans,
        analyses=source_analyses(store, seen, recipe.caption_analysis, servers, bounded),
    )
