"""How far the order of the two videos decides an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.statistics.intervals import ClusteredInterval, clustered_interval
from tasks.statistics.trials import Trial, grouped, of_one_evaluator


@dataclass(frozen=True, slots=True)
class OrderBias:
    """What two orders say of one evaluator.

    Parameters
    ----------
    both
        Requests answered in both orders, counted once for the two.
    equal
        How many of them prefer the same video in both (or say twice that they are equal).
    share_equal
        `equal` of `both`; None where there are none.
    first, second, ties
        Answers by what they chose. Scorers, who see one video at a time, have none.
    first_rate
        `first` among answers that chose; 0.5 is no bias. None where none chose.
    first_interval
        Its interval, clustered by source: both orders of a pair are not independent.
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
    """Return what the order does to one evaluator's answers.

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
    chosen = [trial for trial in shown if trial.choice in ("first", "second")]
    firsts = [float(trial.choice == "first") for trial in chosen]
    return OrderBias(
        both=both,
        equal=equal,
        share_equal=equal / both if both else None,
        first=int(sum(firsts)),
        second=len(firsts) - int(sum(firsts)),
        ties=sum(trial.choice == "tie" for trial in shown),
        first_rate=sum(firsts) / len(firsts) if firsts else None,
        first_interval=clustered_interval(firsts, [trial.pair.source_id for trial in chosen]),
    )
