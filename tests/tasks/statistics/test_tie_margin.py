"""The margin below which scores are a tie."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.statistics.tie_margin import best_tie_margin
from tests.tasks.statistics.making import known

differences_ = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])


def agreement(differences: list[float], ties: list[bool], margin: float | None) -> float:
    """What a margin gives, pair by pair."""
    right = 0
    for difference, tie in zip(differences, ties, strict=True):
        says_tie = margin is not None and abs(difference) <= margin
        right += says_tie if tie else (not says_tie and difference > 0)
    return right / len(ties)


def test_small_differences_become_ties_where_people_say_so() -> None:
    result = known(best_tie_margin([0.1, -0.2, 1.0, 2.0, -3.0], [True, True, False, False, False]))
    assert (result.n, result.margin, result.agreement) == (5, 0.2, 0.8)
    # without ties of people no margin is best
    result = known(best_tie_margin([1.0, 2.0, -1.0], [False] * 3))
    assert (result.margin, result.agreement) == (None, pytest.approx(2 / 3))
    # equal scores are ties at margin 0, and wrong without one
    zero = known(best_tie_margin([0.0], [True]))
    assert (zero.margin, zero.agreement) == (0.0, 1.0)


def test_nothing_and_nonsense() -> None:
    assert best_tie_margin([], []) is None
    with pytest.raises(ValueError, match="1 differences but 2"):
        best_tie_margin([1.0], [True, False])
    with pytest.raises(ValueError, match="finite"):
        best_tie_margin([math.nan], [True])


@given(st.lists(st.tuples(differences_, st.booleans()), min_size=1, max_size=12))
def test_no_margin_is_better(pairs: list[tuple[float, bool]]) -> None:
    differences, ties = [d for d, _ in pairs], [tie for _, tie in pairs]
    result = known(best_tie_margin(differences, ties))
    assert result.agreement == pytest.approx(agreement(differences, ties, result.margin))
    every = [None, *sorted({abs(d) for d in differences})]
    assert result.agreement == pytest.approx(max(agreement(differences, ties, margin) for margin in every))
