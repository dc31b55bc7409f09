"""Cells of the accuracy table, and the order bias of evaluators.

A cell is one evaluator on one aspect, with n, failures and three intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.statistics.intervals import (
    ClusteredInterval,
    Interval,
    clustered_interval,
    paper_interval,
    wilson_interval,
)
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy, Trial, Who, grouped, of_one_evaluator, units_of


@dataclass(frozen=True, slots=True)
class OrderBias:
    """Order bias of one evaluator.

    Parameters
    ----------
    both
        Number of requests answered in both orders (each counts once).
    equal
        Number of those that prefer the same video in both (or are ties in both).
    share_equal
        `equal` / `both`; None if there are none.
    first, second, ties
        Number of answers by choice; none for scorers, which see one video at a time.
    first_rate
        Share of `first` among answers that are not ties; 0.5 means no bias. None if there are none.
    first_interval
        Interval of `first_rate`, clustered by source, since the two orders of a pair are not independent.
    """

    both: int
    equal: int
    share_equal: float | None
    first: int
    second: int
    ties: int
    first_rate: float | None
    first_interval: ClusteredInterval | None


def order_bias(trials: Sequence[Trial]) -> OrderBias:
    """Compute the order bias of one evaluator.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    of_one_evaluator(trials)
    shown = [trial for trial in trials if trial.order != "apart" and trial.outcome != "failed"]
    both = equal = 0
    for together in grouped(shown, lambda trial: (trial.pair.pair_id, trial.repeat)).values():
        answers = {trial.order: trial.preferred for trial in together}
        if len(answers) == 2:
            both += 1
            equal += answers["high_first"] == answers["low_first"]
    decided = [trial for trial in shown if trial.choice in ("first", "second")]
    firsts = [float(trial.choice == "first") for trial in decided]
    return OrderBias(
        both=both,
        equal=equal,
        share_equal=equal / both if both else None,
        first=int(sum(firsts)),
        second=len(firsts) - int(sum(firsts)),
        ties=sum(trial.choice == "tie" for trial in shown),
        first_rate=sum(firsts) / len(firsts) if firsts else None,
        first_interval=clustered_interval(firsts, [trial.pair.source_id for trial in decided]),
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """Aggregate of one evaluator's trials.

    Parameters
    ----------
    pairs, requests
        Number of pairs and requests.
    failed, failures
        Number of requests without an answer, in total and by reason; they count as neither right nor wrong.
    ties
        Number of tie answers on pairs without a gold tie.
    counted_pairs
        Number of pairs with points; n of Wilson's interval.
    n
        Number of units: pairs, or twice the pairs if both orders were requested; n of the paper's interval.
    accuracy
        Mean points over units; None, like the intervals, if no unit has points.
    paper, wilson, clustered
        See :mod:`tasks.statistics.intervals`; `clustered` is by source.
    order
        Order bias.
    """

    pairs: int
    requests: int
    failed: int
    failures: tuple[tuple[str, int], ...]
    ties: int
    counted_pairs: int
    n: int
    accuracy: float | None
    paper: Interval | None
    wilson: Interval | None
    clustered: ClusteredInterval | None
    order: OrderBias


def cell_of(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> Cell:
    """Return the cell of one evaluator's trials on any set of pairs.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    units = units_of(trials, ties)
    points = [unit.points for unit in units]
    accuracy = sum(points) / len(points) if points else None
    counted = len({unit.pair.pair_id for unit in units})
    failed = [trial for trial in trials if trial.outcome == "failed"]
    reasons = Counter(trial.failure.value if trial.failure else "unknown" for trial in failed)
    return Cell(
        pairs=len({trial.pair.pair_id for trial in trials}),
        requests=len(trials),
        failed=len(failed),
        failures=tuple(sorted(reasons.items())),
        ties=sum(trial.outcome == "tie" for trial in trials),
        counted_pairs=counted,
        n=len(units),
        accuracy=accuracy,
        paper=paper_interval(accuracy, len(units)),
        wilson=wilson_interval(accuracy, counted),
        clustered=clustered_interval(points, [unit.pair.source_id for unit in units]),
        order=order_bias(trials),
    )


def cells_of(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> dict[tuple[Who, str], Cell]:
    """Return the table's cells by evaluator and aspect, in order of first appearance."""
    return {
        key: cell_of(together, ties)
        for key, together in grouped(trials, lambda trial: (trial.who, trial.pair.aspect)).items()
    }


def macro_accuracy(cells: Sequence[Cell]) -> float | None:
    """Return the unweighted mean of the cells' accuracies; None if any cell has none.

    A mean over fewer aspects would not be comparable with one over all of them.
    """
    accuracies = [cell.accuracy for cell in cells if cell.accuracy is not None]
    return sum(accuracies) / len(accuracies) if accuracies and len(accuracies) == len(cells) else None
