"""The tables on severity, statistical power and cost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from storage_schemas.judgements import Judgement
from tasks.report.accuracy import Matrix, MatrixRow, is_compared
from tasks.report.judged_pairs import JudgedPairs
from tasks.report.judged_release import JudgedRelease
from tasks.report.table import ASPECT, EVALUATOR, Column, Table, interval_columns
from tasks.statistics.cells import MIN_SHARE
from tasks.statistics.comparisons import FamilyMember
from tasks.statistics.intervals import FEW_SOURCES
from tasks.statistics.power import accuracy_shown
from tasks.statistics.severity import TARGET, SeverityLevel, by_strength, severity_curve, threshold
from tasks.statistics.trials import Trial, TrialPair, Who, grouped

_NO_SEVERITY = "The release has one severity only: a recipe with [severity] has several."


def severity_tables(gathered: JudgedRelease) -> tuple[Table, Table, Table]:
    """Return accuracy by degraded clips, the thresholds on it, and accuracy by strength."""
    clips: list[dict[str, Any]] = []
    strengths: list[dict[str, Any]] = []
    thresholds: list[dict[str, Any]] = []
    for aspect in gathered.aspects if gathered.main_strength else ():
        trials = [trial for trial in gathered.all_trials if trial.pair.aspect == aspect]
        main = gathered.main_strength.get(aspect)
        by_clips = [trial for trial in trials if trial.pair.strength == main]
        level = clip_level(gathered.clip_levels, by_clips)
        if len({level(trial.pair) for trial in by_clips}) > 1:
            for who, some in gathered.by_who(by_clips).items():
                head = {"aspect": aspect, "evaluator": gathered.names[who]}
                clips += _points(head, some, level, gathered)
                thresholds += _threshold(head, some, level, gathered)
        levels = {name: float(index) for index, name in enumerate(gathered.strengths.get(aspect, ()), 1)}
        # the number of clips is held fixed, or two axes would be mixed
        by_strengths = [trial for trial in trials if trial.pair.clips == gathered.main_clips]
        if len({trial.pair.strength for trial in by_strengths}) > 1:
            names = {level: name for name, level in levels.items()}
            for who, some in gathered.by_who(by_strengths).items():
                head = {"aspect": aspect, "evaluator": gathered.names[who]}
                strengths += [
                    {**point, "strength": names[point["level"]]}
                    for point in _points(head, some, by_strength(levels), gathered)
                ]
    curve = (
        Column("pairs", "pairs", "count"),
        Column("accuracy", "accuracy", "percent"),
        *interval_columns("95 %"),
    )
    return (
        Table(
            "severity-clips",
            "Accuracy by number of degraded clips",
            (ASPECT, EVALUATOR, Column("level", "clips", "count"), *curve),
            tuple(clips),
            "At the recipe's own strength. Pairs with all eligible clips degraded are grouped at "
            "their median number. Wilson's interval.",
            "" if clips else _NO_SEVERITY,
        ),
        Table(
            "severity-thresholds",
            f"Degraded clips needed for {TARGET:.0%}".replace("%", " %"),
            (
                ASPECT,
                EVALUATOR,
                Column("reached", "reached"),
                Column("level", "clips", "number"),
                *interval_columns("95 %", "number"),
                Column("sources", "sources", "count"),
            ),
            tuple(thresholds),
            "Where a rising curve through the points crosses it. A dash at an interval bound: it "
            "lies outside the numbers of clips measured, or there is no second source. "
            f"From fewer than {FEW_SOURCES} sources an interval is a rough one, mostly too narrow.",
            "" if thresholds else _NO_SEVERITY,
        ),
        Table(
            "severity-strength",
            "Accuracy by strength",
            (
                ASPECT,
                EVALUATOR,
                Column("strength", "strength"),
                Column("level", "place", "count", False),
                *curve,
            ),
            tuple(strengths),
            f"With {gathered.main_clips} degraded clips; the weakest first. Wilson's interval.",
            "" if strengths else _NO_SEVERITY,
        ),
    )


def clip_level(levels: Sequence[int], trials: Sequence[Trial]) -> SeverityLevel:
    """Return a pair's level: its number of clips if the recipe names it, else the median of all others.

    Pairs with all eligible clips degraded each have a different number, and a curve through points of one
    pair each would be meaningless.
    """
    pairs = {trial.pair for trial in trials}
    others = [pair.clips for pair in pairs if pair.clips is not None and pair.clips not in levels]
    middle = float(median(others)) if others else None

    def level(pair: TrialPair) -> float | None:
        if pair.clips is None:
            return None
        return float(pair.clips) if pair.clips in levels else middle

    return level


def _points(
    head: dict[str, Any], trials: Sequence[Trial], level: SeverityLevel, gathered: JudgedRelease
) -> list[dict[str, Any]]:
    return [
        {
            **head,
            "level": point.level,
            "pairs": point.pairs,
            "accuracy": point.accuracy,
            "low": point.wilson.low,
            "high": point.wilson.high,
        }
        for point in severity_curve(trials, level, gathered.ties)
    ]


def _threshold(
    head: dict[str, Any], trials: Sequence[Trial], level: SeverityLevel, gathered: JudgedRelease
) -> list[dict[str, Any]]:
    seed = int(gathered.release.recipe.get("seed", 0))
    crossing = threshold(trials, seed=seed, level=level, ties=gathered.ties)
    if crossing is None:
        return []
    reached = crossing.reached.replace("_", " ")
    return [
        {
            **head,
            "reached": reached,
            "level": crossing.level,
            "low": crossing.low,
            "high": crossing.high,
            "sources": crossing.sources,
        }
    ]


def power_table(matrix: Matrix, members: Sequence[FamilyMember], gathered: JudgedPairs) -> Table:
    """Return what each aspect's number of pairs can show, and how many the two best would need."""
    comparisons = {
        (member.aspect, frozenset((gathered.names[member.first], gathered.names[member.second]))): member
        for member in members
    }
    rows = []
    for row in matrix.rows:
        ranked = _ranked(row, matrix.evaluators)
        cells = [cell.cell for cell in row.cells if cell.cell is not None and cell.cell.clustered is not None]
        effective = max((one.clustered.effective_n for one in cells if one.clustered), default=0.0)
        values: dict[str, Any] = {
            "aspect": row.aspect,
            "pairs": max((one.counted_pairs for one in cells), default=0),
            "effective_n": effective,
            "accuracy_shown": accuracy_shown(effective) if effective >= 1 else None,
            "first": ", ".join(ranked[0]) if ranked else None,
            "second": ", ".join(ranked[1]) if len(ranked) > 1 else None,
        }
        if len(ranked) > 1 and len(ranked[0]) == len(ranked[1]) == 1:
            values |= _needed(comparisons.get((row.aspect, frozenset((ranked[0][0], ranked[1][0])))))
        rows.append(values)
    return Table(
        "power",
        "What this number of pairs can show",
        (
            ASPECT,
            Column("pairs", "pairs", "count"),
            Column("effective_n", "effective n", "count"),
            Column("accuracy_shown", "better than chance", "percent"),
            Column("first", "best"),
            Column("second", "next"),
            Column("difference", "difference", "points"),
            Column("discordant", "pairs that differ", "percent"),
            Column("difference_shown", "difference shown", "points"),
            Column("pairs_needed", "pairs needed", "count"),
        ),
        tuple(rows),
        "Two-sided at 5 %, power 80 %. Effective n: independent answers that would say as much. Better than "
        "chance: the lowest accuracy that these show to be above 50 %. Best and next: of those with answers "
        f"to {100 * MIN_SHARE:g} % of the requests; equal ones share a place. Difference shown: the "
        "smallest between the two best that the pairs show; pairs needed: to show the one that was seen. "
        "Both take the share of pairs on which the two differ, and how alike pairs of a source are, as seen.",
        "" if rows else "No pair at the recipe's own severity was judged.",
    )


def _ranked(row: MatrixRow, evaluators: Sequence[str]) -> list[list[str]]:
    """Return the names of compared evaluators, the best first; those with equal accuracies are together."""
    with_accuracy = [
        (round(cell.accuracy, 12), name)
        for cell, name in zip(row.cells, evaluators, strict=True)
        if is_compared(cell.cell) and cell.accuracy is not None
    ]
    by_accuracy = grouped(with_accuracy, lambda one: one[0])
    return [[name for _, name in by_accuracy[accuracy]] for accuracy in sorted(by_accuracy, reverse=True)]


def _needed(member: FamilyMember | None) -> dict[str, Any]:
    if member is None or member.comparison.difference is None:
        return {}
    comparison = member.comparison
    return {
        "difference": abs(member.comparison.difference),
        "discordant": comparison.discordant,
        "difference_shown": comparison.difference_shown(),
        "pairs_needed": comparison.pairs_needed(member.comparison.difference),
    }


def _frames_as(rows: Iterable[Judgement]) -> list[str]:
    """Return the forms in which frames were sent, for judges that have several."""
    # most details are long, and of others
    forms = {str(json.loads(row.details)["frames_as"]) for row in rows if '"frames_as":' in row.details}
    return sorted(forms - {""})


def cost_table(gathered: JudgedPairs) -> Table:
    """Return each evaluator's requests, failures and cost."""
    rows = []
    names = gathered.names
    asked: dict[Who, Sequence[Judgement]] = {
        **grouped(gathered.rows, lambda row: (row.evaluator, row.settings)),
        # a wording has other settings where it describes an aspect otherwise
        **grouped(gathered.aside_rows, lambda row: (row.evaluator, "")),
    }
    for who, requests in asked.items():
        failures = Counter(row.failure.value for row in requests if row.failure is not None)
        costs = [row.cost_usd for row in requests]
        unknown = any(cost is None for cost in costs)
        rows.append(
            {
                "evaluator": names.get(who, who[0]),
                "settings": who[1],
                "model": ", ".join(sorted({row.model for row in requests if row.model})),
                "prompts": "; ".join(sorted({row.prompts for row in requests if row.prompts})),
                "frames_as": ", ".join(_frames_as(requests)),
                "requests": len(requests),
                "failed": sum(failures.values()),
                "failures": ", ".join(f"{name} {count}" for name, count in sorted(failures.items())),
                "frames": sum(row.frames for row in requests),
                "tokens_in": sum(row.tokens_in for row in requests),
                "tokens_out": sum(row.tokens_out for row in requests),
                "usd": None if unknown else sum(cost or 0.0 for cost in costs),
                "seconds": median(row.seconds for row in requests),
            }
        )
    return Table(
        "cost",
        "Requests and cost",
        (
            EVALUATOR,
            Column("settings", "settings", shown=False),
            Column("model", "model"),
            Column("prompts", "prompts"),
            Column("frames_as", "frames as"),
            Column("requests", "requests", "count"),
            Column("failed", "failed", "count"),
            Column("failures", "why"),
            Column("frames", "frames", "count"),
            Column("tokens_in", "tokens in", "count"),
            Column("tokens_out", "tokens out", "count"),
            Column("usd", "$", "money"),
            Column("seconds", "median s", "number"),
        ),
        tuple(sorted(rows, key=lambda row: str(row["evaluator"]))),
        "All judgements, at every severity, also of probes and other wordings. A dash for dollars: a model "
        "had no price.",
    )
