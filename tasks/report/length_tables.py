"""The tables on excerpts: accuracy by length and position around the same damage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np

from tasks.report.judged_release import JudgedRelease
from tasks.report.table import ALL, ASPECT, EVALUATOR, Column, Table, interval_columns
from tasks.statistics.intervals import FEW_SOURCES, NO_WIDTH, clustered_interval, mean_interval
from tasks.statistics.trials import TrialPair, grouped, pair_points

_NO_LENGTHS = "The release has no excerpts: a recipe with [lengths] has some."
_NOT_JUDGED = "No excerpt was judged: `slvmeval evaluate --set length=excerpts` asks about all of them."
#: The order of positions in tables.
POSITIONS = ("own", "early", "middle", "late")

Point = tuple[str, float]


def length_tables(gathered: JudgedRelease) -> tuple[Table, Table]:
    """Return accuracy by length and position, and what the longest and the shortest excerpts differ by."""
    rows: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    judged = {trial.pair.aspect for trial in gathered.length_trials}
    ordered = [aspect for aspect in gathered.release.recipe.get("aspects", {}) if aspect in judged]
    for aspect in (*ordered, *([ALL] if len(ordered) > 1 else [])):
        trials = [one for one in gathered.length_trials if aspect in (ALL, one.pair.aspect)]
        for who, some in gathered.by_who(trials).items():
            head: dict[str, Any] = {"aspect": aspect, "evaluator": gathered.names[who]}
            points = pair_points(some, gathered.ties)
            rows += [{**head, **row} for row in _by_point(points)]
            changes += [{**head, **row} for row in _changes(points)]
    has_excerpts = any(record.excerpt for record in gathered.release.pairs())
    empty = "" if rows else _NOT_JUDGED if has_excerpts else _NO_LENGTHS
    return (
        Table(
            "length",
            "Accuracy by length around the same damage",
            (
                ASPECT,
                EVALUATOR,
                Column("position", "damage"),
                Column("share", "share of the film", "percent"),
                Column("seconds", "median s", "number"),
                Column("pairs", "pairs", "count"),
                Column("accuracy", "accuracy", "percent"),
                *interval_columns("95 %"),
                Column("sources", "sources", "count"),
            ),
            tuple(rows),
            "Excerpts of the same films around the same damaged clips, the shorter within the longer. "
            "Damage: own is as far in as in the film, early, middle and late are thirds of the excerpt. "
            "Films without room for a short excerpt are missing from its row. The interval is clustered "
            f"by source; from fewer than {FEW_SOURCES} sources it is rough.",
            empty,
        ),
        Table(
            "length-change",
            "What length and position change",
            (
                ASPECT,
                EVALUATOR,
                Column("compared", "compared"),
                Column("pairs", "pairs", "count"),
                Column("difference", "difference", "points"),
                *interval_columns("95 %", "points"),
                Column("sources", "sources", "count"),
            ),
            tuple(changes),
            "The difference in accuracy between two excerpts around the same damage, over the films that "
            "have both. The interval is clustered by source; a dash: there is one source, or all are alike.",
            empty,
        ),
    )


def _by_point(points: Mapping[TrialPair, float]) -> list[dict[str, Any]]:
    rows = []
    by_point = grouped(points, _point_of)
    for position, share in sorted(by_point, key=lambda one: (POSITIONS.index(one[0]), one[1])):
        pairs = by_point[position, share]
        values = [points[pair] for pair in pairs]
        interval = clustered_interval(values, [pair.source_id for pair in pairs])
        assert interval is not None
        rows.append(
            {
                "position": position,
                "share": share,
                "seconds": median(pair.duration_s for pair in pairs),
                "pairs": len(pairs),
                "accuracy": sum(values) / len(values),
                "low": interval.low,
                "high": interval.high,
                "sources": interval.clusters,
            }
        )
    return rows


def _point_of(pair: TrialPair) -> Point:
    assert pair.length is not None
    return pair.position, pair.length


def _changes(points: Mapping[TrialPair, float]) -> list[dict[str, Any]]:
    """Return the film against the shortest excerpt, and late against early damage at the same length."""
    held: dict[Point, dict[tuple[str, str], float]] = defaultdict(dict)
    for pair, value in points.items():
        held[_point_of(pair)][pair.source_id, pair.aspect] = value
    shares = sorted(share for position, share in held if position == "own")
    compared: list[tuple[str, Point, Point]] = []
    if len(shares) > 1:
        text = f"{_percent(shares[-1])} against {_percent(shares[0])} of the film"
        compared.append((text, ("own", shares[-1]), ("own", shares[0])))
    for share in sorted({share for position, share in held if position != "own"}):
        text = f"late against early damage, {_percent(share)} of the film"
        compared.append((text, ("late", share), ("early", share)))
    return [
        {"compared": text, **row}
        for text, first, second in compared
        if (row := _difference(held.get(first, {}), held.get(second, {})))
    ]


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _difference(
    first: Mapping[tuple[str, str], float], second: Mapping[tuple[str, str], float]
) -> dict[str, Any] | None:
    """Return the mean difference over what both have; None without anything."""
    both = sorted(first.keys() & second.keys())
    if not both:
        return None
    values = [first[one] - second[one] for one in both]
    sources = [source for source, _ in both]
    row: dict[str, Any] = {
        "pairs": len(both),
        "difference": sum(values) / len(values),
        "sources": len(set(sources)),
    }
    found = mean_interval(np.array(values), sources)
    # sources that are all alike say nothing about how far others differ
    if found is not None and found.high - found.low > NO_WIDTH:
        row |= {"low": max(found.low, -1.0), "high": min(found.high, 1.0)}
    return row
