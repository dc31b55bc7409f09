"""Cells of the accuracy table, and the order bias of evaluators.

A cell is one evaluator on one aspect, with n, failures and three intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.statistics.intervals import (
    ClusteredInterval,
    Interval,
    clustered_interval,
    macro_interval,
    paper_interval,
    wilson_interval,
)
from tasks.statistics.trials import (
    DEFAULT_TIES,
    CountedUnit,
    TiePolicy,
    Trial,
    Who,
    expected_requests,
    failures_count,
    grouped,
    of_one_evaluator,
    points_of,
    units_of,
)

#: Share of the requests with points that an accuracy needs to be ranked and marked among others: one right
#: answer on one pair should not count as 100 %.
MIN_SHARE = 0.9


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
    expected
        Number of requests that a complete judgement has; those that were never made are missing.
    counted
        Number of requests with points.
    failed, failures
        Number of requests without an answer, in total and by reason.
    bounds
        The accuracy if all failed requests were wrong, and if all were right; None without any. It also
        counts the answered order of a pair whose other order failed.
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
    expected: int
    counted: int
    failed: int
    failures: tuple[tuple[str, int], ...]
    ties: int
    counted_pairs: int
    n: int
    accuracy: float | None
    bounds: Interval | None
    paper: Interval | None
    wilson: Interval | None
    clustered: ClusteredInterval | None
    order: OrderBias

    @property
    def not_asked(self) -> int:
        """Number of requests that were never made."""
        return self.expected - self.requests

    @property
    def coverage(self) -> float:
        """Share of the requests of a complete judgement that have points."""
        return self.counted / self.expected if self.expected else 0.0

    @property
    def is_covered(self) -> bool:
        """Whether it has an accuracy from enough requests that it can be ranked among others."""
        return self.accuracy is not None and self.coverage >= MIN_SHARE


def cell_of(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES, pairs: int | None = None) -> Cell:
    """Return the cell of one evaluator's trials on any set of pairs.

    Parameters
    ----------
    pairs
        Number of pairs to be judged; by default, those of `trials`.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    units = units_of(trials, ties)
    accuracy = _mean(units)
    counted = len({unit.pair.pair_id for unit in units})
    failed = [trial for trial in trials if trial.outcome == "failed"]
    reasons = Counter(trial.failure.value if trial.failure else "unknown" for trial in failed)
    return Cell(
        pairs=len({trial.pair.pair_id for trial in trials}),
        requests=len(trials),
        expected=expected_requests(trials, pairs),
        counted=sum(points_of(trial, ties) is not None for trial in trials),
        failed=len(failed),
        failures=tuple(sorted(reasons.items())),
        ties=sum(trial.outcome == "tie" for trial in trials),
        counted_pairs=counted,
        n=len(units),
        accuracy=accuracy,
        bounds=_bounds(trials, ties) if failed else None,
        paper=paper_interval(accuracy, len(units)),
        wilson=wilson_interval(accuracy, counted),
        clustered=clustered_interval(
            [unit.points for unit in units], [unit.pair.source_id for unit in units]
        ),
        order=order_bias(trials),
    )


def _mean(units: Sequence[CountedUnit]) -> float | None:
    return sum(unit.points for unit in units) / len(units) if units else None


def _bounds(trials: Sequence[Trial], ties: TiePolicy) -> Interval | None:
    ends = [_mean(units_of(failures_count(trials, points), ties)) for points in (0.0, 1.0)]
    return None if ends[0] is None or ends[1] is None else Interval(ends[0], ends[1])


def cells_of(
    trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES, pairs: Mapping[str, int] | None = None
) -> dict[tuple[Who, str], Cell]:
    """Return the table's cells by evaluator and aspect, in order of first appearance.

    Parameters
    ----------
    pairs
        Number of pairs to be judged, by aspect; by default, those of the evaluator's own trials.
    """
    return {
        key: cell_of(together, ties, None if pairs is None else pairs[key[1]])
        for key, together in grouped(trials, lambda trial: (trial.who, trial.pair.aspect)).items()
    }


@dataclass(frozen=True, slots=True)
class MacroMean:
    """Unweighted mean of an evaluator's accuracies on several aspects, with its interval."""

    accuracy: float
    clustered: ClusteredInterval


def macro_mean(
    trials: Sequence[Trial], aspects: Sequence[str], ties: TiePolicy = DEFAULT_TIES
) -> MacroMean | None:
    """Return the mean of one evaluator's accuracies on some aspects; None if one has none.

    A mean over fewer aspects would not be comparable with one over all of them.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    units = grouped(units_of(trials, ties), lambda unit: unit.pair.aspect)
    if not aspects or any(aspect not in units for aspect in aspects):
        return None
    values = [[(unit.points, unit.pair.source_id) for unit in units[aspect]] for aspect in aspects]
    accuracy = sum(sum(points for points, _ in some) / len(some) for some in values) / len(values)
    return MacroMean(accuracy, macro_interval(values))
