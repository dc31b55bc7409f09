"""Juries: majorities by hand, weights by SciPy and without leaks, the best jury, errors by statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from statsmodels.stats.inter_rater import cohens_kappa

from tasks.statistics.juries import (
    MAX_SEARCHED,
    RIDGE,
    Ballots,
    ballots_of,
    best_juries,
    error_agreement,
    fitted_weights,
    majority_points,
    searched_members,
    verdicts_of,
    weighted_points,
)
from tasks.statistics.trials import Trial
from tests.tasks.statistics.making import few, judged, known, pair, scored

votes_of_three = st.lists(st.tuples(*[st.sampled_from([-1, 0, 1])] * 3), min_size=4, max_size=40)


def ballots(votes: object, sources: int = 1000) -> Ballots:
    held = np.array(votes, np.float64)
    pairs = tuple(pair(number, source_id=f"source-{number % sources}") for number in range(len(held)))
    return Ballots(tuple("abcdefghijklmnop"[: held.shape[1]]), pairs, held)


def test_a_vote_is_what_both_orders_prefer_on_the_pairs_of_all() -> None:
    trials: dict[str, list[Trial]] = {
        "judge": judged([("right", "right"), ("right", "wrong"), ("wrong", "tie"), ("failed", "right")]),
        "scorer": scored(["right", "wrong", "tie", "right", "right"]),
    }
    made = ballots_of(trials)
    assert [one.pair_id for one in made.pairs] == ["pair-0", "pair-1", "pair-2"]
    assert made.votes.tolist() == [[1, 1], [0, -1], [-1, 0]]
    assert majority_points(made.votes).tolist() == [1, 0, 0]
    assert ballots_of({"judge": trials["judge"], "none": []}).pairs == ()


def test_a_majority_of_three_by_hand() -> None:
    made = ballots([[1, 1, -1], [1, -1, -1], [1, -1, 0], [0, 0, 1]])
    found = verdicts_of(majority_points(made.votes), made.sources)
    assert (found.pairs, found.accuracy) == (4, 2.5 / 4)
    assert 0.625 in known(found.clustered)


@few
@given(votes_of_three)
def test_weights_are_those_of_scipys_minimum(votes: list[tuple[int, int, int]]) -> None:
    held = np.array(votes, np.float64)
    expected = minimize(
        lambda w: np.logaddexp(0, -held @ w).sum() + RIDGE / 2 * (w**2).sum(), np.zeros(3), tol=1e-10
    )
    assert fitted_weights(held) == pytest.approx(expected.x, abs=1e-4)


@few
@given(votes_of_three, st.integers(2, 12))
def test_no_source_tells_anything_about_its_own_weights(
    votes: list[tuple[int, int, int]], sources: int
) -> None:
    """Were the other video the better one in all pairs of a source, their verdicts would be the same."""
    made = ballots(votes, sources)
    inside = np.array([source == made.sources[0] for source in made.sources])
    mirrored = made.votes.copy()
    mirrored[inside] *= -1
    points, other = (
        known(weighted_points(made)),
        known(weighted_points(Ballots(made.members, made.pairs, mirrored))),
    )
    assert other[inside] == pytest.approx(1 - points[inside])


def test_two_that_err_together_do_not_outvote_a_better_one() -> None:
    rng = np.random.default_rng(2)
    good = np.where(rng.random(400) < 0.9, 1, -1)
    poor = np.where(rng.random(400) < 0.6, 1, -1)
    made = ballots(np.column_stack([good, poor, poor]), 100)
    assert majority_points(made.votes).mean() == pytest.approx((poor == 1).mean())
    assert known(weighted_points(made)).mean() == pytest.approx((good == 1).mean())
    weights = fitted_weights(made.votes)
    assert weights[1] == pytest.approx(weights[2])
    assert weights[0] > 2 * weights[1]
    assert weighted_points(ballots([[1, 1], [1, -1]], 1)) is None


def test_the_best_jury_for_a_price() -> None:
    # a alone has 3 of 4, as has d; b, c and d err on different pairs, so their majority is always right
    made = ballots([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]] * 5)
    costs = {"a": 3.0, "b": 1.0, "c": 1.0, "d": 1.0}
    one, two, three = best_juries(made, costs, 3)
    assert (one.members, one.cost, one.chosen.accuracy) == (("b",), 1, 0.75)
    assert two.chosen.accuracy == 0.75
    # all juries of three have three of four votes right on each pair but those of their absent member
    assert (three.members, three.cost) == (("b", "c", "d"), 3)
    assert three.chosen.accuracy == 1.0
    assert known(three.held_out).accuracy == 1.0
    assert [jury.members for jury in best_juries(made, costs, 3, price=2.0)] == [("b",), ("b", "c")]
    assert best_juries(made, {**costs, "b": None, "c": None, "d": None}, 3, price=2.0) == ()
    assert best_juries(made, {}, 1)[0].cost is None
    assert best_juries(ballots(np.empty((0, 2))), {}, 2) == ()


def test_choosing_among_coins_is_optimistic_and_its_held_out_accuracy_is_not() -> None:
    rng = np.random.default_rng(4)
    made = ballots(rng.choice([-1, 1], (150, MAX_SEARCHED + 2)), 50)
    assert len(searched_members(made)) == MAX_SEARCHED
    best = best_juries(made, {}, 3)[-1]
    assert known(best.chosen.accuracy) > 0.6
    assert known(known(best.held_out).accuracy) < known(best.chosen.accuracy) - 0.05


@few
@given(st.lists(st.tuples(*[st.sampled_from([-1, 0, 1])] * 2), min_size=3, max_size=60))
def test_agreement_of_errors_is_numpys_and_statsmodels(votes: list[tuple[int, int]]) -> None:
    made = ballots(votes)
    found = error_agreement(made)
    table = np.zeros((3, 3))
    for one, other in votes:
        table[one + 1, other + 1] += 1
    if found.kappa is not None:
        assert found.kappa == pytest.approx(cohens_kappa(table, wt="linear", return_results=False))
    if found.correlation is not None:
        assert found.correlation == pytest.approx(np.corrcoef(made.votes.T)[0, 1])
    spread = [len(set(column)) > 1 for column in zip(*votes, strict=True)]
    assert (found.correlation is not None) == all(spread)


def test_the_intervals_of_agreement() -> None:
    rng = np.random.default_rng(6)
    hard = np.where(rng.random(300) < 0.5, 0.95, 0.55)
    made = ballots(np.column_stack([np.where(rng.random(300) < hard, 1, -1) for _ in range(2)]), 60)
    found = error_agreement(made)
    # E[(p − 3/4)²] over p(1 − p) at 3/4
    for value, interval in (
        (found.correlation, found.correlation_interval),
        (found.kappa, found.kappa_interval),
    ):
        assert known(value) in known(interval)
        assert 0.04 / 0.1875 in known(interval)
        assert known(interval).high - known(interval).low < 0.4
    assert error_agreement(ballots([[1, -1], [1, 1]], 2)).kappa_interval is None
    # one that is always right has a kappa of 0 whichever source is deleted, which proves nothing
    constant = error_agreement(ballots([[1, 1], [1, -1]] * 4))
    assert (constant.kappa, constant.kappa_interval) == (0, None)
    assert error_agreement(ballots(np.empty((0, 2)))).pairs == 0
