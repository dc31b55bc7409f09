"""The leaderboard: a page of valid submissions, and the problems of the others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.ids import digest_text
from storage_schemas.release import Release
from tasks.publish.submission import Checked, cells_by_aspect, submission_bytes
from tasks.report.accuracy import (
    INTERVAL_TEXTS,
    MARKS_NOTE,
    IntervalKind,
    is_compared,
    marked_cells,
    marked_means,
)
from tasks.report.formats import csv_text, markdown_text, render
from tasks.report.judged_pairs import small_sample
from tasks.report.judged_release import JudgedRelease
from tasks.report.owned_folder import OwnedFolder
from tasks.report.table import Column, Table, aspect_title, interval_columns
from tasks.statistics.cells import MIN_SHARE, MacroMean, macro_mean

#: The list of the leaderboard's own files in a folder; no other file is ever removed.
LIST_NAME = "leaderboard.json"
_ORDERS = {"both": "both orders", "one": "one order", "apart": "one by one"}


def write_leaderboard(
    release: Release,
    checked: Sequence[Checked],
    target: Path,
    *,
    refused: Mapping[str, str] | None = None,
    interval: IntervalKind = "clustered",
) -> Path:
    """Write the page with its table as CSV and Markdown, and the submissions; return the page's path.

    Parameters
    ----------
    refused
        The problem of a file, by its name; shown on the page.
    interval
        Which interval the page shows; the CSV has all.

    Raises
    ------
    UserInputError
        If `target` holds something else.
    """
    owned = OwnedFolder(target, LIST_NAME)
    lines = _ranked(release, checked, interval)
    for line in lines:
        owned.write(f"submissions/{line['slug']}.json", submission_bytes(line.pop("submission")))
    aspects = _aspects(release)
    table = _table(release, checked)
    owned.write("leaderboard.csv", csv_text(table).encode())
    owned.write("leaderboard.md", markdown_text(table).encode())
    data = {
        "title": f"Leaderboard of {release.name}",
        "release": {
            "name": release.name,
            "version": str(release.version),
            "pairs": f"{len(release.pairs()):,}",
            "checksum": release.manifest.content_checksum,
        },
        "aspects": [aspect_title(aspect) for aspect in aspects],
        "lines": lines,
        "refused": refused or {},
        "interval_note": INTERVAL_TEXTS[interval],
        "marks_note": MARKS_NOTE,
        "least_share": f"{100 * MIN_SHARE:g} %",
        "small": small_sample(len({record.source_id for record in release.pairs()})),
    }
    owned.write("index.html", render("leaderboard.html.j2", data, script="sort.js"))
    owned.settle()
    return target / "index.html"


def _aspects(release: Release) -> list[str]:
    return list(dict.fromkeys(record.aspect for record in release.pairs()))


def _ranked(release: Release, checked: Sequence[Checked], kind: IntervalKind) -> list[dict[str, Any]]:
    aspects = _aspects(release)
    held = [(one, cells_by_aspect(one.gathered), _mean(one.gathered, aspects)) for one in checked]
    held.sort(key=lambda item: (1.0 if item[2] is None else -item[2].accuracy, item[0].submission.card.name))
    columns = [marked_cells([cells.get(aspect) for _, cells, _ in held], kind) for aspect in aspects]
    means = marked_means([mean for _, _, mean in held], [True] * len(held))
    ranks = _ranks([mean.accuracy for mean in means])
    lines: list[dict[str, Any]] = []
    for index, (one, cells, _) in enumerate(held):
        submission = one.submission
        costs = [answer.cost_usd for answer in submission.answers]
        lines.append(
            {
                "rank": ranks[index],
                "card": submission.card,
                "submission": submission,
                "slug": _slug(submission.card.name, submission_bytes(submission).decode()),
                "orders": _ORDERS[submission.orders],
                "made_at": submission.made_at[:10],
                "mean": means[index],
                "cells": [column[index] for column in columns],
                "requests": sum(cell.expected for cell in cells.values()),
                "failed": sum(answer.failure is not None for answer in submission.answers),
                "usd": None if any(cost is None for cost in costs) else sum(cost or 0.0 for cost in costs),
                "prices": submission.prices,
            }
        )
    return lines


def _ranks(accuracies: Sequence[float | None]) -> list[int | None]:
    """Return ranks from 1; equal values share the better one, and what has no value has no rank."""
    rounded = [None if one is None else round(one, 12) for one in accuracies]
    values = [one for one in rounded if one is not None]
    return [None if one is None else 1 + sum(other > one for other in values) for one in rounded]


def _mean(gathered: JudgedRelease, aspects: Sequence[str]) -> MacroMean | None:
    """Return the mean over aspects; a judge that does not cover all of them has none."""
    cells = cells_by_aspect(gathered)
    covers = all(is_compared(cells.get(aspect)) for aspect in aspects)
    return macro_mean(gathered.trials, aspects, gathered.ties) if covers else None


def _slug(name: str, content: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40].lower() or "judge"
    return f"{readable}-{digest_text(content)[:8]}"


def _table(release: Release, checked: Sequence[Checked]) -> Table:
    rows = []
    for one in checked:
        for aspect, cell in cells_by_aspect(one.gathered).items():
            ends = {
                f"{kind}_{end}": None if (interval := getattr(cell, kind)) is None else getattr(interval, end)
                for kind in INTERVAL_TEXTS
                for end in ("low", "high")
            }
            rows.append(
                {
                    "judge": one.submission.card.name,
                    "settings": one.submission.settings,
                    "aspect": aspect,
                    "accuracy": cell.accuracy,
                    "n": cell.n,
                    "coverage": cell.coverage,
                    "failed": cell.failed,
                    "bounds_low": cell.bounds and cell.bounds.low,
                    "bounds_high": cell.bounds and cell.bounds.high,
                    **ends,
                }
            )
    return Table(
        "leaderboard",
        f"Leaderboard of {release.name}, version {release.version}",
        (
            Column("judge", "judge"),
            Column("settings", "settings", shown=False),
            Column("aspect", "aspect", "aspect"),
            Column("accuracy", "accuracy", "percent"),
            *(
                Column(f"{kind}_{end}", f"{kind} {end}", "percent", shown=kind == "clustered")
                for kind in INTERVAL_TEXTS
                for end in ("low", "high")
            ),
            Column("n", "n", "count"),
            Column("coverage", "coverage", "percent"),
            Column("failed", "failed", "count"),
            *interval_columns("failures wrong", prefix="bounds_"),
        ),
        tuple(rows),
        "Accuracies are computed from the submitted answers.",
        "" if rows else "There is no valid submission.",
    )
