"""The report's tables on repeats of a request; there are none unless an evaluator has repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.report.judged_pairs import JudgedPairs
from tasks.report.table import ALL, ASPECT, EVALUATOR, PAIR, Column, Table, interval_columns
from tasks.statistics.cells import MIN_SHARE
from tasks.statistics.intervals import Interval
from tasks.statistics.repeats import (
    RepeatedPair,
    flip_interval,
    flip_rate,
    majority_curve,
    repeat_plans,
    repeated_pairs,
    variance_components,
)
from tasks.statistics.trials import BOTH_ORDERS, grouped
from tasks.votes.release_votes import PEOPLE

Rows = list[dict[str, Any]]


def repeat_tables(gathered: JudgedPairs) -> tuple[Table, ...]:
    """Return the tables on repeats, over all aspects and by aspect.

    People are left out: the answers of several workers are not repeats of one.
    """
    flips: Rows = []
    majorities: Rows = []
    variances: Rows = []
    plans: Rows = []
    by_pair: Rows = []
    for who, trials in gathered.by_who().items():
        pairs = repeated_pairs(trials) if who != PEOPLE else ()
        if not pairs:
            continue
        by_pair += [_pair_row(gathered.names[who], one) for one in pairs]
        for aspect, some in _by_aspect(pairs):
            head = {"aspect": aspect, "evaluator": gathered.names[who]}
            flips.append({**head, **_flips(some)})
            majorities += [
                {**head, "k": one.k, "pairs": one.pairs, "accuracy": one.accuracy, **bounds(one.clustered)}
                for one in majority_curve(some)
            ]
            variances += _variance(head, some)
        plans += [
            {
                "evaluator": gathered.names[who],
                **{
                    key: getattr(plan, key)
                    for key in ("repeats", "requests", "half", "half_more_pairs", "pairs_alike")
                },
            }
            for plan in repeat_plans(pairs)
        ]
    if not flips:
        return ()
    return (
        _flip_table(flips),
        _majority_table(majorities),
        _variance_table(variances),
        _plan_table(plans),
        _pair_table(by_pair),
    )


def bounds(interval: Interval | None, prefix: str = "") -> dict[str, float | None]:
    """Return an interval's values for :func:`~tasks.report.table.interval_columns`."""
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return {f"{prefix}low": low, f"{prefix}high": high}


def _by_aspect(pairs: Sequence[RepeatedPair]) -> Sequence[tuple[str, Sequence[RepeatedPair]]]:
    parts = sorted(grouped(pairs, lambda one: one.pair.aspect).items())
    return [(ALL, pairs), *parts] if len(parts) > 1 else parts


def _flips(pairs: Sequence[RepeatedPair]) -> dict[str, Any]:
    return {
        "pairs": len(pairs),
        "answers": sum(one.count for pair in pairs for one in pair.answers.values()),
        "flipped": sum(pair.flip_rate > 0 for pair in pairs),
        "flip_rate": flip_rate(pairs),
        **bounds(flip_interval(pairs)),
    }


def _flip_table(rows: Rows) -> Table:
    return Table(
        "repeats",
        "How often answers flip",
        (
            ASPECT,
            EVALUATOR,
            Column("pairs", "pairs", "count"),
            Column("answers", "answers", "count"),
            Column("flipped", "pairs that flip", "count"),
            Column("flip_rate", "flip rate", "percent"),
            *interval_columns("95 %"),
        ),
        tuple(rows),
        "Flip rate: the chance that two answers to the same request, in the same order, differ, on "
        "average over pairs. The interval is clustered by source. Only pairs with several answers, and one "
        "in each order.",
    )


def _majority_table(rows: Rows) -> Table:
    return Table(
        "majority",
        "Accuracy of the majority of several answers",
        (
            ASPECT,
            EVALUATOR,
            Column("k", "answers", "count"),
            Column("pairs", "pairs", "count"),
            Column("accuracy", "accuracy", "percent"),
            *interval_columns("95 %"),
        ),
        tuple(rows),
        "The mean over all sets of that number of answers in one order; a majority for neither video counts "
        f"half a point. All numbers of answers are on the same pairs, those with as many answers as "
        f"{100 * MIN_SHARE:g} % of the pairs have. The interval is clustered by source.",
    )


def _variance(head: Mapping[str, Any], pairs: Sequence[RepeatedPair]) -> Rows:
    found = variance_components(pairs)
    if found is None:
        return []
    return [
        {**head, "part": part, "variance": one.variance, "share": one.share, **bounds(one.interval)}
        for part, one in (("pair", found.pair), ("order", found.order), ("repeat", found.repeat))
    ]


def _variance_table(rows: Rows) -> Table:
    return Table(
        "variance",
        "Where the variance of answers comes from",
        (
            ASPECT,
            EVALUATOR,
            Column("part", "between"),
            Column("share", "share", "percent"),
            Column("variance", "variance", "correlation"),
            *interval_columns("95 %", "correlation"),
        ),
        tuple(rows),
        "Pair: some pairs are harder. Order: the two orders of a pair are answered differently. Repeat: the "
        "same request is answered differently. Nested random effects on right (1) and wrong (0), by analysis "
        "of variance; the interval of the variance deletes one source at a time.",
        "" if rows else "It needs two pairs with repeats.",
    )


def _plan_table(rows: Rows) -> Table:
    return Table(
        "repeats-pay",
        "Do more repeats pay?",
        (
            EVALUATOR,
            Column("repeats", "repeats", "count"),
            Column("requests", "requests", "count"),
            Column("half", "± on these pairs", "percent"),
            Column("half_more_pairs", "± with more pairs instead", "percent"),
            Column("pairs_alike", "pairs with the same ±", "count"),
        ),
        tuple(rows),
        "Predicted from the variances over all aspects, as a normal approximation. More pairs instead: as "
        "many requests, spent on other pairs like these, one repeat each. Pairs with the same ±: number of "
        "pairs that have it with one repeat each.",
        "" if rows else "It needs two pairs with repeats, and answers that are not all equally right.",
    )


def _pair_row(evaluator: str, one: RepeatedPair) -> dict[str, Any]:
    counts = {
        f"{order}_{outcome}": getattr(answers, outcome)
        for order, answers in one.answers.items()
        for outcome in ("right", "tie", "wrong")
    }
    return {
        "evaluator": evaluator,
        "aspect": one.pair.aspect,
        "pair_id": one.pair.pair_id,
        "source_id": one.pair.source_id,
        "flip_rate": one.flip_rate,
        "points": one.points,
        **counts,
    }


def _pair_table(rows: Rows) -> Table:
    orders = [
        Column(f"{order}_{outcome}", f"{order.replace('_', ' ')}, {outcome}", "count")
        for order in (*BOTH_ORDERS, "apart")
        for outcome in ("right", "tie", "wrong")
        if any(f"{order}_{outcome}" in row for row in rows)
    ]
    columns = (EVALUATOR, ASPECT, PAIR, Column("source_id", "source"), Column("flip_rate", "flip rate"))
    return Table(
        "repeats-by-pair",
        "Repeats by pair",
        (*columns, Column("points", "points"), *orders),
        tuple(rows),
        long=True,
    )
