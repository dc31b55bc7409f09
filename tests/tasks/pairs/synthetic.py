"""A small source with frames, as the pair tests need it: no video, no decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storage_schemas.analysis import AgentAction, CaptionAnalysis, LocatedObject
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.ids import artifact_id, digest_frame
from storage_schemas.pair import PairRecord
from storage_schemas.source import Clip, Source, Timeline
from storage_schemas.store import FRAMES, Store
from tasks.models.base import Models
from tasks.pairs.degrade import DegradeResult, degrade_source, read_pair
from tasks.pairs.draw import PairJob, source_jobs
from tasks.pairs.facts import SourceFacts, clip_spans, frames_consumes
from tasks.recipe import AspectRecipe, Recipe
from tests.frame_arrays import write_frames

WIDTH, HEIGHT = 32, 16
COLOR = ColorSpec("bt709")

#: Seconds of each clip, and of the gap before it; the last gap is the end of the video.
CLIPS = [(2, 4), (0, 3), (1, 5), (0, 2), (3, 4), (0, 6), (0, 3), (2, 4), (0, 1), (1, 5), (0, 3), (0, 4)]
TAIL = 3

#: The operations that need no model; aesthetics and flip make pixels, the others do not.
ASPECTS = {
    "aesthetics": AspectRecipe(operation="ffmpeg-eq"),
    "spatial_relationship": AspectRecipe(operation="horizontal-flip"),
    "dynamics_degree": AspectRecipe(operation="middle-frame"),
    "comprehensiveness": AspectRecipe(operation="remove-clips"),
    "temporal_flow": AspectRecipe(operation="reinsert-window"),
}
RECIPE = Recipe(name="test", seed=3, clips_per_pair=3, long_side=WIDTH, aspects=ASPECTS)

EVERYTHING = CaptionAnalysis(
    dynamic_degree=(AgentAction(agent="dog", action="runs"),),
    spatial_relationship=(LocatedObject(location="left", object="tree"),),
)


class NoModels(Models):
    """Has nothing, since nothing here needs a model."""

    def get(self, name: str, **options: str | float | bool) -> Any:
        raise AssertionError(f"model {name} was asked for")


def picture(number: int) -> Planes:
    """A frame with dark and light places, each number another one."""
    rng = np.random.default_rng(number)
    return rng.integers(16, 236, (HEIGHT * 3 // 2, WIDTH), dtype=np.uint8)


@dataclass
class Made:
    """A store with one source in it."""

    store: Store
    facts: SourceFacts
    recipe: Recipe
    frames_id: str

    def jobs(self, *aspects: str) -> list[PairJob]:
        jobs, reasons = source_jobs(self.facts, self.recipe, NoModels(), aspects or tuple(ASPECTS))
        assert not reasons, reasons
        return jobs

    def degrade(self, *aspects: str) -> DegradeResult:
        return degrade_source(self.store, self.facts, self.jobs(*aspects), NoModels())

    def pair(self, aspect: str) -> PairRecord:
        """The pair of an aspect, made if it is not there."""
        (job,) = self.jobs(aspect)
        result = self.degrade(aspect)
        assert not result.set_aside, result.set_aside
        return read_pair(self.store, job.pair_id)


def make_source(
    root: Path,
    show: Callable[[int], Planes] = picture,
    analyses: tuple[CaptionAnalysis, ...] | None = None,
    recipe: Recipe = RECIPE,
    name: str = "one",
) -> Made:
    """Make a source from frames by number; `analyses` and `recipe` may be others."""
    clips: list[Clip] = []
    at = 0.0
    for index, (gap, length) in enumerate(CLIPS):
        start, at = at + gap, at + gap + length
        clips.append(Clip(index=index, start_s=start, end_s=at, caption=f"Clip {index}."))
    source = Source(
        id=name,
        adapter="folder",
        title=name,
        video=f"{name}.mp4",
        content_sha256=name.ljust(64, "0"),
        clips=tuple(clips),
    )
    store = Store.create(root)
    frames = [show(number) for number in range(int(at) + TAIL)]
    times = [float(number) for number in range(len(frames))]
    consumes = frames_consumes(source, recipe)
    with store.stage(FRAMES, consumes) as staged:
        staged.content_checksum = write_frames(staged.path / "planes.zarr", frames, times, COLOR).checksum
    timeline = Timeline(
        width=WIDTH,
        height=HEIGHT,
        color=COLOR,
        duration_s=float(len(frames)),
        pts_s=tuple(times),
        digests=tuple(digest_frame(planes) for planes in frames),
    )
    spans = clip_spans(source, timeline)
    facts = SourceFacts(source, timeline, spans, analyses or (EVERYTHING,) * len(clips))
    return Made(store, facts, recipe, artifact_id(FRAMES, consumes))
