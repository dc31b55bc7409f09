"""Signal detection: golden values, known observers, and the coverage of intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from storage_schemas.judgements import Order, Preferred
from tasks.statistics.detection import Estimate, d_prime, detection, difference, log_linear
from tasks.statistics.trials import BOTH_ORDERS, Trial, TrialPair

#: Shares of right answers and d′ for two alternatives, as in the table of Hacker and Ratcliff (1979).
PUBLISHED = {
    0.50: 0.00,
    0.55: 0.18,
    0.60: 0.36,
    0.65: 0.54,
    0.70: 0.74,
    0.75: 0.95,
    0.80: 1.19,
    0.85: 1.47,
    0.90: 1.81,
    0.95: 2.33,
    0.99: 3.29,
}

Prefers = Callable[[TrialPair, Order], Preferred]


def trials(
    prefers: Prefers, pairs: Sequence[TrialPair], orders: Sequence[Order] = BOTH_ORDERS
) -> list[Trial]:
    found = []
    for pair in pairs:
        for order in orders:
            side = prefers(pair, order)
            choice = (
                None
                if order == "apart"
                else "first"
                if (side == "high") == (order == "high_first")
                else "second"
            )
            found.append(Trial("judge", "x", pair, order, 0, side, choice))  # type: ignore[arg-type]
    return found


def pairs_of(count: int, control: bool = False, per_source: int = 1) -> list[TrialPair]:
    word = "control" if control else "pair"
    return [
        TrialPair(f"{word}{n}", f"source{n // per_source}", "color", 60.0, control=control)
        for n in range(count)
    ]


@pytest.mark.parametrize(("share", "published"), PUBLISHED.items())
def test_d_prime_is_the_published_one(share: float, published: float) -> None:
    assert d_prime(share) == pytest.approx(published, abs=0.005)


@pytest.mark.parametrize("share", [0.55, 0.75, 0.9, 0.99])
def test_d_prime_inverts_the_chance_that_the_signal_gives_the_stronger_response(share: float) -> None:
    right, _ = quad(lambda x: norm.pdf(x - d_prime(share)) * ndtr(x), -np.inf, np.inf)
    assert right == pytest.approx(share, abs=1e-7)


def test_an_observer_that_sees_has_no_false_alarms_beyond_chance() -> None:
    def sees(pair: TrialPair, order: Order) -> Preferred:
        # a control is decided by a coin that follows the pair
        return "high" if not pair.control or int(pair.pair_id[7:]) % 2 else "low"

    found = detection(trials(sees, pairs_of(40)), trials(sees, pairs_of(40, True)))
    assert found.hits is not None
    assert found.false_alarms is not None
    assert found.beyond_edit is not None
    assert (found.hits.share, found.false_alarms.share) == (1.0, 0.5)
    assert found.false_alarms.d_prime.value == pytest.approx(0)
    assert found.hits.d_prime.value == pytest.approx(d_prime(80.5 / 81))
    assert found.hits.d_prime.high is None
    assert found.beyond_edit.low is not None
    assert found.beyond_edit.low > 1
    assert found.bias is not None
    assert found.bias.value == pytest.approx(0)
    # no two sources differ, which proves nothing
    assert found.bias.high == pytest.approx(-(found.bias.low or 0))
    assert found.bias.high > 0.05


def test_an_observer_that_notices_edits_has_nothing_left_beyond_them() -> None:
    def edits(pair: TrialPair, order: Order) -> Preferred:
        return "high"

    found = detection(trials(edits, pairs_of(40)), trials(edits, pairs_of(40, True)))
    assert found.beyond_edit == Estimate(0.0, None, None)
    assert found.false_alarms is not None
    assert found.false_alarms.interval.low > 0.8


@pytest.mark.parametrize("per_source", [1, 5])
def test_an_observer_that_prefers_the_first_has_a_bias_and_no_sensitivity(per_source: int) -> None:
    def first(pair: TrialPair, order: Order) -> Preferred:
        return "high" if order == "high_first" else "low"

    damaged, controls = (pairs_of(30 * per_source, kind, per_source=per_source) for kind in (False, True))
    found = detection(trials(first, damaged), trials(first, controls))
    assert found.hits is not None
    assert found.hits.share == 0.5
    # half a source is added, however many pairs a source has
    assert found.bias is not None
    assert found.bias.value == pytest.approx(ndtri(0.5 / 31))
    assert (found.bias.low, found.bias.high) == pytest.approx((-2.973, -1.309), abs=0.001)


def test_a_scorer_has_no_order_and_no_bias() -> None:
    apart: list[Order] = ["apart"]
    found = detection(trials(lambda *_: "high", pairs_of(5), apart), [])
    assert (found.bias, found.false_alarms, found.beyond_edit) == (None, None, None)
    assert detection([], []).hits is None


def test_few_sources_widen_the_interval() -> None:
    def half(pair: TrialPair, order: Order) -> Preferred:
        return "high" if pair.source_id in {f"source{n}" for n in range(0, 40, 2)} else "low"

    wide, narrow = (detection(trials(half, pairs_of(40, per_source=n)), []).hits for n in (10, 1))
    assert wide is not None
    assert narrow is not None

    def width(one: Estimate) -> float:
        return math.inf if one.high is None or one.low is None else one.high - one.low

    assert width(wide.d_prime) > 2 * width(narrow.d_prime)


def test_a_difference_has_no_bound_where_a_part_has_none() -> None:
    assert difference(Estimate(2, 1, None), Estimate(0, -0.5, 0.5)) == Estimate(
        2, 2 - math.hypot(1, 0.5), None
    )
    assert log_linear(0, 0) == 0.5


def test_the_interval_of_what_is_left_beyond_the_edit_covers_the_truth() -> None:
    """Of 400 simulated judges, 93 % or more have the true difference in their interval: it is a wide one."""
    rng = np.random.default_rng(20)
    hit, alarm, sources, covered = 0.8, 0.6, 30, 0
    truth = d_prime(hit) - d_prime(alarm)
    for _ in range(400):
        # sources differ in how easy they are, on both kinds of pairs
        easy = rng.normal(0, 0.4, sources) / math.sqrt(1)
        scale = math.sqrt(1 + 0.4**2)

        def answers(
            share: float, control: bool, easy: np.ndarray = easy, scale: float = scale
        ) -> list[Trial]:
            chances = ndtr(norm.ppf(share) * scale + easy)
            pairs = pairs_of(3 * sources, control, per_source=3)
            draws = rng.random(3 * sources) < np.repeat(chances, 3)
            sides = {
                pair.pair_id: "high" if right else "low" for pair, right in zip(pairs, draws, strict=True)
            }
            return trials(lambda pair, _: sides[pair.pair_id], pairs, ["apart"])  # type: ignore[return-value]

        found = detection(answers(hit, False), answers(alarm, True)).beyond_edit
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
    assert covered >= 0.93 * 400


@pytest.mark.parametrize(("shares", "sources"), [((0.98, 0.98), 10), ((0.98, 0.16), 10), ((0.84, 0.5), 30)])
def test_the_interval_of_the_bias_covers_the_truth(shares: tuple[float, float], sources: int) -> None:
    """Of 300 simulated judges, 92 % or more; where nearly all answers agree, too."""
    rng = np.random.default_rng(4)
    pairs, truth = pairs_of(sources), -float(ndtri(shares).sum()) / 2
    covered = 0
    for _ in range(300):
        firsts = dict(zip(pairs, rng.random((sources, 2)) < shares, strict=True))

        def prefers(pair: TrialPair, order: Order, firsts: dict[TrialPair, np.ndarray] = firsts) -> Preferred:
            return "high" if firsts[pair][BOTH_ORDERS.index(order)] == (order == "high_first") else "low"

        bias = detection(trials(prefers, pairs), []).bias
        assert bias is not None
        assert bias.low is not None
        assert bias.high is not None
        covered += bias.low <= truth <= bias.high
    assert covered >= 0.92 * 300
