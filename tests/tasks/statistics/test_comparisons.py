"""Evaluators against each other, pair by pair, and Holm's correction."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from tasks.statistics.comparisons import Comparison, compare, compare_all, holm
from tasks.statistics.trials import Outcome
from tests.tasks.statistics.making import Both, both_orders, few, judged, known, scored

p_values = st.lists(st.none() | st.floats(0, 1), max_size=12)
RIGHT: list[Outcome] = ["right"]
WRONG: list[Outcome] = ["wrong"]


def two(both: int, first: int, second: int, neither: int) -> tuple[list[Outcome], list[Outcome]]:
    """Answers of two evaluators with these cells of McNemar's table."""
    ours = RIGHT * (both + first) + WRONG * (second + neither)
    return ours, RIGHT * both + WRONG * first + RIGHT * second + WRONG * neither


def compared(ours: list[Outcome], theirs: list[Outcome]) -> Comparison:
    return compare(scored(ours, "a"), scored(theirs, "b"))


def test_few_discordant_pairs_are_tested_exactly() -> None:
    result = compared(*two(20, 8, 1, 5))
    assert (result.pairs, result.equal, result.first_better, result.second_better) == (34, 25, 8, 1)
    assert result.exact
    assert result.p == pytest.approx(binomtest(8, 9).pvalue) == pytest.approx(2 * (1 + 9) / 2**9)
    assert result.difference == pytest.approx(7 / 34)


def test_many_discordant_pairs_are_tested_by_chi_square() -> None:
    # McNemar's table with 59 and 6 discordant has χ² = 52²/65 with continuity correction
    result = compared(*two(212, 59, 6, 53))
    assert not result.exact
    assert result.p == pytest.approx(chi2.sf((59 - 6 - 1) ** 2 / 65, 1))
    assert 0 < known(result.interval).low < 53 / 330 < known(result.interval).high


def test_only_common_pairs_take_part() -> None:
    result = compared(["right", "failed", "wrong"], ["wrong", "right", "failed"])
    assert (result.pairs, result.first_better, result.interval, result.p) == (1, 1, None, 1.0)
    result = compared(["failed"], ["right"])
    assert (result.pairs, result.difference, result.interval, result.p) == (0, None, None, None)
    result = compared(["right", "wrong"], ["right", "wrong"])
    assert (result.difference, result.interval, result.p) == (0.0, None, 1.0), "they never differ"


def test_half_a_point_lies_between_right_and_wrong() -> None:
    result = compare(judged([("right", "wrong")] * 3, "a"), scored(["right", "wrong", "tie"], "b"))
    assert (result.equal, result.first_better, result.second_better) == (1, 1, 1)


@few
@given(both_orders, both_orders)
def test_mcnemar_is_symmetric(ours: Both, theirs: Both) -> None:
    first, second = judged(ours, "a"), judged(theirs, "b")
    there, back = compare(first, second), compare(second, first)
    assert there.p == back.p
    assert (there.first_better, there.second_better) == (back.second_better, back.first_better)
    if there.difference is not None:
        assert there.difference == pytest.approx(-known(back.difference))
        assert 0 <= known(there.p) <= 1
        assert there.interval is None or there.difference in there.interval


def test_holm_by_hand() -> None:
    # 4·0.005, 3·0.01, 2·0.03, then never less than the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.01, None, 0.04]) == [pytest.approx(0.02), None, pytest.approx(0.04)]
    assert (holm([]), holm([None])) == ([], [None])


@few
@given(p_values)
def test_holm_keeps_the_order_and_never_lowers(p_values: list[float | None]) -> None:
    corrected = holm(p_values)
    known = [(p, c) for p, c in zip(p_values, corrected, strict=True) if p is not None and c is not None]
    assert [p is None for p in p_values] == [c is None for c in corrected]
    assert all(p <= c + 1e-15 and c <= 1 for p, c in known)
    assert all(low[1] <= high[1] for low, high in zip(sorted(known), sorted(known)[1:], strict=False))


def test_an_aspects_comparisons_are_one_family() -> None:
    ours, theirs = two(5, 8, 1, 3)
    color = scored(ours, "a") + scored(theirs, "b") + scored(ours, "c")
    style = [
        replace(held, pair=replace(held.pair, aspect="style", pair_id=f"s{held.pair.pair_id}"))
        for held in color[:34]
    ]
    members = compare_all(color + style)
    assert [(held.aspect, held.first[0] + held.second[0]) for held in members] == [
        ("color", "ab"), ("color", "ac"), ("color", "bc"), ("style", "ab")
    ]  # fmt: skip
    p = 2 * (1 + 9) / 2**9
    assert [held.comparison.p for held in members] == pytest.approx([p, 1, p, p])
    assert [held.p_holm for held in members] == pytest.approx([3 * p, 1, 3 * p, p])
