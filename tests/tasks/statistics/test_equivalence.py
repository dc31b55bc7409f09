"""Equivalence with a published accuracy: three verdicts, the level of the tests, pairs that decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tasks.statistics.equivalence import Equivalence, equivalence
from tasks.statistics.intervals import ClusteredInterval, wilson_interval


def of(accuracy: float, pairs: int, published: float, half: float, margin: float = 0.1) -> Equivalence:
    """One answer a source, as independent as may be."""
    interval = wilson_interval(accuracy, pairs)
    assert interval is not None
    clustered = ClusteredInterval(interval.low, interval.high, pairs, float(pairs))
    return equivalence(accuracy, clustered, pairs, published, half, margin)


@pytest.mark.parametrize(
    ("accuracy", "pairs", "published", "half", "verdict"),
    [
        # a single pair says nothing, whatever its answer
        (0.0, 1, 0.557, 0.041, "inconclusive"),
        (1.0, 1, 0.901, 0.025, "inconclusive"),
        (0.9, 400, 0.901, 0.025, "reproduced"),
        (1.0, 400, 0.901, 0.025, "inconclusive"),
        (0.96, 400, 0.901, 0.025, "reproduced"),
        (0.0, 40, 0.557, 0.041, "not reproduced"),
        (0.5, 400, 0.901, 0.025, "not reproduced"),
        # the paper's own numbers of pairs may be too small
        (0.66, 100, 0.66, 0.093, "inconclusive"),
    ],
)
def test_the_verdicts(accuracy: float, pairs: int, published: float, half: float, verdict: str) -> None:
    found = of(accuracy, pairs, published, half)
    assert found.verdict == verdict
    assert found.difference in found.interval


def test_the_interval_is_that_of_two_one_sided_tests() -> None:
    found = of(0.6, 100_000, 0.6, 0.03)
    z, both = stats.norm.isf(0.05), math.hypot(1.96 * math.sqrt(0.24 / 100_000), 0.03)
    assert found.interval.high == pytest.approx(z / 1.96 * both, rel=1e-3)
    assert found.interval.low == pytest.approx(-found.interval.high, rel=1e-2)
    assert of(0.6, 100_000, 0.6, 0.03, margin=found.interval.high + 1e-3).verdict == "reproduced"
    assert of(0.6, 100_000, 0.6, 0.03, margin=found.interval.high - 1e-3).verdict == "inconclusive"


def test_an_accuracy_on_the_margin_is_rarely_called_reproduced() -> None:
    """The level: at a true difference of the margin, one in twenty or fewer."""
    rng = np.random.default_rng(0)
    true, published, theirs, n, margin = 0.6, 0.5, 2000, 500, 0.1
    wrong, runs = 0, 1000
    for ours, other in zip(rng.binomial(n, true, runs), rng.binomial(theirs, published, runs), strict=True):
        share = other / theirs
        half = 1.96 * math.sqrt(share * (1 - share) / theirs)
        wrong += of(ours / n, n, share, half, margin).verdict == "reproduced"
    assert 0.02 < wrong / runs < 0.08


def test_the_pairs_that_would_decide_do() -> None:
    found = of(0.88, 30, 0.901, 0.025)
    assert found.verdict == "inconclusive"
    assert found.pairs is not None
    assert of(0.88, found.pairs, 0.901, 0.025).verdict == "reproduced"
    assert of(0.88, found.pairs - 1, 0.901, 0.025).verdict == "inconclusive"
    # alike answers within sources need more
    clustered = ClusteredInterval(0.6, 1.0, 30, 15.0)
    alike = equivalence(0.88, clustered, 30, 0.901, 0.025)
    assert alike.pairs == pytest.approx(2 * found.pairs, abs=2)
    # few sources widen the interval also of more pairs: fewer than there are cannot decide
    of_three = equivalence(0.88, ClusteredInterval(0.6, 1.0, 3, 40.0), 120, 0.901, 0.025)
    assert of_three.verdict == "inconclusive"
    assert of_three.pairs is not None
    assert of_three.pairs > 120
    # the published interval alone is too wide, or the difference is the margin
    assert of(0.66, 100, 0.66, 0.15).pairs is None
    assert of(0.8, 100, 0.9, 0.01).pairs is None


def test_few_sources_widen_the_interval() -> None:
    many = equivalence(0.9, ClusteredInterval(0.8, 1.0, 400, 400.0), 400, 0.9, 0.025)
    few = equivalence(0.9, ClusteredInterval(0.8, 1.0, 3, 400.0), 400, 0.9, 0.025)
    assert few.interval.high - few.interval.low > many.interval.high - many.interval.low


@pytest.mark.parametrize("margin", [0.0, -0.1, 1.1])
def test_a_margin_is_a_share_above_0(margin: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        of(0.9, 10, 0.9, 0.02, margin)
