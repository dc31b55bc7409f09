"""A suite's scores beside people's ratings, against SciPy, the package krippendorff, and plain resampling."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tasks.scoring.suites.human_agreement import mean_difference, people_alignment, whole
from tasks.scoring.suites.human_ratings import Rating, VideoKey

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


def test_the_papers_rounds_give_a_narrow_interval_about_the_mean() -> None:
    result = mean_difference([0.0] * 700 + [1.0] * 300, ("test",))
    assert result is not None
    assert result.mean == 0.3
    assert result.interval.low < 0.3 < result.interval.high
    assert result.interval.high - result.interval.low == pytest.approx(2 * 2.576 * 0.458 / 316.2, rel=0.15)


def test_without_ratings_there_is_nothing_rather_than_zero() -> None:
    result = people_alignment("color", SCALE, [], {video(1): 3.0})
    assert result.spearman.coefficient is None
    assert result.people.alpha is None
    assert result.difference is None


def test_a_score_outside_the_scale_is_an_error() -> None:
    with pytest.raises(ValueError, match="outside 1 … 5"):
        people_alignment("color", SCALE, [], {video(1): 0.0})


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), order=st.randoms())
def test_the_order_of_ratings_does_not_matter(seed: int, order: object) -> None:
    ratings, scores = made(seed, videos=8)
    mixed = list(ratings)
    order.shuffle(mixed)  # type: ignore[attr-defined]
    assert people_alignment("color", SCALE, ratings, scores) == people_alignment(
        "color", SCALE, mixed, scores
    )
