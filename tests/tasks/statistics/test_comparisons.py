"""Evaluators against each other, pair by pair, and Holm's correction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, permutation_test, ttest_1samp
from statsmodels.stats.contingency_tables import mcnemar

from bench.source_clusters import rates
from tasks.statistics.comparisons import Comparison, compare, compare_all, holm, sign_flip_p
from tasks.statistics.trials import Outcome, Trial
from tests.tasks.statistics.making import Both, both_orders, few, judged, known, pair, scored, trial

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


def test_pairs_of_own_sources_are_mcnemars_test() -> None:
    result = compared(*two(212, 59, 6, 53))
    assert result.exact
    assert result.p == pytest.approx(mcnemar([[212, 59], [6, 53]], exact=True).pvalue)
    assert 0 < known(result.interval).low < 53 / 330 < known(result.interval).high
    assert result.effective_pairs == result.sources == 330


def of_sources(differences: list[list[int]]) -> Comparison:
    """Compare on pairs on which the first is better (1), worse (−1) or as good (0), source by source."""
    flat = [(source, one) for source, some in enumerate(differences) for one in some]
    trials: dict[str, list[Trial]] = {"a": [], "b": []}
    for number, (source, one) in enumerate(flat):
        of = pair(number, source_id=f"source-{source}")
        trials["a"].append(trial(of, "wrong" if one < 0 else "right", evaluator="a"))
        trials["b"].append(trial(of, "wrong" if one > 0 else "right", evaluator="b"))
    return compare(trials["a"], trials["b"])


def test_copies_of_a_source_are_not_evidence() -> None:
    once, often = of_sources([[1]] * 5 + [[-1]]), of_sources([[1] * 8] * 5 + [[-1] * 8])
    assert (once.p, often.p) == (pytest.approx(2 * 7 / 64), pytest.approx(2 * 7 / 64))
    assert often.effective_pairs == pytest.approx(48 * 5 / 47)
    assert once.difference == often.difference
    # the same difference needs as many sources, so eight times the pairs
    assert known(often.pairs_needed(0.5)) > 6 * known(once.pairs_needed(0.5))


def test_the_test_is_a_permutation_test_of_scipy() -> None:
    differences = [[1, 1, 0], [1], [-1, 1, 1], [-1], [1, 1, 1, 1], [0], [1, 1], [-1, -1, -1]]
    sums = [sum(some) for some in differences]
    expected = permutation_test((sums,), np.sum, permutation_type="samples", n_resamples=np.inf)
    result = of_sources(differences)
    assert result.exact
    assert result.p == pytest.approx(expected.pvalue)


def test_signs_are_drawn_where_there_are_too_many() -> None:
    rng = np.random.default_rng(5)
    sums = [int(one) for one in rng.integers(1, 10**6, 60) * rng.choice([-1, 1], 60, p=[0.35, 0.65])]
    exact, p = sign_flip_p(sums, "a", "b")
    assert not exact
    # the sum is about normal
    normal = 2 * norm.sf(abs(sum(sums)) / np.linalg.norm(sums))
    assert p == pytest.approx(normal, abs=0.01)
    assert sign_flip_p(sums[::-1], "a", "b") == (exact, p)


def test_the_interval_of_few_sources_is_students() -> None:
    differences = [1, 0, 1, -1, 1]
    interval = known(of_sources([[one] for one in differences]).interval)
    expected = ttest_1samp(differences, 0).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((expected.low, min(1.0, expected.high)))


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
def test_a_comparison_is_symmetric(ours: Both, theirs: Both) -> None:
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


def test_equal_evaluators_rarely_differ_however_alike_the_pairs_of_a_source_are() -> None:
    found = rates(sources=8, pairs=8, trials=250)
    assert found.error <= 0.07 < 0.12 < found.mcnemar
    assert found.difference >= 0.92
    assert found.accuracy >= 0.9 > found.plain
