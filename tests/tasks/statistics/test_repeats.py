"""Repeats: flip rates and majorities against enumeration, components against statsmodels."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from storage_schemas.judgements import Order
from tasks.statistics.repeats import (
    PLANNED,
    Answers,
    flip_interval,
    flip_rate,
    majority_curve,
    repeat_plans,
    repeated_pairs,
    variance_components,
)
from tasks.statistics.trials import BOTH_ORDERS, Outcome, Trial, pair_points
from tests.tasks.statistics.making import few, known, pair, trial

NAMES: dict[str, Outcome] = {"r": "right", "w": "wrong", "t": "tie", "f": "failed"}
SPELLED = st.text("rwt", min_size=2, max_size=7)


def asked(*pairs: str) -> list[Trial]:
    """Return trials of pairs written as ``"rrw/rww"``: the answers high first and low first."""
    orders: tuple[Order, ...] = BOTH_ORDERS
    return [
        trial(pair(number), NAMES[letter], order, repeat)
        for number, spelled in enumerate(pairs)
        for order, letters in zip(orders, spelled.split("/"), strict=False)
        for repeat, letter in enumerate(letters)
    ]


def answers(letters: str) -> Answers:
    return Answers(letters.count("r"), letters.count("t"), letters.count("w"))


@few
@given(SPELLED, st.data())
def test_majority_and_flip_are_means_over_sets_and_pairs_of_answers(
    letters: str, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(letters)))
    votes = [(one.count("r") > one.count("w")) + (one.count("r") == one.count("w")) / 2
             for one in map("".join, combinations(letters, k))]  # fmt: skip
    assert answers(letters).majority(k) == pytest.approx(fmean(votes))
    flips = [one != other for one, other in combinations(letters, 2)]
    assert answers(letters).flip_rate == pytest.approx(fmean(flips))


@few
@given(st.text("rw", min_size=2, max_size=8), st.data())
def test_an_even_majority_is_as_right_as_the_odd_one_below(letters: str, data: st.DataObject) -> None:
    half = data.draw(st.integers(1, len(letters) // 2))
    assert answers(letters).majority(2 * half) == pytest.approx(answers(letters).majority(2 * half - 1))


def test_flips_count_within_an_order_and_by_pair() -> None:
    # the orders of pair 0 disagree, its repeats do not; a failure is not an answer, one answer not a repeat
    pairs = repeated_pairs(asked("rrr/www", "rrw/rrr", "rwf/rrr", "r/r", "rr/ff"))
    assert [one.pair.pair_id for one in pairs] == ["pair-0", "pair-1", "pair-2"]
    assert [one.flip_rate for one in pairs] == pytest.approx([0, 1 / 3, 1 / 2])
    assert flip_rate(pairs) == pytest.approx(5 / 18)
    interval = known(flip_interval(pairs))
    assert interval.low < 5 / 18 < interval.high
    assert repeated_pairs(asked("r/r", "w/r")) == ()
    assert flip_rate(()) is None


def test_the_majority_of_one_is_the_accuracy() -> None:
    trials = asked("rrw/rww", "rrr/rrt", "wwr/rrr", "www/wrw")
    curve = majority_curve(repeated_pairs(trials))
    assert [(point.k, point.pairs) for point in curve] == [(1, 4), (3, 4)]
    assert curve[0].accuracy == pytest.approx(fmean(pair_points(trials).values()))
    assert curve[1].accuracy == pytest.approx(fmean([1, 0, 1, 1, 0, 1, 0, 0]))
    assert curve[1].accuracy in curve[1].clustered
    assert majority_curve(()) == ()


def test_pairs_with_few_answers_do_not_shorten_the_curve() -> None:
    curve = majority_curve(repeated_pairs(asked(*["rrrrr/rrwrr"] * 9, "ww/ww")))
    assert [(point.k, point.pairs) for point in curve] == [(1, 9), (3, 9), (5, 9)]


def test_components_are_those_of_statsmodels_mean_squares() -> None:
    rng = np.random.default_rng(5)
    hard = rng.random(12)
    spelled = ["/".join("".join(rng.choice(["r", "w"], 4, p=[p, 1 - p])) for p in (h, h**4)) for h in hard]
    trials = asked(*spelled)
    frame = pd.DataFrame(
        [(one.pair.pair_id, one.order, float(one.outcome == "right")) for one in trials],
        columns=["pair", "order", "points"],
    )
    square = anova_lm(ols("points ~ C(pair) + C(pair):C(order)", frame).fit())["mean_sq"]
    found = known(variance_components(repeated_pairs(trials)))
    assert found.repeat.variance == pytest.approx(square["Residual"])
    assert found.order.variance == pytest.approx((square["C(pair):C(order)"] - square["Residual"]) / 4)
    assert found.pair.variance == pytest.approx((square["C(pair)"] - square["C(pair):C(order)"]) / 8)
    assert sum(known(one.share) for one in (found.pair, found.order, found.repeat)) == pytest.approx(1)
    for one in (found.pair, found.order, found.repeat):
        assert one.variance in known(one.interval)


def test_components_by_hand() -> None:
    # only pairs differ: variance of 1, 1, 0 over pairs
    found = known(variance_components(repeated_pairs(asked("rr/rr", "rr/rr", "ww/ww"))))
    assert (found.pair.variance, found.order.variance, found.repeat.variance) == pytest.approx((1 / 3, 0, 0))
    # a judge that always says first: orders differ, and nothing else
    found = known(variance_components(repeated_pairs(asked("rr/ww", "rr/ww", "rr/ww"))))
    assert (found.pair.share, found.order.share, found.repeat.share) == (0, 1, 0)
    # asked in one order, unbalanced: MSE = (1/2 + 2/3) / 3, SSA = 1/30, n0 = 5 - 13/5
    found = known(variance_components(repeated_pairs(asked("rw", "rrw"))))
    assert found.repeat.variance == pytest.approx(7 / 18)
    assert (found.order.variance, found.pair.variance) == (0, 0)
    assert variance_components(repeated_pairs(asked("rr/rr"))) is None


def test_unbalanced_components_are_without_bias() -> None:
    rng = np.random.default_rng(3)
    estimates = []
    for _ in range(400):
        spelled = []
        for number in range(30):
            level = 0.5 + 0.3 * rng.choice([-1, 1])
            parts = [level + 0.15 * rng.choice([-1, 1]) for _ in range(2)]
            sizes = (2, 5) if number % 2 else (4, 3)
            spelled.append("/".join("".join(rng.choice(["r", "w"], n, p=[p, 1 - p]))
                                    for p, n in zip(parts, sizes, strict=True)))  # fmt: skip
        found = known(variance_components(repeated_pairs(asked(*spelled))))
        estimates.append((found.pair.variance, found.order.variance, found.repeat.variance))
    # p(1 - p) over the four levels is the rest of 1/4
    expected = (0.09, 0.0225, 0.25 - 0.09 - 0.0225)
    assert np.mean(estimates, axis=0) == pytest.approx(expected, abs=0.004)


def test_repeats_pay_if_answers_flip_and_not_if_pairs_differ() -> None:
    def widths(*spelled: str) -> list[float]:
        return [plan.half for plan in repeat_plans(repeated_pairs(asked(*spelled)))]

    steady = repeat_plans(repeated_pairs(asked("rr/rr", "rr/rr", "ww/ww", "ww/ww")))
    assert [plan.repeats for plan in steady] == list(PLANNED)
    assert {round(plan.half, 12) for plan in steady} == {round(steady[0].half, 12)}
    assert {plan.pairs_alike for plan in steady} == {4}
    assert steady[2].half_more_pairs == pytest.approx(steady[0].half / 3**0.5)
    # noise alone: a repeat is worth a pair
    noisy = repeat_plans(repeated_pairs(asked("rw/rw", "wr/rw", "rw/wr", "wr/wr")))
    assert [plan.pairs_alike for plan in noisy] == [4 * repeats for repeats in PLANNED]
    assert [plan.half for plan in noisy] == pytest.approx([plan.half_more_pairs for plan in noisy])
    assert [plan.requests for plan in noisy] == [8 * repeats for repeats in PLANNED]
    assert repeat_plans(repeated_pairs(asked("rr/rr", "rr/rr"))) == ()
    assert widths("rr/rw", "wr/ww", "rr/rr") == sorted(widths("rr/rw", "wr/ww", "rr/rr"), reverse=True)
