"""The scorers that are arithmetic on pixels, as the suite makes them, and what DOVER sees."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.extras.locot2v import optical_flow, picture_models
from tasks.extras.locot2v.flow import dis_flow
from tasks.extras.locot2v.pixel_metrics import temporal_flicker, warping_error
from tasks.extras.locot2v.pixel_scorers import PIXEL_DIMENSIONS
from tasks.extras.locot2v.suite import Locot2vBench
from tasks.extras.locot2v.technical_quality import Windows, pieces, spread_indices, views
from tasks.llm.usage import NotJudged
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo
from tests.tasks.extras.locot2v.videos import PROMPT, Endless, named, scene, scenes, side


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
    # what it rests on is reported
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
    # other constants have other steps
    video = side([scene(1), np.roll(scene(1), 1, 1), scene(1)])
    for px, kind in ((0.01, NotJudged), (50.0, ScoredVideo)):
        assert isinstance(score("temporal_flickering", video, tmp_path, pixels={"static_px": px}), kind)


def test_a_setting_changes_the_score_and_what_it_is_known_by(tmp_path: Path) -> None:
    flashing = side([scene(1), np.minimum(scene(1), 225) + 30] * 3)
    result = [score("warping_error", flashing, tmp_path, worst_warping=worst) for worst in (1.0, 2.0)]
    assert isinstance(result[0], ScoredVideo)
    assert isinstance(result[1], ScoredVideo)
    error = result[0].details["error"]
    assert [one.value for one in result] == pytest.approx([1 - error, 1 - error / 2])  # type: ignore[union-attr]
    setup = Setup(store_path=str(Store.create(tmp_path).root))
    given: tuple[Any, ...] = ("cpu-approx", {"base": "cpu-approx", "pixels": {"static_px": 2.0}})
    ours, other = (Locot2vBench(setup, visual=visual).scorer("temporal_flickering") for visual in given)
    assert ours.settings() != other.settings()


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("pixels", "static", 1),
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
def test_senseless_constants_are_refused(table: str, name: str, value: Any, tmp_path: Path) -> None:
    given = {name: value} if name else value
    with pytest.raises(UserInputError, match=rf"visual\.{table}" + (rf"\.{name}" if name else ": .*all 0")):
        score("warping_error", scenes([3]), tmp_path, **{table: given})


def counting(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Note each flow that is computed from now on."""
    flows: list[Any] = []

    def counted(*frames: Any) -> Any:
        flows.append(frames)
        return dis_flow(*frames)

    monkeypatch.setattr(optical_flow, "dis_flow", counted)
    return flows


@pytest.mark.parametrize("first", ["temporal_flickering", "warping_error"])
def test_flicker_and_warping_share_flows(first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    noise = rng.integers(-3, 4, (6, *scene(1).shape))
    still = [np.clip(scene(1) + one, 0, 255).astype(np.uint8) for one in noise]
    video = side([*still, *[np.roll(scene(2, 128, 48), 4 * at, 1)[:, :64] for at in range(4)]])
    flicker_alone, warping_alone = temporal_flicker(video, dis_flow), warping_error(video, dis_flow)
    flows = counting(monkeypatch)
    names = ["temporal_flickering", "warping_error"]
    # another process would make its own suite, as here
    result = {name: score(name, video, tmp_path) for name in sorted(names, key=lambda name: name != first)}
    assert len(flows) == 2 * 9
    flicker, warping = (result[name] for name in names)
    assert isinstance(flicker, ScoredVideo)
    assert isinstance(warping, ScoredVideo)
    # bit for bit what each of them is by itself
    assert flicker.value == flicker_alone.value
    assert flicker.details["rests_on"] == flicker_alone.steps
    assert warping.details["error"] == warping_alone.value
    assert 0 < flicker.details["rests_on"] < 9 == warping.details["rests_on"]


@pytest.mark.parametrize(("name", "flows_a_step"), [("temporal_flickering", 1), ("warping_error", 2)])
def test_of_a_video_whose_steps_are_not_kept_each_computes_only_its_own(
    name: str, flows_a_step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = side([scene(1), np.roll(scene(1), 1, 1), scene(1), scene(1)])
    kept = score(name, video, tmp_path)
    flows = counting(monkeypatch)
    monkeypatch.setattr(picture_models, "MAX_KEPT", 2)
    alone = score(name, video, tmp_path)
    assert isinstance(kept, ScoredVideo)
    assert isinstance(alone, ScoredVideo)
    assert alone.value == kept.value
    assert len(flows) == flows_a_step * 3


@pytest.mark.parametrize("dimension", PIXEL_DIMENSIONS)
def test_memory_does_not_grow_with_the_length(dimension: str, tmp_path: Path) -> None:
    peaks = []
    for count in (12, 60):
        video = Endless(count, fps=8.0)
        tracemalloc.start()
        score(dimension, video, tmp_path, pixels={"flow": {"preset": "ultrafast"}})
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert video.most_at_once <= 1
    # 48 more frames would be 420 kB as bytes; a few numbers a step remain
    assert peaks[1] < peaks[0] + 100_000


@pytest.mark.parametrize("count", [1, 23, 239, 240, 241, 479, 480, 719, 7000])
@pytest.mark.parametrize("fps", [24.0, 24_000 / 1001, 1.0])
def test_pieces_are_shorter_than_ten_seconds_and_hold_every_frame(count: int, fps: float) -> None:
    result = pieces(count, fps, 10.0)
    assert [place for piece in result for place in piece] == list(range(count))
    assert all(0 < len(piece) < 10 * fps for piece in result)
    assert max(map(len, result)) - min(map(len, result)) <= 1
    # slow videos have pieces of a frame at least
    assert pieces(3, 0.01, 10.0) == [range(0, 1), range(1, 2), range(2, 3)]


def test_frames_are_every_second_one_of_each_part() -> None:
    places = spread_indices(600, 3, 32, np.random.default_rng(0)).reshape(3, 32)
    assert (np.diff(places) == 2).all()
    assert ((places // 200) == np.arange(3)[:, None]).all()
    # a short piece is gone through again
    short = spread_indices(10, 2, 32, np.random.default_rng(0))
    assert short.max() < 10
    assert len(short) == 64


def test_windows_lie_in_their_cells_and_are_cut_in_full_resolution() -> None:
    frame = np.arange(288 * 512 * 3, dtype=np.uint32).reshape(288, 512, 3).astype(np.uint8)
    windows = Windows.drawn(288, 512, np.random.default_rng(1))
    tops, lefts = windows.corners[..., 0], windows.corners[..., 1]
    assert ((tops // 41 == np.arange(7)[:, None]) & (lefts // 73 == np.arange(7))).all()
    result = windows.cut(frame)
    top, left = windows.corners[2, 5]
    assert (result[64:96, 160:192] == frame[top : top + 32, left : left + 32]).all()


def test_views_have_the_networks_shape_and_scale() -> None:
    video = side([np.full((240, 320, 3), 128, np.uint8)] * 12)
    beauty, technique = views(video, range(2, 12), 2, seed=5)
    assert beauty.shape == (1, 3, 32, 224, 224)
    assert technique.shape == (2, 3, 32, 224, 224)
    wanted = (128 - np.array([123.675, 116.28, 103.53])) / np.array([58.395, 57.12, 57.375])
    for view in (beauty, technique):
        assert view.dtype == np.float32
        assert np.abs(view.mean(axis=(0, 2, 3, 4)) - wanted).max() < 0.05


def test_a_score_can_be_had_again_and_each_frame_is_read_once_and_alone() -> None:
    # small frames are enlarged
    video = side([scene(number % 5) for number in range(40)])
    first, second, other = (views(video, range(5, 40), 1, seed) for seed in (1, 1, 2))
    assert (first[1] == second[1]).all()
    assert (first[0] == second[0]).all()
    assert (first[1] != other[1]).any()
    listed = side([scene(number % 3) for number in range(200)])
    views(listed, range(50, 150), 2, seed=0)
    read = [place for (place,) in listed.reads]
    assert len(set(read)) == len(read)
    assert 50 <= min(read) <= max(read) < 150
