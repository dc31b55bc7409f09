"""Evaluators without weights of their own: trivial baselines, the coin, BRISQUE."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.llm.usage import NotJudged
from tasks.models.base import Models
from tasks.pairs.view import Pair, Side, open_record
from tasks.scoring.base import PointwiseScorer
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.baselines import (
    JPEG_QUALITY,
    Coin,
    Contrast,
    Duration,
    Motion,
    SceneCount,
    Sharpness,
    Size,
)
from tasks.scoring.judges.brisque import BrisqueScore
from tasks.scoring.registry import EvaluatorChoice, make_evaluator
from tasks.scoring.setup import Setup
from tests.tasks.pairs.synthetic import Made
from tests.tasks.scoring.sides import ASPECT, FrameList, cut_video, filter_values, flat, noise

SCORERS = [Duration, Size, Contrast, Sharpness, Motion, SceneCount]


def value(scorer: PointwiseScorer, side: Side) -> float:
    return scorer.score("", side, ASPECT).value


def luma(side: Side) -> np.ndarray:
    return np.stack([frame[: side.height] for frame in side]).astype(np.float64)


def test_numbers_are_those_of_numpy_and_opencv(seen: Side) -> None:
    assert value(Contrast(), seen) == pytest.approx(luma(seen).std((1, 2)).mean(), rel=1e-12)
    expected = [cv2.Laplacian(frame, cv2.CV_64F).var() for frame in luma(seen)]
    assert value(Sharpness(), seen) == pytest.approx(np.mean(expected), rel=1e-12)
    jpegs = [cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1] for frame in seen]
    assert value(Size(), seen) == sum(map(len, jpegs))
    back = cv2.imdecode(jpegs[0], cv2.IMREAD_GRAYSCALE)
    assert np.abs(back.astype(int) - seen[0]).mean() < 4


def test_motion_is_what_ffmpegs_signalstats_says(ffmpeg: str, seen: Side) -> None:
    # of the first frame it says 0, and 6 digits of each
    changes = filter_values(ffmpeg, seen, "signalstats", "lavfi.signalstats.YDIF")
    assert len(changes) == len(seen)
    assert value(Motion(), seen) == pytest.approx(np.mean(changes[1:]), rel=1e-4)


def test_duration_and_scenes_count() -> None:
    video = cut_video([4, 2, 5, 3])
    assert value(Duration(), video) == 14.0
    assert value(SceneCount(), video) == 4.0
    video.fps = 2.0
    assert value(Duration(), video) == 7.0


def opened(source: Made, aspect: str) -> Pair:
    return open_record(source.store, source.pair(aspect), "")


def scores(scorer: PointwiseScorer, pair: Pair) -> tuple[float, float]:
    return value(scorer, pair.high), value(scorer, pair.low)


def test_baselines_miss_what_is_gone_and_tie_on_all_else(built: Made) -> None:
    order, flip = (opened(built, aspect) for aspect in ("temporal_flow", "spatial_relationship"))
    assert flip.high.identity() != flip.low.identity()
    for pair, kinds in ((order, (Size, Contrast, Sharpness)), (flip, (Contrast, Sharpness))):
        for kind in kinds:
            high, low = scores(kind(), pair)
            assert high == low
    assert len(set(scores(Motion(), order))) == 2
    removed = (Duration(), "comprehensiveness")
    for scorer, aspect in ((Motion(), "dynamics_degree"), (Contrast(), "aesthetics"), removed):
        high, low = scores(scorer, opened(built, aspect))
        assert high > low
    for aspect in ("temporal_flow", "dynamics_degree", "spatial_relationship", "aesthetics"):
        high, low = scores(Duration(), opened(built, aspect))
        assert high == low


def test_blurred_frames_are_less_sharp_and_smaller() -> None:
    frames = [noise(n) for n in range(5)]
    sharp, soft = FrameList(frames), FrameList([cv2.blur(frame, (3, 3)) for frame in frames])
    for kind in (Sharpness, Size, Contrast, Motion):
        assert value(kind(), sharp) > value(kind(), soft)


@pytest.mark.parametrize("kind", SCORERS)
def test_a_still_and_a_single_frame_have_a_score_and_no_frame_has_none(kind: type[PointwiseScorer]) -> None:
    still = {"contrast": 0.0, "sharpness": 0.0, "motion": 0.0, "duration": 6.0, "scenes": 1.0}
    scorer = kind()
    score = value(scorer, FrameList([flat(90)] * 6))
    one = value(scorer, FrameList([flat(90)]))
    if kind is Size:
        assert score == 6 * one > 0
    else:
        assert score == still[scorer.name]
        assert one == (1.0 if kind is Duration else still[scorer.name])
    with pytest.raises(NotJudged) as problem:
        value(scorer, FrameList([]))
    assert problem.value.failure is Failure.VIDEO_UNREADABLE


@pytest.mark.parametrize("kind", SCORERS)
def test_few_frames_are_held_and_what_was_used_is_told(kind: type[PointwiseScorer]) -> None:
    side = FrameList([noise(n % 90) for n in range(200)])
    scorer = kind()
    scorer.check()
    score = scorer.score("a prompt", side, ASPECT)
    assert all(len(places) <= 32 for places in side.reads)
    assert score.usage.frames == 200
    json.dumps([scorer.settings(), dict(score.details)], allow_nan=False)
    if kind is not Duration:
        assert score.details["features"]["computed"] <= 91 < score.details["features"]["needed"]


def test_baselines_share_what_they_compute(built: Made) -> None:
    cache = FeatureCache()
    pair = opened(built, "aesthetics")
    for kind in (Size, Contrast, Sharpness, Motion, SceneCount):
        for side in (pair.high, pair.low):
            value(kind(cache), side)
    counts = cache.counts()
    changed = sum(segment.frame_count for segment in pair.record.segments if segment.degraded_clip)  # type: ignore[union-attr]
    assert counts["frame-measures"]["computed"] == len(pair.high) + changed
    assert counts["frame-measures"]["needed"] == 3 * 2 * len(pair.high)
    assert counts["luma-change"]["needed"] == 2 * 2 * (len(pair.high) - 1)
    assert counts["luma-change"]["computed"] < 2 * (len(pair.high) - 1)


def test_names_are_those_of_the_table() -> None:
    kinds = [*SCORERS, Coin]
    assert [kind.name for kind in kinds] == "duration size contrast sharpness motion scenes coin".split()
    settings = [json.dumps(kind().settings(), sort_keys=True) for kind in kinds]
    assert len(set(settings)) == len(settings)


def test_the_coin_is_fair_and_does_not_see_the_order() -> None:
    wins = firsts = 0
    for n in range(400):
        high, low = FrameList([noise(2 * n)]), FrameList([noise(2 * n + 1)])
        one, other = Coin().compare("", high, low, ASPECT), Coin().compare("", low, high, ASPECT)
        assert {one.choice, other.choice} == {"first", "second"}
        wins += one.choice == "first"
        order = (high, low) if n % 2 else (low, high)
        firsts += Coin().compare("", *order, ASPECT).choice == "first"
    # 99.99 % of fair coins
    assert abs(wins - 200) < 40
    assert abs(firsts - 200) < 40


def test_the_coin_is_thrown_again_for_each_aspect_and_seed() -> None:
    pairs = [(FrameList([noise(2 * n)]), FrameList([noise(2 * n + 1)])) for n in range(100)]

    def throws(coin: Coin, aspect: str = "aesthetics") -> list[str]:
        text = ASPECT.model_copy(update={"name": aspect})
        return [coin.compare("", *pair, text).choice for pair in pairs]

    first = throws(Coin())
    assert throws(Coin()) == first
    for other in (throws(Coin(seed=1)), throws(Coin(), "color")):
        assert 25 < sum(a == b for a, b in zip(first, other, strict=True)) < 75
    for frames in ([noise(1)], []):
        assert Coin().compare("", FrameList(frames), FrameList(frames), ASPECT).choice == "tie"


class Blur(Models):
    """A model whose score is 0 for a sharp picture, and NaN as BRISQUE's for one of one colour."""

    checksum = "blur"
    asked = 0

    def get(self, name: str, **options: str | float | bool) -> Blur:
        return self

    def score(self, luma: Planes) -> float:
        self.asked += 1
        return float("nan") if luma.std() == 0 else 1 / float(cv2.Laplacian(luma, cv2.CV_64F).var())


def test_the_score_is_the_negated_mean_of_luma_over_frames_that_have_one() -> None:
    models = Blur()
    frames = [noise(1), flat(90), noise(2)]
    side = FrameList(frames)
    luma = [frame[: side.height] for frame in (frames[0], frames[2])]
    score = BrisqueScore(models).score("", side, ASPECT)
    assert score.value == pytest.approx(-np.mean([models.score(one) for one in luma]), rel=1e-12)
    assert score.details["frames_of_one_colour"] == 1


def test_equal_frames_are_measured_once() -> None:
    models = Blur()
    judge = BrisqueScore(models)
    for numbers in ((1, 2), (2, 1, 1)):
        judge.score("", FrameList([noise(number) for number in numbers]), ASPECT)
    assert models.asked == 2


def test_a_video_without_statistics_is_not_judged() -> None:
    for frames in ([], [flat(0), flat(255)]):
        with pytest.raises(NotJudged) as caught:
            BrisqueScore(Blur()).score("", FrameList(frames), ASPECT)
        assert caught.value.failure is Failure.VIDEO_UNREADABLE


def test_without_weights_it_says_what_to_fetch(tmp_path: Path) -> None:
    Store.create(tmp_path / "store")
    setup = Setup(store_path=str(tmp_path / "store"), model_folders=(str(tmp_path / "models"),))
    with pytest.raises(PrerequisiteError, match=r"^weights of model brisque .* models add brisque"):
        make_evaluator(EvaluatorChoice(use="brisque"), setup)
