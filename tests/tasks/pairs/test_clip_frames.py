"""Frames that are read ahead: the next clip's while one is computed, and never more than three blocks."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import IntegrityError
from storage_schemas.frames import FrameReader, Planes
from storage_schemas.release import frames_path
from storage_schemas.store import DEGRADED_CLIP
from tasks.aspects.aesthetics import ASPECT as AESTHETICS
from tasks.aspects.base import ClipContext, ClipSpan
from tasks.pairs import clip_frames
from tasks.pairs.clip_frames import ClipFrames, reading_thread
from tasks.pairs.degrade import degrade_source, read_pair
from tasks.pairs.draw import source_jobs
from tasks.recipe import AspectRecipe, Recipe
from tests.tasks.pairs.synthetic import WIDTH, Made, picture

#: Longer than any reading here takes; a test that waits so long has failed.
LONG_S = 20.0


class Trace:
    """What was read, by first frame, with its beginning and end."""

    def __init__(self) -> None:
        self.read: dict[int, tuple[float, float]] = {}
        self.has_read = threading.Condition()

    def wait_until_read(self, first: int) -> bool:
        with self.has_read:
            return self.has_read.wait_for(lambda: first in self.read, LONG_S)


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    kept, original = Trace(), FrameReader.read

    def read(self: FrameReader, first: int, count: int = 1) -> Planes:
        began = time.monotonic()
        planes = original(self, first, count)
        with kept.has_read:
            kept.read[first] = began, time.monotonic()
            kept.has_read.notify_all()
        return planes

    monkeypatch.setattr(FrameReader, "read", read)
    return kept


def drawn(source: Made, aspect: str) -> list[ClipSpan]:
    (job,) = source.jobs(aspect)
    return sorted(job.draw[: job.clips], key=lambda span: span.index)


def test_next_clip_is_read_ahead(source: Made, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Computing a clip ends here only when the next one's frames are there: else it would never end."""
    spans = drawn(source, "aesthetics")
    following = {one.first_frame: other.first_frame for one, other in pairwise(spans)}
    (operation,) = AESTHETICS.operations.values()
    original = type(operation).apply
    seen: list[bool] = []

    def apply(
        self: Any, frames: Planes, first: int, clip: ClipContext, parameters: Any, choice: Mapping[str, Any]
    ) -> Planes:
        if clip.span.first_frame in following:
            seen.append(trace.wait_until_read(following[clip.span.first_frame]))
        return original(self, frames, first, clip, parameters, choice)

    monkeypatch.setattr(type(operation), "apply", apply)
    record = source.pair("aesthetics")
    assert record.clips_degraded == 3
    assert seen == [True, True]
    for manifest in source.store.manifests(DEGRADED_CLIP):
        assert manifest.provenance["waited_for_frames_s"] >= 0


def test_clips_that_are_there_are_not_read_again(source: Made, trace: Trace) -> None:
    source.pair("aesthetics")
    record = read_pair(source.store, source.jobs("aesthetics")[0].pair_id)
    source.store.remove("pair", record.pair_id)
    trace.read.clear()
    assert source.pair("aesthetics") == record
    assert not trace.read


@pytest.fixture
def clip(source: Made, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], ClipFrames]]:
    """Makes a clip of that number of frames, in blocks of two."""
    monkeypatch.setattr(clip_frames, "BLOCK_FRAMES", 2)
    reader = FrameReader(frames_path(source.store, source.frames_id))
    with reading_thread() as thread:
        yield lambda count: ClipFrames(reader, ClipSpan(0, 3, count), thread)


def test_read_gives_the_arrays_frames_in_any_order_read_only(clip: Callable[[int], ClipFrames]) -> None:
    for count, at_once in itertools.product((1, 2, 3, 4, 7), (1, 2, 3, 7)):
        frames = clip(count)
        expected = np.stack([picture(3 + place) for place in range(count)])
        for _ in range(2):  # an operation chooses, then it applies
            for place in range(0, count, at_once):
                some = frames.read(place, min(at_once, count - place))
                np.testing.assert_array_equal(some, expected[place : place + at_once])
                assert len(frames._blocks) <= 2
        np.testing.assert_array_equal(frames.read(count - 1, 1), expected[-1:])
        assert frames.read(0, 0).shape == (0, *expected.shape[1:])
        with pytest.raises(ValueError, match="read-only"):
            frames.read(0, 1)[:] = 0


def test_failed_read_is_retried(clip: Callable[[int], ClipFrames], monkeypatch: pytest.MonkeyPatch) -> None:
    original, away = FrameReader.read, [True]

    def read(self: FrameReader, first: int, count: int = 1) -> Planes:
        if away:
            raise IntegrityError("the store is away")
        return original(self, first, count)

    monkeypatch.setattr(FrameReader, "read", read)
    frames = clip(2)
    frames.start()
    with pytest.raises(IntegrityError, match="is away"):
        frames.read(0, 1)
    away.clear()
    np.testing.assert_array_equal(frames.read(0, 1)[0], picture(3))


def test_the_thread_is_gone_when_the_source_is_done(source: Made) -> None:
    before = threading.active_count()
    source.pair("aesthetics")
    assert threading.active_count() <= before
    with reading_thread() as thread:
        assert isinstance(thread, ThreadPoolExecutor)
    with pytest.raises(RuntimeError):
        thread.submit(int)


@pytest.mark.models
def test_models_never_wait_for_frames_and_are_loaded_once(
    made: Callable[..., Made], tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sources through real classes: all frames but a source's first are there when they are needed."""
    from tasks.models import loaders, residence
    from tasks.models.hub import ModelHub
    from tests.tiny_models.paper_site import CHANGED, tiny_models

    own = residence.Residence()
    monkeypatch.setattr("tasks.models.hub.residence", lambda: own)
    loaded: list[str] = []
    original_load = loaders.load_model

    def load(kind: str, *args: Any, **options: Any) -> Any:
        loaded.append(kind)
        return original_load(kind, *args, **options)

    monkeypatch.setattr("tasks.models.hub.load_model", load)
    entry = AspectRecipe(
        operation="grounding-dino-sd-inpainting",
        parameters=CHANGED["object_integrity"] | {"dtype": "float16"},
    )
    recipe = Recipe(name="t", seed=3, clips_per_pair=3, long_side=WIDTH, aspects={"object_integrity": entry})
    hub = ModelHub([tiny_models(tmp_path / "models", tmp_path / "scratch")])
    caption = CaptionAnalysis(subject=("dog",), scene=("a field",))
    for name in ("one", "two"):
        source = made(analyses=(caption,) * 12, recipe=recipe, name=name)
        jobs, _ = source_jobs(source.facts, recipe, hub, tuple(recipe.aspects))
        trace.read.clear()
        spans = sorted(jobs[0].draw[:3], key=lambda span: span.index)
        assert not degrade_source(source.store, source.facts, jobs, hub).set_aside
        clips = {
            manifest.content["first_frame"]: manifest.provenance
            for manifest in source.store.manifests(DEGRADED_CLIP)
            if manifest.content["source_id"] == name
        }
        assert sorted(clips) == [span.first_frame for span in spans]
        ends = [trace.read[span.first_frame][1] for span in spans]
        assert ends == sorted(ends)
        for span in spans[1:]:
            assert clips[span.first_frame]["waited_for_frames_s"] < clips[span.first_frame]["seconds"] / 10
        assert all(made_by["inpainter"]["dtype"] == "float32" for made_by in clips.values())
    assert sorted(loaded) == ["detector", "inpainter"]
