"""Units: what counts once in an accuracy.

A pair that was asked in both orders counts twice, once an order, as in the paper. Any other pair counts
once. Repeats of a request are averaged within their unit: they say more about that unit, not about more
pairs. (People's answers are repeats of one pair, whatever order each of them saw.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage_schemas.judgement import Order
from tasks.statistics.trials import (
    DEFAULT_TIES,
    TiePolicy,
    Trial,
    TrialPair,
    grouped,
    of_one_evaluator,
    points_of,
)


@dataclass(frozen=True, slots=True)
class Unit:
    """Points between 0 and 1 for one pair in one order; `order` is None where the orders count together."""

    pair: TrialPair
    order: Order | None
    points: float


def units_of(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> tuple[Unit, ...]:
    """Return the units of one evaluator's trials; what has no points gives no unit.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    of_one_evaluator(trials)
    units = []
    for held in grouped(trials, lambda trial: trial.pair).items():
        pair, asked = held
        for order, together in _presentations(asked).items():
            counted = [points for trial in together if (points := points_of(trial, ties)) is not None]
            if counted:
                units.append(Unit(pair, order, sum(counted) / len(counted)))
    return tuple(units)


def pair_points(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> dict[TrialPair, float]:
    """Return the mean points of each pair over its units; pairs without points are absent."""
    return {
        pair: sum(unit.points for unit in units) / len(units)
        for pair, units in grouped(units_of(trials, ties), lambda unit: unit.pair).items()
    }


def asked_both_orders(trials: Sequence[Trial]) -> bool:
    """Tell whether one pair's trials show it in both orders by design: one repeat has both."""
    orders = grouped(trials, lambda trial: trial.repeat).values()
    return any({"high_first", "low_first"} <= {trial.order for trial in asked} for asked in orders)


def _presentations(trials: list[Trial]) -> dict[Order | None, list[Trial]]:
    if asked_both_orders(trials):
        return grouped(trials, lambda trial: trial.order)
    return {None: trials}
