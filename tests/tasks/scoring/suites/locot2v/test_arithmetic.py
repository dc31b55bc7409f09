"""The scorers that are arithmetic on pixels, as the suite makes them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.llm.usage import NotJudged
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo
from tasks.scoring.suites.locot2v import optical_flow, picture_models
from tasks.scoring.suites.locot2v.flow import dis_flow
from tasks.scoring.suites.locot2v.pixel_metrics import temporal_flicker, warping_error
from tasks.scoring.suites.locot2v.pixel_scorers import PIXEL_DIMENSIONS
from tasks.scoring.suites.locot2v.suite import Locot2vBench
from tests.tasks.scoring.suites.locot2v.videos import PROMPT, Endless, named, scene, scenes, side


def score(dimension: str, video: object, folder: Path, **visual: object) -> ScoredVideo | NotJudged:
    setup = Setup(store_path=str(Store.create(folder).root))
    scorer = Locot2vBench(setup, visual={"base": "cpu-approx", **visual}).scorer(dimension)
    scorer.check()
    (result,) = scorer.score(PROMPT, [named(video)])  # type: ignore[arg-type]
    return result


@pytest.mark.parametrize(
    ("dimension", "value"),
    [("temporal_flickering", 1), ("dynamic_degree", 0), ("motion_smoothness", 1), ("warping_error", 1)],
)
def test_a_still_video_has_known_scores(dimension: str, value: float, tmp_path: Path) -> None:
    result = score(dimension, scenes([5]), tmp_path)
    assert isinstance(result, ScoredVideo)
    assert result.value == pytest.approx(value, abs=1e-3)
    assert result.details["rests_on"] >= 2
    assert result.usage.frames == 5
    # what it rests on is said
    assert result.details["flow"] == {"method": "dis", "preset": "medium"}
    assert ("interpolation" in result.details) == (dimension == "motion_smoothness")


@pytest.mark.parametrize("dimension", PIXEL_DIMENSIONS)
def test_a_video_of_one_frame_has_a_reason_in_place_of_a_score(dimension: str, tmp_path: Path) -> None:
    result = score(dimension, scenes([1]), tmp_path)
    assert isinstance(result, NotJudged)
    assert result.failure is Failure.NO_ANSWER
    assert "of one frame" in result.message or "needs three frames" in result.message


def test_two_frames_that_lie_too_near_are_not_called_one(tmp_path: Path) -> None:
    result = score("dynamic_degree", side([scene(1), scene(2)], fps=24.0), tmp_path)
    assert isinstance(result, NotJudged)
    assert result.message == "no two frames lie 0.125 s apart"


def test_a_setting_changes_the_score_and_what_it_is_known_by(tmp_path: Path) -> None:
    flashing = side([scene(1), np.minimum(scene(1), 225) + 30] * 3)
    result = [score("warping_error", flashing, tmp_path, worst_warping=worst) for worst in (1.0, 2.0)]
    assert isinstance(result[0], ScoredVideo)
    assert isinstance(result[1], ScoredVideo)
    error = result[0].details["error"]
    assert [one.value for one in result] == pytest.approx([1 - error, 1 - error / 2])  # type: ignore[union-attr]
    setup = Setup(store_path=str(Store.create(tmp_path).root))
    given: tuple[Any, ...] = ("cpu-approx", {"base": "cpu-approx", "pixels": {"static_px": 2.0}})
    ours, other = (Locot2vBench(setup, visual=visual) for visual in given)
    name = "temporal_flickering"
    assert ours.scorer(name).settings() != other.scorer(name).settings()


def test_a_setting_that_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match=r"visual\.pixels\.static"):
        score("warping_error", scenes([3]), tmp_path, pixels={"static": 1})


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("pixels", "strongest", 1.5),
        ("pixels", "step_s", 0),
        ("pixels", "long_side", 8),
        # frames are reduced once, by long_side of the dimension
        ("pixels", "flow", {"long_side": 640}),
        ("transitions", "window_s", -1),
        ("transitions", "motion", -0.1),
        ("transitions", "", dict.fromkeys(("pixels", "structure", "features", "motion"), 0)),
    ],
)
def test_constants_that_make_no_sense_are_refused_before_a_video_is_read(
    table: str, name: str, value: Any, tmp_path: Path
) -> None:
    given = {name: value} if name else value
    with pytest.raises(UserInputError, match=rf"visual\.{table}" + (rf"\.{name}" if name else ": .*all 0")):
        score("warping_error", scenes([3]), tmp_path, **{table: given})


@pytest.mark.parametrize("first", ["temporal_flickering", "warping_error"])
def test_flicker_and_warping_error_share_the_flow_of_every_step(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    noise = rng.integers(-3, 4, (6, *scene(1).shape))
    still = [np.clip(scene(1) + one, 0, 255).astype(np.uint8) for one in noise]
    video = side([*still, *[np.roll(scene(2, 128, 48), 4 * at, 1)[:, :64] for at in range(4)]])
    alone = {
        "temporal_flickering": temporal_flicker(video, dis_flow),
        "warping_error": warping_error(video, dis_flow),
    }
    flows = []

    def counted(*frames: Any) -> Any:
        flows.append(frames)
        return dis_flow(*frames)

    monkeypatch.setattr(optical_flow, "dis_flow", counted)
    second = next(name for name in alone if name != first)
    # another process would make its own suite, as here
    result = {name: score(name, video, tmp_path) for name in (first, second)}
    assert len(flows) == 2 * 9
    flicker, warping = result["temporal_flickering"], result["warping_error"]
    assert isinstance(flicker, ScoredVideo)
    assert isinstance(warping, ScoredVideo)
    # bit for bit what each of them is by itself
    assert (flicker.value, flicker.details["rests_on"]) == (
        alone["temporal_flickering"].value,
        alone["temporal_flickering"].steps,
    )
    assert warping.details["error"] == alone["warping_error"].value
    assert 0 < flicker.details["rests_on"] < 9 == warping.details["rests_on"]


@pytest.mark.parametrize(("name", "flows_a_step"), [("temporal_flickering", 1), ("warping_error", 2)])
def test_of_a_video_whose_steps_are_not_kept_each_computes_only_its_own(
    name: str, flows_a_step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = side([scene(1), np.roll(scene(1), 1, 1), scene(1), scene(1)])
    kept = score(name, video, tmp_path)
    flows = []

    def counted(*frames: Any) -> Any:
        flows.append(frames)
        return dis_flow(*frames)

    monkeypatch.setattr(optical_flow, "dis_flow", counted)
    monkeypatch.setattr(picture_models, "MOST_KEPT", 2)
    alone = score(name, video, tmp_path)
    assert isinstance(kept, ScoredVideo)
    assert isinstance(alone, ScoredVideo)
    assert alone.value == kept.value
    assert len(flows) == flows_a_step * 3


def test_other_constants_have_other_steps(tmp_path: Path) -> None:
    video = side([scene(1), np.roll(scene(1), 1, 1), scene(1)])
    strict, loose = (
        score("temporal_flickering", video, tmp_path, pixels={"static_px": px}) for px in (0.01, 50.0)
    )
    assert isinstance(strict, NotJudged)
    assert isinstance(loose, ScoredVideo)


@pytest.mark.parametrize("dimension", PIXEL_DIMENSIONS)
def test_memory_does_not_grow_with_the_length(dimension: str, tmp_path: Path) -> None:
    peaks = []
    for count in (20, 100):
        video = Endless(count, fps=8.0)
        tracemalloc.start()
        score(dimension, video, tmp_path, pixels={"flow": {"preset": "ultrafast"}})
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert video.most_at_once <= 1
    # 80 more frames would be 700 kB as bytes; a few numbers a step remain
    assert peaks[1] < peaks[0] + 100_000
