"""Long work says how fast it is; short work says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from storage_schemas.frames import Planes
from storage_schemas.store import DEGRADED_CLIP
from tasks.aspects.aesthetics import ASPECT
from tasks.aspects.base import ClipContext, Parameters
from tasks.pairs.degrade import FrameProgress, degrade_source
from tasks.pairs.draw import source_jobs
from tests.tasks.pairs.synthetic import Made, NoModels

LOGGER = "tasks.pairs.degrade"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", LOGGER)
    return caplog


def run(frames: int, at_once: int, seconds: float, *, always: bool) -> None:
    """Make a clip's frames, each in that number of seconds."""
    now = 1000.0
    progress = FrameProgress("color of one", 2, 5, frames, 300, always=always, clock=lambda: now)
    for _ in range(0, frames, at_once):
        now += seconds * at_once
        progress.add(at_once)


def test_slow_frames_have_a_line_every_half_minute_and_at_the_end(lines: pytest.LogCaptureFixture) -> None:
    run(10, 1, 20, always=False)
    assert lines.messages == [
        f"color of one: clip 2 of 5, {done} of 10 frames, 0.05 frames/s, "
        f"{310 - done} frames of the pair left, about 1.7 h"
        for done in (2, 4, 6, 8, 10)
    ]


def test_fast_frames_have_a_line_only_at_the_end_of_a_clip(lines: pytest.LogCaptureFixture) -> None:
    run(1000, 10, 0.01, always=False)
    assert lines.messages == []
    run(1000, 10, 0.01, always=True)
    assert lines.messages == [
        "color of one: clip 2 of 5, 1000 of 1000 frames, 100 frames/s, 300 frames of the pair left, about 3 s"
    ]


class OnGpu(NoModels):
    """Says that it loads on a GPU."""

    device = "cuda"


def degraded(source: Made) -> list[dict[str, Any]]:
    """The provenance of the clips of one pair."""
    jobs, _ = source_jobs(source.facts, source.recipe, OnGpu(), ("aesthetics",))
    assert not degrade_source(source.store, source.facts, jobs, OnGpu()).set_aside
    return [manifest.provenance for manifest in source.store.manifests(DEGRADED_CLIP)]


def test_operations_of_milliseconds_say_nothing(source: Made, lines: pytest.LogCaptureFixture) -> None:
    for made in degraded(source):
        assert made["frames_per_second"] > 0
        assert "models_on" not in made  # it uses none
    assert lines.messages == []


def test_a_clip_made_on_a_gpu_says_so_with_what_ran(
    source: Made, lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # of the class: an object would keep the method of its class as its own, and other tests change the class
    operation: Any = type(next(iter(ASPECT.operations.values())))
    apply = operation.apply

    def in_batches(
        self: Any,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: Parameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        clip.log.ran(batch_sizes=[4, 2])
        planes: Planes = apply(self, frames, first, clip, parameters, choice)
        return planes

    monkeypatch.setattr(operation, "hardware", "gpu")
    monkeypatch.setattr(operation, "apply", in_batches)
    monkeypatch.setattr(operation, "consumed_models", lambda self, parameters, models: {"network": "sum"})
    for made in degraded(source):
        assert (made["models_on"], made["batch_sizes"]) == ("cuda", [4, 2])
        assert made["frames_per_second"] > 0
    assert [line.split(",")[0] for line in lines.messages] == [
        f"aesthetics of one: clip {clip} of 3" for clip in (1, 2, 3)
    ]
    assert lines.messages[-1].endswith("the pair's last")
