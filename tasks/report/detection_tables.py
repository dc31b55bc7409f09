"""Hits, false alarms, sensitivity and bias next to what trivial numbers reach on the same pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.report.judged_release import JudgedRelease
from tasks.report.table import ALL, ASPECT, EVALUATOR, Column, Table, interval_columns
from tasks.statistics.detection import Detection, Estimate, Rate, detection
from tasks.statistics.trials import TiePolicy, Trial, Who, pair_points

#: Evaluators that are one number of a video's pictures.
TRIVIAL = ("duration", "size", "contrast", "sharpness", "motion", "scenes")


def detection_table(gathered: JudgedRelease) -> Table:
    """Return signal detection and the shortcut index, by aspect and for all aspects."""
    rows = []
    judged = {trial.pair.aspect for trial in gathered.control_trials}
    aspects = (*gathered.aspects, *sorted(judged - set(gathered.aspects)))
    for aspect in (*aspects, ALL):
        damaged = gathered.by_who(_of(gathered.trials, aspect))
        controls = gathered.by_who(_of(gathered.control_trials, aspect))
        shortcut = shortcut_index(damaged, gathered)
        for who, name in gathered.names.items():
            if who in damaged or who in controls:
                found = _detection(damaged.get(who, ()), controls.get(who, ()), gathered.ties)
                rows.append({"aspect": aspect, "evaluator": name, **_values(found), **shortcut})
    if len(aspects) == 1:
        rows = [row for row in rows if row["aspect"] != ALL]
    return Table(
        "signal-detection",
        "Hits, false alarms and shortcuts",
        (
            ASPECT,
            EVALUATOR,
            Column("hits", "hits", "percent"),
            *interval_columns("95 %", prefix="hits_"),
            Column("alarms", "false alarms", "percent"),
            *interval_columns("95 %", prefix="alarms_"),
            Column("shortcut", "shortcut", "percent"),
            Column("shortcut_by", "by"),
            Column("d_damage", "d′ damage", "number"),
            *_ends("d_damage"),
            Column("d_edit", "d′ edit", "number"),
            *_ends("d_edit"),
            Column("d_beyond", "d′ beyond the edit", "number"),
            *_ends("d_beyond", shown=True),
            Column("bias", "bias c", "number"),
            *_ends("bias"),
            Column("pairs", "pairs", "count"),
            Column("controls", "controls", "count"),
            Column("sources", "sources", "count", shown=False),
        ),
        tuple(rows),
        "Hits: how often the untouched side of a damaged pair is preferred, the accuracy. False alarms: the "
        "same on controls, where no side is better; 50 % is chance. d′ = √2·z(share), with half a point and "
        "one answer added; beyond the edit: d′ of damage minus d′ of the edit alone. Bias c: below 0, what "
        "is shown first is preferred. Shortcut: the accuracy of the best trivial number that was judged, "
        "whichever of its two directions is right more often. Intervals are clustered by source; a dash at "
        "an end: no bound.",
        "" if rows else "No pair at the recipe's own severity was judged.",
    )


def _detection(damaged: Sequence[Trial], controls: Sequence[Trial], ties: TiePolicy) -> Detection:
    """Return signal detection; what is beyond the edit is of the aspects that have controls."""
    found = detection(damaged, controls, ties)
    have = {trial.pair.aspect for trial in controls}
    comparable = [trial for trial in damaged if trial.pair.aspect in have]
    if len(comparable) == len(damaged):
        return found
    return replace(found, beyond_edit=detection(comparable, controls, ties).beyond_edit)


def shortcut_index(by_who: Mapping[Who, Sequence[Trial]], gathered: JudgedRelease) -> dict[str, Any]:
    """Return the accuracy of the best trivial baseline on some pairs, and its name; empty if none judged."""
    best: dict[str, Any] = {}
    # a label may hide the evaluator's own name
    uses = {(row.evaluator, row.settings): row.use for row in gathered.rows}
    for who, trials in by_who.items():
        if (uses.get(who) or who[0]) in TRIVIAL:
            points = pair_points(trials, gathered.ties)
            share = sum(points.values()) / len(points) if points else 0.5
            reached, name = (share, who[0]) if share >= 0.5 else (1 - share, f"{who[0]}, reversed")
            if not best or reached > best["shortcut"]:
                best = {"shortcut": reached, "shortcut_by": name}
    return best


def _of(trials: Sequence[Trial], aspect: str) -> list[Trial]:
    return [trial for trial in trials if aspect in (ALL, trial.pair.aspect)]


def _ends(prefix: str, shown: bool = False) -> tuple[Column, Column]:
    return (
        Column(f"{prefix}_low", "from", "number", shown),
        Column(f"{prefix}_high", "to", "number", shown),
    )


def _values(found: Detection) -> dict[str, Any]:
    hits, alarms = found.hits, found.false_alarms
    return {
        **_rate("hits", hits),
        **_rate("alarms", alarms),
        **_estimate("d_damage", hits.d_prime if hits else None),
        **_estimate("d_edit", alarms.d_prime if alarms else None),
        **_estimate("d_beyond", found.beyond_edit),
        **_estimate("bias", found.bias),
        "pairs": hits.pairs if hits else 0,
        "controls": alarms.pairs if alarms else 0,
        "sources": max((one.interval.clusters for one in (hits, alarms) if one), default=0),
    }


def _rate(name: str, rate: Rate | None) -> dict[str, Any]:
    if rate is None:
        return {}
    return {name: rate.share, f"{name}_low": rate.interval.low, f"{name}_high": rate.interval.high}


def _estimate(name: str, one: Estimate | None) -> dict[str, Any]:
    return {} if one is None else {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
