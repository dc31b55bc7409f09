from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tasks.statistics.correlations import (
    filter_correlations,
    p_of_correlation,
    pearson,
    ranking_correlation,
    spearman,
)
from tasks.statistics.trials import Outcome
from tests.tasks.statistics.making import few, scored

numbers = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), max_size=25)


def test_a_textbooks_ranks() -> None:
    # intelligence and hours of television: Σd² = 194 over ten people, ρ = 1 − 6·194/990
    iq = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
    hours = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    result = spearman(iq, hours)
    assert result.coefficient == pytest.approx(-29 / 165)
    assert result.p == pytest.approx(0.627188, abs=1e-6)
    assert result.n == 10


@few
@given(numbers)
def test_both_are_scipys(rows: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in rows], [float(b) for _, b in rows]
    for ours, theirs in ((spearman, stats.spearmanr), (pearson, stats.pearsonr)):
        result = ours(x, y)
        assert result.n == len(rows)
        if len(set(x)) < 2 or len(set(y)) < 2:
            assert result.coefficient is result.p is None
        else:
            expected = theirs(x, y)
            assert result.coefficient == pytest.approx(expected.statistic)
            if len(rows) < 3:
                assert result.p is None
            else:
                # p is a square root away from 0 where the coefficient is a bit away from 1
                assert result.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("values", [([], []), ([1.0], [2.0]), ([5.0, 5.0, 5.0], [1.0, 2.0, 3.0])])
def test_what_has_no_correlation(values: tuple[list[float], list[float]]) -> None:
    assert spearman(*values).coefficient is pearson(*values).coefficient is None
    assert spearman(*values).p is None


def test_two_points_correlate_without_p() -> None:
    result = spearman([1, 2], [3, 1])
    assert (result.n, result.coefficient, result.p) == (2, pytest.approx(-1), None)


def test_p_from_a_coefficient() -> None:
    # critical value of Pearson's r for 10 points at 5 %: 0.6319
    assert p_of_correlation(0.6319, 10) == pytest.approx(0.05, abs=1e-4)
    assert p_of_correlation(-0.6319, 10) == p_of_correlation(0.6319, 10)
    assert p_of_correlation(0.0, 10) == 1
    assert p_of_correlation(1.0, 5) == 0
    assert p_of_correlation(0.9, 2) is None
    with pytest.raises(ValueError, match=r"a correlation of 1\.1"):
        p_of_correlation(1.1, 5)


def test_unequal_lengths_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="2 x but 1 y"):
        spearman([1, 2], [1])


def test_filter_correlation_by_hand() -> None:
    answers: dict[str, list[Outcome]] = {
        "a": ["right", "right", "right", "wrong"],
        "b": ["right", "wrong", "wrong", "wrong"],
        "c": ["right", "right", "wrong", "right"],
        "d": ["failed", "failed", "right", "right"],
    }
    trials = [
        replace(held, pair=replace(held.pair, kept=number < 2))
        for name, outcomes in answers.items()
        for number, held in enumerate(scored(outcomes, name))
    ]
    (result,) = filter_correlations(trials)
    # d answered no pair that was kept
    assert dict(result.unfiltered) == {("a", ""): 0.75, ("b", ""): 0.25, ("c", ""): 0.75}
    assert dict(result.filtered) == {("a", ""): 1.0, ("b", ""): 0.5, ("c", ""): 1.0}
    assert result.pearson.coefficient == pytest.approx(1)
    assert filter_correlations(scored(["right"])) == ()


def test_two_settings_rank_the_evaluators_they_share() -> None:
    first = {("a", ""): 0.9, ("b", ""): 0.7, ("c", ""): 0.5, ("d", ""): 0.6, ("x", ""): 0.1}
    second = {("d", ""): 0.55, ("c", ""): 0.5, ("b", ""): 0.8, ("a", ""): 0.75, ("y", ""): 0.9}
    result = ranking_correlation(first, second)
    assert (result.n, result.coefficient) == (4, pytest.approx(0.8))
