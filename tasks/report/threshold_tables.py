"""The tables on psychometric functions: thresholds of evaluators, and the points that they are fitted to."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tasks.pairs.strength_number import strength_number
from tasks.report.judged_release import JudgedRelease
from tasks.report.table import ASPECT, EVALUATOR, Column, Table, interval_columns
from tasks.statistics.intervals import FEW_SOURCES, clustered_interval
from tasks.statistics.psychometric import Answer, Dose, Ladder, PsychometricFit, fit_psychometric
from tasks.statistics.trials import grouped, units_of

_NO_LADDER = "The release has one severity only: a recipe with [severity] has several."


def threshold_tables(gathered: JudgedRelease) -> tuple[Table, Table]:
    """Return the fitted thresholds, and accuracy by dose."""
    doses: dict[str, Dose] = {}
    ladders: dict[str, list[Dose]] = defaultdict(list)
    records = gathered.release.pairs() if gathered.main_strength else ()
    for record in (one for one in records if one.excerpt is None):
        number = strength_number(record)
        if (number is None or number > 0) and record.clips_degraded > 0 and not record.control:
            dose = Dose(1.0 if number is None else number, record.clips_degraded)
            doses[record.pair_id] = dose
            ladders[record.aspect].append(dose)
    fits: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    for aspect in gathered.aspects:
        here = [one for one in gathered.all_trials if one.pair.aspect == aspect]
        trials = [one for one in here if one.pair.pair_id in doses]
        # all doses of the release, asked or not, as a search has them
        ladder = Ladder.of(ladders[aspect], gathered.main_clips)
        for who, some in gathered.by_who(trials).items():
            units = units_of(some, gathered.ties)
            answers = [Answer(doses[one.pair.pair_id], one.points, one.pair.source_id) for one in units]
            fit = fit_psychometric(ladder, answers)
            if fit is not None:
                head: dict[str, Any] = {"aspect": aspect, "evaluator": gathered.names[who]}
                fits.append({**head, **_row(fit)})
                head |= {"axis": fit.axis}
                head |= {"threshold": fit.threshold, "width": fit.width, "lapse": fit.lapse}
                points += [{**head, **one} for one in _points(ladder, fit, answers)]
    empty = "" if fits else _NO_LADDER
    curve = (
        Column("axis", "number of"),
        Column("threshold", "threshold", "number"),
        Column("width", "width", "number", False),
        Column("lapse", "lapses", "percent"),
    )
    return (
        Table(
            "psychometric",
            "Thresholds",
            (
                ASPECT,
                EVALUATOR,
                *curve[:2],
                *interval_columns("95 %", "number", "threshold_"),
                Column("reached", "reached"),
                Column("slope", "slope", "points"),
                *curve[2:],
                Column("exchange", "clips for strength", "number"),
                Column("answers", "answers", "count"),
                Column("sources", "sources", "count"),
            ),
            tuple(fits),
            "The strength (1 is the full one), or number of clips, in the middle between chance and the "
            "accuracy of an evaluator that does not lapse, from a psychometric function fitted to all "
            "severities. Slope: what a doubling adds to the accuracy there, in points. Clips for strength: "
            "how many doublings of strength a doubling of clips is worth. The interval is clustered by "
            "source; a dash: outside of the severities, or there is no second source. From fewer than "
            f"{FEW_SOURCES} sources it is rough.",
            empty,
        ),
        Table(
            "psychometric-points",
            "Accuracy by strength, with fitted functions",
            (
                ASPECT,
                EVALUATOR,
                Column("axis", "number of"),
                Column("level", "level", "number"),
                Column("answers", "answers", "count"),
                Column("accuracy", "accuracy", "percent"),
                *interval_columns("95 %"),
                Column("fitted", "fitted", "percent"),
                *(Column(one.key, one.title, one.kind, False) for one in curve[1:]),
            ),
            tuple(points),
            f"Strengths at {gathered.main_clips} degraded clips; numbers of clips where an aspect has one "
            "strength. The interval is clustered by source.",
            empty,
        ),
    )


def _row(fit: PsychometricFit) -> dict[str, Any]:
    """Return a fit's values; outside of the severities there is no threshold to have a slope at."""
    inside = fit.reached == "reached"
    return {
        "axis": fit.axis,
        "threshold": fit.threshold if inside else None,
        "threshold_low": fit.low,
        "threshold_high": fit.high,
        "reached": fit.reached.replace("_", " "),
        "slope": fit.slope if inside else None,
        "width": fit.width if inside else None,
        "lapse": fit.lapse if inside else None,
        "exchange": fit.exchange,
        "answers": fit.answers,
        "sources": fit.sources,
    }


def _points(ladder: Ladder, fit: PsychometricFit, answers: list[Answer]) -> list[dict[str, Any]]:
    """Return accuracy by level of the threshold's axis, ascending."""
    shown = [one for one in answers if fit.axis == "clips" or one.dose.clips == ladder.clips]
    rows = []
    for level, some in sorted(grouped(shown, lambda one: float(getattr(one.dose, fit.axis))).items()):
        values = [one.points for one in some]
        interval = clustered_interval(values, [one.source for one in some])
        assert interval is not None
        rows.append(
            {
                "level": level,
                "answers": len(values),
                "accuracy": sum(values) / len(values),
                "low": interval.low,
                "high": interval.high,
                "fitted": fit.accuracy([level])[0],
            }
        )
    return rows
