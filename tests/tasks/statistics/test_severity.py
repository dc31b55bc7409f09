"""Accuracy by the severity of a degradation, and the severity from which it is seen."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.statistics.severity import Threshold, by_strength, severity_curve, threshold
from tasks.statistics.trials import Outcome, Trial
from tests.tasks.statistics.making import known, pair, trial

SEED = 3


def graded(rights: dict[int, int], of: int = 20) -> list[Trial]:
    """That number of each level's pairs are right; sources are shared by the levels, one pair each."""
    return [
        trial(pair(source, pair_id=f"{source}-{clips}", clips=clips), "right" if source < right else "wrong")
        for clips, right in rights.items()
        for source in range(of)
    ]


def found(rights: dict[int, int], of: int = 20, draws: int = 200, target: float = 0.75) -> Threshold:
    return known(threshold(graded(rights, of), seed=SEED, draws=draws, target=target))


def test_the_curve_by_hand() -> None:
    curve = severity_curve(graded({10: 19, 1: 10, 5: 16}))
    assert [(point.level, point.pairs, point.accuracy) for point in curve] == [
        (1, 20, 0.5), (5, 20, 0.8), (10, 20, 0.95)
    ]  # fmt: skip


def test_the_threshold_is_interpolated_on_the_logarithm() -> None:
    # 0.5 at one clip and 1 at four: three quarters lie halfway on the logarithm, at two
    held = found({1: 10, 4: 20})
    assert (held.reached, held.level) == ("reached", pytest.approx(2))
    assert known(held.low) < 2 < known(held.high)
    # a curve that falls between is made level first: 14 and 12 of 20 become 13 and 13, then 0.95 at eight
    held = found({2: 14, 4: 12, 8: 19})
    assert held.level == pytest.approx(math.exp(math.log(4) + (math.log(8) - math.log(4)) * 0.1 / 0.3))
    assert found({1: 10, 4: 20}, target=0.5).reached == "below_smallest"
    assert found({1: 10, 4: 20}, target=1.0).level == pytest.approx(4)


def test_a_threshold_outside_the_levels_or_with_an_open_interval() -> None:
    held = found({1: 9, 5: 11, 10: 10})
    assert (held.reached, held.level, held.high) == ("not_reached", None, None)
    held = found({1: 20, 5: 20})
    assert (held.reached, held.level, held.low, held.high) == ("below_smallest", None, None, None)
    held = found({1: 10, 5: 12, 10: 16})
    assert (held.reached, held.low is None, held.high) == ("reached", False, None)
    one = found({1: 0, 5: 1}, of=1)
    assert (one.reached, one.low, one.high, one.sources) == ("reached", None, None, 1)
    assert found({1: 0, 5: 1}, of=2).sources == 2


def test_the_draws_are_keyed() -> None:
    trials = graded({1: 10, 2: 13, 5: 17})
    assert threshold(trials, seed=SEED, draws=100) == threshold(trials[::-1], seed=SEED, draws=100)
    assert len({threshold(trials, seed=seed, draws=100) for seed in range(6)}) > 1


def test_the_interval_covers_what_it_should() -> None:
    """Against the spread of thresholds over fresh data sets, not over resampled ones."""
    rng = np.random.default_rng(5)
    chances = {1: 0.55, 2: 0.65, 5: 0.8, 10: 0.95}
    # the true curve crosses 0.75 between two and five clips
    true = math.exp(math.log(2) + math.log(2.5) * (0.75 - 0.65) / (0.8 - 0.65))
    covered = 0
    for _ in range(30):
        rights = {level: int(rng.binomial(60, chance)) for level, chance in chances.items()}
        held = found(rights, of=60, draws=100)
        covered += (held.low or 0) <= true <= (held.high or math.inf)
    assert covered >= 25


def test_levels_by_strength() -> None:
    named: list[tuple[str, Outcome]] = [
        ("mild", "wrong"), ("paper", "right"), ("paper", "right"), ("odd", "wrong")
    ]  # fmt: skip
    trials = [trial(pair(number, strength=name), outcome) for number, (name, outcome) in enumerate(named)]
    curve = severity_curve(trials, by_strength({"mild": 1.5, "paper": 2.0}))
    assert [(point.level, point.pairs, point.accuracy) for point in curve] == [(1.5, 1, 0), (2.0, 2, 1)]


def test_fewer_than_two_levels_have_no_threshold_and_levels_are_positive() -> None:
    for trials in ([], graded({5: 20}), [trial(pair(0), "right")], [trial(pair(0, clips=1), "failed")]):
        assert threshold(trials, seed=SEED) is None
    with pytest.raises(ValueError, match="levels must be positive"):
        threshold(graded({0: 1, 5: 2}), seed=SEED)
