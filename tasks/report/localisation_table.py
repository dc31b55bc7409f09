"""How well evaluators say where the damage is; those that say nothing of it are left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any, Literal

from storage_schemas.judgements import Judgement
from storage_schemas.pair import Interval
from tasks.report.judged_release import JudgedRelease
from tasks.report.table import Column, Table
from tasks.statistics.localisation import MIN_OVERLAP, localise, summarise
from tasks.statistics.trials import grouped, settled

#: Key of an answer's details under which it names intervals, ``[[start_s, end_s], …]``.
KEY = "intervals"

_COLUMNS = (
    Column("aspect", "aspect", "aspect"),
    Column("evaluator", "evaluator"),
    Column("answers", "answers", "count"),
    Column("overlap", "overlap", "percent"),
    Column("whole", "naming all", "percent"),
    Column("precision", "precision", "percent"),
    Column("recall", "recall", "percent"),
    Column("hits", "hits", "count"),
    Column("intervals", "of", "count"),
    Column("named", "named", "count"),
    Column("elsewhere", "wrong video", "count"),
    Column("unreadable", "unreadable", "count"),
)


def localisation_table(gathered: JudgedRelease) -> Table:
    """Return how well the intervals that evaluators name fit the degraded ones, by aspect and evaluator."""
    records = {record.pair_id: record for record in gathered.release.pairs()}
    main = {trial.pair.pair_id for trial in gathered.trials}
    rows = [row for row in settled(gathered.rows) if row.answered and row.pair_id in main]
    held = grouped(rows, lambda row: (row.aspect, row.evaluator, row.settings))
    made = []
    for aspect in gathered.aspects:
        for who, name in gathered.names.items():
            counts: Counter[str] = Counter()
            answers, whole = [], []
            for row in held.get((aspect, *who), ()):
                named = named_intervals(row)
                if named is None:
                    continue
                if isinstance(named, str):
                    counts[named] += 1
                    continue
                record = records[row.pair_id]
                answers.append(localise(named, record.low_intervals))
                whole.append(localise([(0.0, record.low_frames / record.fps)], record.low_intervals).overlap)
            if not answers and not counts:
                continue
            summary = summarise(answers)
            made.append(
                {
                    "aspect": aspect,
                    "evaluator": name,
                    **{key: getattr(summary, key) for key in ("answers", "overlap", "precision", "recall")},
                    **{key: getattr(summary, key) for key in ("hits", "intervals", "named")},
                    "whole": fmean(whole) if whole else None,
                    "elsewhere": counts["elsewhere"],
                    "unreadable": counts["unreadable"],
                }
            )
    return Table(
        "localisation",
        "Where the damage is",
        _COLUMNS,
        tuple(made),
        "Seconds of the low-quality video. Overlap: seconds named and degraded, of those named or degraded; "
        "naming all: the overlap of an answer that names the whole video. A hit is a degraded interval that "
        f"a named one overlaps by {MIN_OVERLAP:.0%}".replace("%", " %")
        + " or more. Wrong video: the "
        "answer took the source for the damaged one; it has no numbers here.",
        "" if made else "No evaluator here says where the damage is.",
    )


def named_intervals(row: Judgement) -> tuple[Interval, ...] | Literal["elsewhere", "unreadable"] | None:
    """Return the intervals of the low-quality video that an answer names.

    A judge names intervals of the video that it did not prefer, a scorer those of each video.

    Returns
    -------
    tuple, str or None
        ``elsewhere`` if a judge preferred the low-quality video, or neither; ``unreadable`` if they are not
        intervals; None if the answer does not say where.
    """
    details: Any = json.loads(row.details)
    if row.order == "apart":
        details = details.get("low") if isinstance(details, Mapping) else None
    if not isinstance(details, Mapping) or KEY not in details:
        return None
    named = _intervals(details[KEY])
    if named is None:
        return "unreadable"
    return named if row.order == "apart" or row.preferred == "high" else "elsewhere"


def _intervals(value: Any) -> tuple[Interval, ...] | None:
    if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == 2 for one in value):
        return None
    if not all(_is_time(end) for one in value for end in one) or any(start > end for start, end in value):
        return None
    return tuple((float(start), float(end)) for start, end in value)


def _is_time(value: Any) -> bool:
    # details are JSON, and JSON as Python reads it may have NaN and Infinity
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9
