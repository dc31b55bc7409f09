"""SLVMEval, table 5 and appendix F.2: CLIPScore under three policies for long prompts."""

from __future__ import annotations

import pytest

from tasks.statistics.cells import Cell, cell_of, macro_mean
from tasks.statistics.intervals import printed_per_cent
from tasks.statistics.trials import Trial, grouped
from tests.papers.tables import claims, counts, pairs_of, printed, trials_with

ACCURACY, PLUS_MINUS = printed("table5", "accuracy"), printed("table5", "plus_minus")
ASPECTS = [aspect for policy, aspect in ACCURACY if policy == "ignore-max"]
#: The default policy stands in table 2.
ROW = {"truncate": "clipscore", "ignore-max": "ignore-max", "each-truncate": "each-truncate"}


def trials(policy: str) -> list[Trial]:
    result: list[Trial] = []
    for aspect in ASPECTS:
        (right,) = counts()[ROW[policy], aspect]
        result += trials_with(ROW[policy], aspect, right)
    return result


def cells(policy: str) -> dict[str, Cell]:
    held = grouped(trials(policy), lambda trial: trial.pair.aspect)
    return {aspect: cell_of(some) for aspect, some in held.items()}


def accuracy_over_pairs(found: list[Cell]) -> float:
    """The accuracy over the pairs of all aspects together: large aspects count more."""
    return sum((cell.accuracy or 0) * cell.n for cell in found) / sum(cell.n for cell in found)


@pytest.mark.parametrize("policy", ["ignore-max", "each-truncate"])
def test_counts_give_the_twenty_intervals(policy: str) -> None:
    assert len(ACCURACY) == len(PLUS_MINUS) == 20
    for aspect, cell in cells(policy).items():
        assert cell.paper is not None
        assert cell.n == pairs_of(aspect)
        assert printed_per_cent(cell.accuracy or 0) == ACCURACY[policy, aspect]
        assert printed_per_cent((cell.paper.high - cell.paper.low) / 2) == PLUS_MINUS[policy, aspect]


@pytest.mark.parametrize(
    ("policy", "macro", "pooled"),
    [("truncate", "60.7", "58.8"), ("ignore-max", "61.9", "60.5"), ("each-truncate", "63.8", "62.8")],
)
def test_the_printed_averages_are_of_two_kinds(policy: str, macro: str, pooled: str) -> None:
    """The default's average is over aspects, the other two are over pairs; they do not compare."""
    result = list(cells(policy).values())
    mean = macro_mean(trials(policy), ASPECTS)
    assert mean is not None
    assert printed_per_cent(mean.accuracy) == macro
    assert printed_per_cent(accuracy_over_pairs(result)) == pooled
    assert claims()["policy_average"][policy] == (macro if policy == "truncate" else pooled)
