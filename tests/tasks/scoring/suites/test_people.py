"""Ratings by people: files, agreement with scores by SciPy and krippendorff, repeats, blurred videos."""

from __future__ import annotations

import json
import random
from pathlib import Path

import cv2
import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from storage_schemas.errors import UserInputError
from tasks.scoring.suites.blurred_video import BlurredSide
from tasks.scoring.suites.human_agreement import (
    mean_difference,
    people_alignment,
    robustness,
    stability,
    whole,
)
from tasks.scoring.suites.human_ratings import DUPLICATE, INVALID, UNKNOWN, Rating, VideoKey, load_ratings
from tests.tasks.scoring.sides import FrameList, noise

SCALES = {"color": (1, 3), "motion_effects": (1, 5)}
HEAD = "model,prompt_id,dimension,rater,rating\n"


def test_rows_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(HEAD + "a,p1,color,ann,3\na,p1,color,bob,2\nb,p1,motion_effects,ann,5\n")
    result = load_ratings(path, SCALES)
    assert [f"{row.video} {row.dimension} {row.rater} {row.value}" for row in result.rows] == [
        "a/p1#0 color ann 3", "a/p1#0 color bob 2", "b/p1#0 motion_effects ann 5",
    ]  # fmt: skip
    assert result.left_out == ()
    for name, text, said in (
        ("ratings.csv", "model,dimension,rating\na,color,3\n", "no column prompt_id, rater"),
        ("r.jsonl", "[1]\n", "line 1"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserInputError, match=said):
            load_ratings(tmp_path / name, SCALES)


def test_lists_of_ratings_as_they_are_published(tmp_path: Path) -> None:
    path = tmp_path / "ratings.jsonl"
    rows = [
        {"model": "a", "prompt_id": "p1", "sample": 2, "dimension": "color", "ratings": [3, 0, 2, 3]},
        {"model": "b", "prompt_id": "p1", "dimension": "color", "ratings": {"ann": 1, "bob": "x"}},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    result = load_ratings(path, SCALES)
    first = VideoKey(model="a", prompt_id="p1", sample=2)
    assert [row.value for row in result.rows if row.video == first] == [3, 2, 3]
    # 0 is not a rating, and the raters after it keep their places
    assert [row.rater for row in result.rows if row.video == first] == ["1", "3", "4"]
    assert [(one.where, one.reason) for one in result.left_out] == [
        ("line 1", INVALID),
        ("line 2", "malformed_row"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a,p1,color,ann,4", INVALID),
        ("a,p1,color,ann,0", INVALID),
        ("a,p1,colour,ann,3", UNKNOWN),
        ("a,p1,color,ann,2.5", "malformed_row"),
        ("a,p1,color,ann,nan", "malformed_row"),
        ("a,p1,color,ann,", "malformed_row"),
        ("a,p1,color,,3", "malformed_row"),
        ("a,p1,color,eve,3", DUPLICATE),
    ],
)
def test_what_does_not_fit_is_left_out_with_its_line(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(HEAD + "a,p1,color,eve,2\n" + line + "\n")
    result = load_ratings(path, SCALES)
    assert len(result.rows) == 1
    assert [(one.where, one.reason) for one in result.left_out] == [("line 3", reason)]


SCALE = (1, 5)


def video(number: int) -> VideoKey:
    return VideoKey(model=f"m{number % 3}", prompt_id=f"p{number:03}")


def made(seed: int, videos: int = 40, raters: int = 4) -> tuple[list[Rating], dict[VideoKey, float]]:
    """Ratings of videos with a quality, some missing, and a machine that sees it too."""
    rng = np.random.default_rng(seed)
    quality = rng.uniform(1, 5, videos)
    ratings = [
        Rating(video(n), "color", f"r{rater}", int(np.clip(np.rint(quality[n] + rng.normal(0, 0.8)), *SCALE)))
        for n in range(videos)
        for rater in range(raters)
        if rng.random() < 0.8
    ]
    scores = {video(n): float(np.clip(quality[n] + rng.normal(0, 0.5), *SCALE)) for n in range(videos)}
    return ratings, scores


@pytest.mark.parametrize("seed", range(3))
def test_against_reference_packages(seed: int) -> None:
    ratings, scores = made(seed)
    result = people_alignment("color", SCALE, ratings, scores)
    held = {key: [r.value for r in ratings if r.video == key] for key in scores}
    rated = [key for key in scores if held[key]]
    reference = stats.spearmanr([scores[key] for key in rated], [np.mean(held[key]) for key in rated])
    assert result.spearman.coefficient == pytest.approx(reference.statistic, abs=1e-12)
    assert result.spearman.p == pytest.approx(reference.pvalue, rel=1e-6)
    assert (result.videos, result.ratings) == (len(rated), len(ratings))

    table = np.full((4, len(scores)), np.nan)
    for rating in ratings:
        table[int(rating.rater[1]), list(scores).index(rating.video)] = rating.value
    people = krippendorff.alpha(table, level_of_measurement="ordinal")
    assert result.people.alpha == pytest.approx(people, abs=1e-9)
    machine = [whole(scores[rating.video]) for rating in ratings]
    pairs = np.array([[rating.value for rating in ratings], machine], dtype=float)
    together = krippendorff.alpha(pairs, level_of_measurement="ordinal")
    assert result.with_machine.alpha == pytest.approx(together, abs=1e-9)


def test_the_bootstrap_is_that_of_drawing_pairs_one_by_one() -> None:
    differences = np.random.default_rng(1).choice([-2, -1, 0, 0, 0, 1, 2, 3], 500).astype(float)
    result = mean_difference(list(differences), ("test",), rounds=2000, drawn=300)
    assert result is not None
    rng = np.random.default_rng(2)
    means = rng.choice(differences, (2000, 300)).mean(1)
    low, high = np.quantile(means, [0.005, 0.995])
    assert result.mean == pytest.approx(differences.mean(), abs=1e-12)
    # the standard error of such a quantile is about 0.01 here
    assert result.interval.low == pytest.approx(low, abs=0.05)
    assert result.interval.high == pytest.approx(high, abs=0.05)
    # and about the normal interval of 2.576 standard errors
    width = 2 * 2.576 * differences.std() / np.sqrt(300)
    assert result.interval.high - result.interval.low == pytest.approx(width, rel=0.12)
    # the paper's rounds give a narrow interval about the mean
    narrow = mean_difference([0.0] * 700 + [1.0] * 300, ("test",))
    assert narrow is not None
    assert narrow.interval.low < narrow.mean == 0.3 < narrow.interval.high
    width = 2 * 2.576 * 0.458 / 316.2
    assert narrow.interval.high - narrow.interval.low == pytest.approx(width, rel=0.15)


def test_without_ratings_there_is_nothing_and_a_score_outside_the_scale_is_an_error() -> None:
    result = people_alignment("color", SCALE, [], {video(1): 3.0})
    assert (result.spearman.coefficient, result.people.alpha, result.difference) == (None, None, None)
    with pytest.raises(ValueError, match="outside 1 … 5"):
        people_alignment("color", SCALE, [], {video(1): 0.0})


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), order=st.randoms())
def test_the_order_of_ratings_does_not_matter(seed: int, order: random.Random) -> None:
    ratings, scores = made(seed, videos=8)
    mixed = order.sample(ratings, len(ratings))
    result = people_alignment("color", SCALE, ratings, scores)
    assert result == people_alignment("color", SCALE, mixed, scores)


def scores(*values: float) -> dict[VideoKey, float]:
    return {VideoKey(model="m", prompt_id=f"p{n}"): value for n, value in enumerate(values)}


def test_three_runs() -> None:
    runs = [scores(1, 2, 3, 4, 5, 5), scores(1, 2, 3, 4, 5, 4), scores(1, 2, 4, 4, 5, 5)]
    result = stability(SCALE, runs)
    assert (result.runs, result.videos) == (3, 6)
    assert result.total_agreement == pytest.approx(4 / 6)
    table = np.array([list(run.values()) for run in runs])
    reference = krippendorff.alpha(table, level_of_measurement="ordinal")
    assert result.alpha.alpha == pytest.approx(reference, abs=1e-12)
    # videos that a run lacks take no part
    fewer = stability(SCALE, [scores(1, 2, 3), scores(1, 2)])
    assert (fewer.videos, fewer.total_agreement) == (2, 1.0)
    assert stability(SCALE, [scores(), scores(1)]).total_agreement is None
    with pytest.raises(ValueError, match="two runs"):
        stability(SCALE, [scores(1)])


def test_relative_errors() -> None:
    result = robustness(scores(4, 2, 5), scores(3, 2, 5))
    assert result.videos == 3
    assert result.mean_error == pytest.approx(0.25 / 3)
    assert result.error_of_means == pytest.approx(1 / 11)
    assert robustness(scores(), scores()).mean_error is None
    with pytest.raises(ValueError, match="above 0"):
        robustness(scores(0), scores(1))


def test_a_blurred_video_is_opencv_s_blur_of_each_plane() -> None:
    plain = FrameList([noise(n) for n in range(5)])
    blurred = BlurredSide(plain, 1.5)
    frames = blurred.planes([3, 1])
    assert frames.shape == (2, 24, 32)
    assert plain.reads == [[3, 1]]
    for frame, number in zip(frames, (3, 1), strict=True):
        whole = noise(number)
        luma = cv2.GaussianBlur(whole[:16], (0, 0), 1.5, borderType=cv2.BORDER_REPLICATE)
        assert (frame[:16] == luma).all()
        first = whole[16:20].reshape(8, 16)
        expected = cv2.GaussianBlur(first, (0, 0), 0.75, borderType=cv2.BORDER_REPLICATE)
        assert (frame[16:20].reshape(8, 16) == expected).all()
    assert len(blurred) == 5
    assert (plain.frames[3] == noise(3)).all()
    assert set(blurred.frame_ids(range(5))).isdisjoint(plain.frame_ids(range(5)))
    with pytest.raises(ValueError, match="sigma above 0"):
        BlurredSide(plain, 0)
