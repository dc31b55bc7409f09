from __future__ import annotations

import math

import pytest

from tasks.statistics.severity import Threshold, by_strength, severity_curve, threshold
from tasks.statistics.trials import Outcome, Trial
from tests.tasks.statistics.making import pair, trial

SEED = 3


def graded(rights: dict[int, int], of: int = 20) -> list[Trial]:
    """So many of each level's pairs are right; sources are shared by the levels, one pair each."""
    trials = []
    for clips, right in rights.items():
        for source in range(of):
            outcome: Outcome = "right" if source < right else "wrong"
            facts = pair(source, pair_id=f"{source}-{clips}", clips=clips)
            trials.append(trial(facts, outcome))
    return trials


def found(rights: dict[int, int], **more: float) -> Threshold:
    held = threshold(graded(rights), seed=SEED, draws=200, **more)  # type: ignore[arg-type]
    assert held is not None
    return held


def test_the_curve_by_hand() -> None:
    curve = severity_curve(graded({10: 19, 1: 10, 5: 16}))
    assert [(point.level, point.pairs, point.accuracy) for point in curve] == [
        (1, 20, 0.5),
        (5, 20, 0.8),
        (10, 20, 0.95),
    ]


def test_the_threshold_is_interpolated_on_the_logarithm() -> None:
    # 0.5 at one clip and 1 at four: three quarters lie halfway on the logarithm, at two
    held = found({1: 10, 4: 20})
    assert held.reached == "reached"
    assert held.level == pytest.approx(2)
    assert held.low is not None
    assert held.high is not None
    assert held.low < 2 < held.high


def test_a_curve_that_falls_between_is_made_level_first() -> None:
    # 14 and 12 of 20 become 13 and 13: 0.65, then 0.95 at eight clips
    held = found({2: 14, 4: 12, 8: 19})
    assert held.level == pytest.approx(math.exp(math.log(4) + (math.log(8) - math.log(4)) * 0.1 / 0.3))


def test_a_threshold_that_is_not_reached() -> None:
    held = found({1: 9, 5: 11, 10: 10})
    assert (held.reached, held.level, held.high) == ("not_reached", None, None)


def test_a_threshold_below_the_smallest_level() -> None:
    held = found({1: 20, 5: 20})
    assert (held.reached, held.level, held.low, held.high) == ("below_smallest", None, None, None)


def test_the_interval_may_be_open_at_one_end() -> None:
    held = found({1: 10, 5: 12, 10: 16})
    assert held.reached == "reached"
    assert held.low is not None
    assert held.high is None


def test_one_source_has_no_interval() -> None:
    held = threshold(graded({1: 0, 5: 1}, of=1), seed=SEED, draws=20)
    assert held is not None
    assert (held.reached, held.low, held.high, held.sources) == ("reached", None, None, 1)
    two = threshold(graded({1: 0, 5: 1}, of=2), seed=SEED, draws=20)
    assert two is not None
    assert two.sources == 2


def test_another_target() -> None:
    assert found({1: 10, 4: 20}, target=0.5).reached == "below_smallest"
    held = found({1: 10, 4: 20}, target=1.0)
    assert held.level == pytest.approx(4)


def test_the_draws_are_keyed() -> None:
    trials = graded({1: 10, 2: 13, 5: 17})
    first = threshold(trials, seed=SEED, draws=100)
    assert first == threshold(trials[::-1], seed=SEED, draws=100)
    ends = {threshold(trials, seed=seed, draws=100) for seed in range(6)}
    assert len(ends) > 1


def test_the_interval_covers_what_it_should() -> None:
    """Against the spread of thresholds over fresh data sets, not over resampled ones."""
    import numpy as np

    rng = np.random.default_rng(5)
    levels = np.array([1, 2, 5, 10])
    chances = 0.5 + 0.5 * np.array([0.1, 0.3, 0.6, 0.9])
    # the true curve crosses 0.75 between two and five clips
    true = math.exp(math.log(2) + math.log(2.5) * (0.75 - 0.65) / (0.8 - 0.65))
    covered = 0
    for _ in range(30):
        rights = {int(level): int(rng.binomial(60, p)) for level, p in zip(levels, chances, strict=True)}
        held = threshold(graded(rights, of=60), seed=SEED, draws=100)
        assert held is not None
        covered += (held.low or 0) <= true <= (held.high or math.inf)
    assert covered >= 25


def test_levels_by_strength() -> None:
    trials = [
        trial(pair(number, strength=name), outcome)
        for number, (name, outcome) in enumerate(
            [("mild", "wrong"), ("paper", "right"), ("paper", "right"), ("odd", "wrong")]
        )
    ]
    curve = severity_curve(trials, by_strength({"mild": 1.5, "paper": 2.0}))
    assert [(point.level, point.pairs, point.accuracy) for point in curve] == [(1.5, 1, 0), (2.0, 2, 1)]


@pytest.mark.parametrize(
    "trials", [[], graded({5: 20}), [trial(pair(0), "right")], [trial(pair(0, clips=1), "failed")]]
)
def test_fewer_than_two_levels_have_no_threshold(trials: list[Trial]) -> None:
    assert threshold(trials, seed=SEED) is None


def test_levels_are_positive() -> None:
    with pytest.raises(ValueError, match="levels must be positive"):
        threshold(graded({0: 1, 5: 2}), seed=SEED)
