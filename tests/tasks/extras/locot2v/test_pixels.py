"""Pixel metrics, cuts and transitions of made videos: as functions, and as the suite scores them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.metrics import structural_similarity as reference

from storage_schemas.errors import UserInputError
from storage_schemas.frames import Planes
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.extras.locot2v import optical_flow, picture_models
from tasks.extras.locot2v.flow import dis_flow, reduced, visible, warp
from tasks.extras.locot2v.pixel_metrics import (
    interpolated,
    motion_smoothness,
    moving_share,
    sampled,
    strongest_flow,
    temporal_flicker,
    warping_error,
    warping_score,
)
from tasks.extras.locot2v.pixel_scorers import PIXEL_DIMENSIONS
from tasks.extras.locot2v.suite import Locot2vBench
from tasks.extras.locot2v.transitions import (
    CutSettings,
    TransitionSettings,
    find_cuts,
    motion_similarity,
    pixel_similarity,
    smoothness,
    structural_similarity,
    transition_smoothness,
    transitions,
    window_of,
)
from tasks.llm.usage import NotJudged
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo
from tasks.scoring.suites.file_video import FileVideo, FrameRate
from tests.tasks.extras.locot2v.videos import PROMPT, Endless, named, scene, scenes, side
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.told import failure, scored

W, H = 128, 96
RNG = np.random.default_rng(3)
#: A smooth picture, larger than a frame, to look at through a moving window.
SCENE = cv2.GaussianBlur(RNG.integers(0, 256, (H + 80, W + 80, 3), dtype=np.uint8), (0, 0), 3)
SCENE = cv2.normalize(SCENE, None, 16, 235, cv2.NORM_MINMAX)  # type: ignore[call-overload]


def window(x: int, y: int = 0) -> Planes:
    return SCENE[y : y + H, x : x + W]


def panned(step: int, count: int) -> FrameList:
    return side([window(step * n) for n in range(count)])


def grey_of(rgb: Planes) -> Planes:
    return cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.uint8)


def test_flow_finds_a_known_shift() -> None:
    # the window moves right, so what it shows moves left
    flow = dis_flow(window(10), window(13))
    inner = flow[20:-20, 20:-20]
    assert np.median(inner[..., 0]) == pytest.approx(-3, abs=0.1)
    assert np.median(inner[..., 1]) == pytest.approx(0, abs=0.1)
    assert strongest_flow(np.full((10, 10, 2), 3.0, np.float32), 0.05) == pytest.approx(3 * np.sqrt(2))


def test_warping_brings_a_shifted_frame_back() -> None:
    flow = np.zeros((H, W, 2), np.float32)
    flow[..., 0] = -3
    back = warp(window(13), flow)
    assert (back[:, 3:] == window(10)[:, 3:]).all()
    # what comes in from outside is hidden
    seen = visible(flow, -flow)
    assert seen[:, 4:].all()
    assert not seen[:, :3].any()


def test_a_panning_video_moves_and_takes_no_part_in_flicker() -> None:
    # 6 pixels at 256 of the shorter side are 2.25 at 96
    assert moving_share(panned(4, 5), dis_flow).value == 1.0
    assert moving_share(panned(1, 5), dis_flow).value == 0.0
    some = side([window(0)] * 4 + [window(6), window(12)])
    assert moving_share(some, dis_flow).value == pytest.approx(2 / 5)
    moving = temporal_flicker(panned(6, 5), dis_flow)
    assert moving.value is None
    assert "static" in moving.why


@pytest.mark.parametrize("amount", [4, 10])
def test_flicker_is_the_mean_difference_over_255(amount: int) -> None:
    frames = [np.clip(window(5).astype(int) + amount * (n % 2), 0, 255).astype(np.uint8) for n in range(6)]
    result = temporal_flicker(side(frames), dis_flow)
    assert result.value == pytest.approx(1 - amount / 255, abs=0.004)


def test_even_motion_is_smoother_than_a_jump() -> None:
    even = motion_smoothness(panned(2, 7), dis_flow).value
    jumping = motion_smoothness(side([window(x) for x in (0, 12, 4, 20, 8, 30, 12)]), dis_flow).value
    assert even is not None
    assert jumping is not None
    assert even > 0.98 > jumping
    # the middle of two frames is where it should be
    middle, inner = interpolated(window(10), window(14), dis_flow), np.s_[16:-16, 16:-16]
    assert np.abs(middle - window(12))[inner].mean() < 2
    assert np.abs(window(10).astype(float) - window(12))[inner].mean() > 2


def test_motion_costs_no_warping_error_but_a_cut_does() -> None:
    pan = warping_error(panned(3, 6), dis_flow).value
    other = RNG.integers(0, 256, (H, W, 3), dtype=np.uint8)
    changed = [window(0), cv2.addWeighted(window(0), 0.6, other, 0.4, 0), window(0)]
    odd = warping_error(side(changed), dis_flow).value
    assert pan is not None
    assert odd is not None
    assert pan < 0.002 < odd
    assert warping_score(0.0) == 1
    assert warping_score(0.025) == 0.5
    assert warping_score(1.0) == 0


def test_frames_are_read_a_few_at_a_time() -> None:
    video = panned(2, 5)
    warping_error(video, dis_flow)
    assert max(len(read) for read in video.reads) <= 2
    long = Endless(60)
    find_cuts(long)
    assert long.most_at_once == 1
    # steps are apart in time
    assert sampled(side([window(0)] * 24, fps=24.0), 0.125) == list(range(0, 24, 3))
    assert sampled(side([window(0)] * 3, fps=1.0), 0.125) == [0, 1, 2]
    # large frames are reduced
    assert reduced(np.zeros((480, 640, 3), np.uint8), 320).shape == (240, 320, 3)
    assert reduced(np.zeros((48, 64, 3), np.uint8), 320).shape == (48, 64, 3)


OTHER = cv2.GaussianBlur(np.random.default_rng(9).integers(0, 256, (H, W, 3), dtype=np.uint8), (0, 0), 4)


def mixed(share: float) -> np.ndarray:
    return cv2.addWeighted(window(0), 1 - share, OTHER, share, 0).astype(np.uint8)


def of(frames: list[np.ndarray]) -> float:
    """Smoothness at frame 8, with features that follow the pixels."""
    video = side(frames)

    def features(places: object) -> np.ndarray:
        pixels = [frames[place].astype(np.float64).ravel() for place in places]  # type: ignore[attr-defined]
        return np.stack(pixels) - 128

    (result,) = transitions(video, [8], features, dis_flow, TransitionSettings(window_s=1.5))
    return result.smoothness


def test_a_hard_cut_is_rough_and_a_dissolve_smooth() -> None:
    # every similarity would have to fall to 0 for 0
    hard = of([mixed(0)] * 8 + [mixed(1)] * 8)
    short = of([mixed(0)] * 7 + [mixed(0.5)] + [mixed(1)] * 8)
    slow = of([mixed(n / 15) for n in range(16)])
    none = of([mixed(0)] * 16)
    assert hard < short < slow <= none
    assert none == pytest.approx(1, abs=1e-6)
    assert slow > 0.95
    assert hard < 0.8
    # a cut at the very end is still one
    frames = [mixed(0)] * 9 + [mixed(1)]
    (result,) = transitions(side(frames), [9], lambda places: np.ones((len(places), 3)), dis_flow)
    assert len(result.similarities) == 4
    assert result.smoothness < 1


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_smoothness_is_a_share(values: list[float]) -> None:
    assert 0 <= smoothness(values) <= 1
    assert smoothness([0.4]) == 1.0
    # a whole hard cut is zero; without cuts there is no value rather than one
    for rough in ([1, 1, 1, 0, 1, 1], [1, 0]):
        assert smoothness(rough) == pytest.approx(0)
    result = transition_smoothness([])
    assert result.value is None
    assert "no cut" in result.why


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 1.0])
def test_structure_is_that_of_scikit_image(share: float) -> None:
    first, second = grey_of(mixed(0)), grey_of(mixed(share))
    expected = reference(
        first, second, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )
    # the two differ in how they treat the border
    assert structural_similarity(first, second) == pytest.approx(expected, abs=0.02)


def test_pixels_and_motion() -> None:
    # at one frame a second there are two on each side of a cut
    windows = {(50, 8.0): (46, 54), (1, 8.0): (0, 5), (99, 8.0): (95, 100), (10, 1.0): (8, 12)}
    for (place, fps), (first, end) in windows.items():
        assert window_of(place, 100, fps, 1.0) == range(first, end)
    assert pixel_similarity(mixed(0), mixed(0)) == 1
    assert pixel_similarity(np.zeros((4, 4), np.uint8), np.full((4, 4), 51, np.uint8)) == pytest.approx(0.8)
    still, right = np.zeros((8, 8, 2), np.float32), np.full((8, 8, 2), 2.0, np.float32)
    assert motion_similarity(still, still) == 1
    assert motion_similarity(right, right) == 1
    assert motion_similarity(right, -right) == pytest.approx(0, abs=0.01)
    assert motion_similarity(still, right) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize(
    ("lengths", "settings", "cuts"),
    [
        ([8, 12, 10], {}, [8, 20]),
        ([9], {}, []),
        ([1], {}, []),
        ([8, 2, 10], {"shortest_s": 0}, [8, 10]),
        # scenes shorter than the setting are none
        ([8, 2, 10], {"shortest_s": 1}, [8]),
        # a threshold above all changes finds nothing
        ([8, 12], {"threshold": 255}, []),
    ],
)
def test_find_cuts_finds_hard_cuts(lengths: list[int], settings: dict[str, float], cuts: list[int]) -> None:
    assert find_cuts(scenes(lengths), CutSettings.model_validate(settings)) == cuts


def test_they_are_those_that_pyscenedetect_finds_in_the_file(film_path: Path) -> None:
    from scenedetect import ContentDetector, detect

    output = detect(str(film_path), ContentDetector(min_scene_len=round(0.6 * 8)))
    theirs = [start.get_frames() for start, _ in output[1:]]
    assert theirs
    assert find_cuts(FileVideo(film_path, FrameRate(long_side=96))) == theirs


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
    result = scored(score(dimension, scenes([5]), tmp_path))
    assert result.value == pytest.approx(value, abs=1e-3)
    assert result.details["rests_on"] >= 2
    assert result.usage.frames == 5
    # what it rests on is reported
    assert result.details["flow"] == {"method": "dis", "preset": "medium"}
    assert ("interpolation" in result.details) == (dimension == "motion_smoothness")


@pytest.mark.parametrize("dimension", PIXEL_DIMENSIONS)
def test_a_video_of_one_frame_has_a_reason_in_place_of_a_score(dimension: str, tmp_path: Path) -> None:
    result = failure(score(dimension, scenes([1]), tmp_path))
    assert result.failure is Failure.NO_ANSWER
    assert "of one frame" in result.message or "needs three frames" in result.message


def test_two_frames_that_lie_too_near_are_not_called_one(tmp_path: Path) -> None:
    result = failure(score("dynamic_degree", side([scene(1), scene(2)], fps=24.0), tmp_path))
    assert result.message == "no two frames lie 0.125 s apart"
    # other constants have other steps
    video = side([scene(1), np.roll(scene(1), 1, 1), scene(1)])
    for px, kind in ((0.01, NotJudged), (50.0, ScoredVideo)):
        assert isinstance(score("temporal_flickering", video, tmp_path, pixels={"static_px": px}), kind)


def test_a_setting_changes_the_score_and_what_it_is_known_by(tmp_path: Path) -> None:
    flashing = side([scene(1), np.minimum(scene(1), 225) + 30] * 3)
    result = [scored(score("warping_error", flashing, tmp_path, worst_warping=worst)) for worst in (1.0, 2.0)]
    error = result[0].details["error"]
    assert [one.value for one in result] == pytest.approx([1 - error, 1 - error / 2])
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
    flicker, warping = (scored(result[name]) for name in names)
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
    kept = scored(score(name, video, tmp_path))
    flows = counting(monkeypatch)
    monkeypatch.setattr(picture_models, "MAX_KEPT", 2)
    alone = scored(score(name, video, tmp_path))
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
