"""The report's tables on order bias, comparisons of evaluators, and durations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tasks.report.judged_pairs import JudgedPairs
from tasks.report.table import ALL, ASPECT, EVALUATOR, Column, Table, interval_columns
from tasks.statistics.cells import order_bias
from tasks.statistics.comparisons import FamilyMember
from tasks.statistics.durations import (
    binned_correlation,
    edged_bins,
    equal_count_edges,
    pair_correlation,
    width_bins,
)
from tasks.statistics.trials import grouped

#: Significance level of comparisons.
ALPHA = 0.05

_ORDER_COLUMNS = (
    Column("both", "asked in both orders", "count"),
    Column("equal", "of these equal", "count"),
    Column("share_equal", "share equal", "percent"),
    Column("first", "first", "count"),
    Column("second", "second", "count"),
    Column("ties", "ties", "count"),
    Column("first_rate", "rate of first", "percent"),
    *interval_columns("95 %", prefix="first_"),
)


def order_table(gathered: JudgedPairs, by_aspect: bool = False) -> Table:
    """Return each judge's order bias; scorers are left out."""
    rows = []
    for who, trials in gathered.by_who().items():
        parts = grouped(trials, lambda trial: trial.pair.aspect) if by_aspect else {ALL: trials}
        for aspect, some in parts.items():
            bias = order_bias(some)
            if not (bias.both or bias.first or bias.second or bias.ties):
                continue
            rows.append(
                {
                    "aspect": aspect,
                    "evaluator": gathered.names[who],
                    **{
                        key: getattr(bias, key)
                        for key in ("both", "equal", "share_equal", "first", "second", "ties", "first_rate")
                    },
                    "first_low": bias.first_interval.low if bias.first_interval else None,
                    "first_high": bias.first_interval.high if bias.first_interval else None,
                }
            )
    name = "order-bias-by-aspect" if by_aspect else "order-bias"
    return Table(
        name,
        "Order bias by aspect" if by_aspect else "Order bias",
        ((ASPECT,) if by_aspect else ()) + (EVALUATOR, *_ORDER_COLUMNS),
        tuple(rows),
        "Equal: the same video is preferred in both orders. A rate of first of 50 % means no bias. "
        "The interval is clustered by source.",
        "" if rows else "No evaluator here sees both videos in one request, so none can have an order bias.",
    )


def comparison_table(gathered: JudgedPairs, members: Iterable[FamilyMember]) -> Table:
    """Return all pairwise comparisons of evaluators."""
    rows = []
    for member in members:
        comparison = member.comparison
        rows.append(
            {
                "aspect": member.aspect,
                "first": gathered.names[member.first],
                "second": gathered.names[member.second],
                "pairs": comparison.pairs,
                "sources": comparison.sources,
                "first_better": comparison.first_better,
                "second_better": comparison.second_better,
                "equal": comparison.equal,
                "difference": comparison.difference,
                "low": comparison.interval.low if comparison.interval else None,
                "high": comparison.interval.high if comparison.interval else None,
                "test": "" if comparison.p is None else "exact" if comparison.exact else "drawn",
                "p": comparison.p,
                "p_holm": member.p_holm,
            }
        )
    columns = (
        ASPECT,
        Column("first", "first"),
        Column("second", "second"),
        Column("pairs", "pairs of both", "count"),
        Column("sources", "of sources", "count", shown=False),
        Column("first_better", "first better", "count"),
        Column("second_better", "second better", "count"),
        Column("equal", "equal", "count"),
        Column("difference", "difference", "points"),
        *interval_columns("95 %", "points"),
        Column("test", "test"),
        Column("p", "p", "p"),
        Column("p_holm", "p, Holm", "p"),
    )
    return Table(
        "comparisons",
        "Comparisons of two evaluators",
        columns,
        tuple(rows),
        "A sign-flip test by source on the pairs that both answered, over all signs (exact) or drawn ones; "
        "the comparisons of an aspect are one family for Holm's correction. The difference is in points of "
        "accuracy, first minus second; its interval is clustered by source.",
        "" if rows else "There is only one evaluator: nothing to compare it with.",
    )


def wins_table(gathered: JudgedPairs, members: Iterable[FamilyMember]) -> Table:
    """Return on how many aspects one evaluator is significantly better than another, as a square table."""
    wins: Counter[tuple[str, str]] = Counter()
    compared: Counter[tuple[str, str]] = Counter()
    for member in members:
        first, second = gathered.names[member.first], gathered.names[member.second]
        compared[first, second] += 1
        compared[second, first] += 1
        difference = member.comparison.difference or 0.0
        if member.p_holm is not None and member.p_holm < ALPHA and difference:
            wins[(first, second) if difference > 0 else (second, first)] += 1
    names = [name for name in gathered.names.values() if any(name in both for both in compared)]
    rows: list[dict[str, Any]] = []
    for name in names:
        cells = {
            f"over_{index}": f"{wins[name, other]} of {compared[name, other]}"
            for index, other in enumerate(names)
            if compared[name, other]
        }
        rows.append({"evaluator": name, **cells})
    columns = (EVALUATOR, *(Column(f"over_{index}", f"over {name}") for index, name in enumerate(names)))
    return Table(
        "better-than",
        "Significant wins",
        columns,
        tuple(rows),
        f"On how many aspects the row is better than the column with p < {ALPHA} after Holm's correction, "
        "of the aspects on which both answered.",
        "" if rows else "There is only one evaluator: nothing to compare it with.",
    )


def duration_tables(gathered: JudgedPairs) -> tuple[Table, Table]:
    """Return the correlations of duration and accuracy, and binned accuracy for the figure."""
    correlations, bins = [], []
    for aspect in (ALL, *gathered.aspects):
        trials = [t for t in gathered.trials if aspect in (ALL, t.pair.aspect)]
        if not trials:
            continue
        edges = equal_count_edges(trial.pair for trial in trials)
        for who, some in gathered.by_who(trials).items():
            head = {"aspect": aspect, "evaluator": gathered.names[who]}
            wide = width_bins(some, ties=gathered.ties)
            binned, paired = binned_correlation(wide), pair_correlation(some, gathered.ties)
            correlations.append(
                {
                    **head,
                    "bins": binned.n,
                    "rho_bins": binned.coefficient,
                    "p_bins": binned.p,
                    "pairs": paired.n,
                    "rho_pairs": paired.coefficient,
                    "p_pairs": paired.p,
                }
            )
            bins += [{**head, **_bin(one)} for one in edged_bins(some, edges, gathered.ties)]
    has_pairs = any(row["rho_pairs"] is not None for row in correlations)
    several = len({row["low_s"] for row in bins if row["aspect"] == ALL}) > 1
    return (
        Table(
            "duration-correlation",
            "Duration and accuracy",
            (
                ASPECT,
                EVALUATOR,
                Column("bins", "bins", "count"),
                Column("rho_bins", "ρ over bins", "number"),
                Column("p_bins", "p", "p"),
                Column("pairs", "pairs", "count"),
                Column("rho_pairs", "ρ over pairs", "number"),
                Column("p_pairs", "p", "p"),
            ),
            tuple(correlations) if has_pairs else (),
            "Spearman's ρ, two-sided p. Bins of 100 s, as used for drawing pairs; each counts the same, "
            "however few pairs it has. Over pairs every pair counts the same. A dash means that all "
            "accuracies or durations are equal.",
            "" if has_pairs else "There are too few pairs, or their durations or all answers are equal.",
        ),
        Table(
            "accuracy-by-duration",
            "Accuracy by duration",
            (
                ASPECT,
                EVALUATOR,
                Column("low_s", "from", "clock"),
                Column("high_s", "to", "clock"),
                Column("pairs", "pairs", "count"),
                Column("mean_s", "mean", "clock"),
                Column("accuracy", "accuracy", "percent"),
                *interval_columns("95 %"),
            ),
            tuple(bins) if several else (),
            "Up to four bins with about the same number of pairs; edges are quartiles of the pairs' "
            "durations, "
            "the same for all evaluators. Wilson's interval.",
            "" if several else "All pairs are of one duration.",
        ),
    )


def _bin(one: Any) -> dict[str, Any]:
    return {
        "low_s": one.low_s,
        "high_s": one.high_s,
        "pairs": one.pairs,
        "mean_s": one.mean_duration_s,
        "accuracy": one.accuracy,
        "low": one.wilson.low,
        "high": one.wilson.high,
    }
