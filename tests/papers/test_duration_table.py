"""SLVMEval, table 7: what the printed ρ say of the bins; table 8 (their p) is not in the text we have."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations_with_replacement
from math import ceil, sqrt

import pytest

from tasks.statistics.correlations import p_of_correlation
from tests.papers.tables import printed, rows

RHO = {cell: float(text) for cell, text in printed("table7", "rho").items()}
ASPECTS = list(dict.fromkeys(aspect for _, aspect in RHO))
PAIRS_PER_BIN = 20
MAX_S = 10486


@cache
def spreads(bins: int) -> tuple[float, ...]:
    """Every value that the sum of squared rank deviations can have over bins, equal accuracies included."""
    reachable: list[set[int]] = [{0}]
    for total in range(1, bins + 1):
        reachable.append(
            {ties + size**3 - size for size in range(1, total + 1) for ties in reachable[total - size]}
        )
    whole = bins**3 - bins
    return tuple((whole - ties) / 12 for ties in reachable[bins] if ties < whole)


def possible(rho: float, bins: int) -> bool:
    """Whether ρ prints so for some ranks: their product sum is a multiple of a half, bins never tie."""
    whole = (bins**3 - bins) / 12
    for spread in spreads(bins):
        scale = sqrt(whole * spread)
        if abs(round(2 * rho * scale) / 2 / scale - rho) <= 0.5001e-4:
            return True
    return False


def mean_p(bins: int) -> float:
    values = [p_of_correlation(rho, bins) for rho in RHO.values()]
    return math.fsum(value for value in values if value is not None) / len(values)


def test_what_is_possible_agrees_with_all_rankings_of_three() -> None:
    """The search of `possible` on three bins: ranks 1, 2, 3 against every y."""
    from scipy.stats import spearmanr

    result = {
        round(float(spearmanr([1, 2, 3], y).statistic), 4)
        for values in combinations_with_replacement((1, 2, 3), 3)
        for y in {values, values[::-1], (values[1], values[0], values[2]), (values[0], values[2], values[1])}
        if len(set(y)) > 1
    }
    assert all(possible(value, 3) for value in result)
    assert not possible(0.3, 3)


@pytest.mark.parametrize("aspect", ASPECTS)
def test_the_correlations_are_not_over_the_four_bins_of_the_figure(aspect: str) -> None:
    """No number of bins up to 11 gives all nine values of an aspect: they are over finer bins."""
    values = [rho for (_, of), rho in RHO.items() if of == aspect]
    assert len(values) == 9
    for bins in range(3, 12):
        assert not all(possible(rho, bins) for rho in values), bins


def test_hundred_second_bins_make_no_significance_on_average() -> None:
    """The paper's words about the mean p hold for every number of 100-s bins that there can be."""
    initial = {row["aspect"]: int(row["initial"]) for row in rows("table3") if row["aspect"] != "total"}
    least = min(ceil(count / PAIRS_PER_BIN) for count in initial.values())
    most = ceil(MAX_S / 100)
    assert (least, most) == (17, 105)
    means = [mean_p(bins) for bins in range(least, most + 1)]
    assert means == sorted(means, reverse=True)
    assert min(means) > 0.05


def test_most_correlations_are_negative() -> None:
    assert (len(RHO), sum(rho < 0 for rho in RHO.values())) == (90, 74)
    assert sum(RHO.values()) / 90 == pytest.approx(-0.2214, abs=1e-4)
