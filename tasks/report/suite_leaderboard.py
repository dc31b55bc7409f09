"""A suite's leaderboard as CSV, Markdown, LaTeX and a self-contained page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.report.accuracy import MIN_SOURCES, marks_of
from tasks.report.formats import csv_text, latex_text, markdown_text, render
from tasks.report.owned_folder import OwnedFolder
from tasks.report.table import Column, Kind, Table
from tasks.scoring.suites.base import Dimension
from tasks.scoring.suites.leaderboard import Line, Mean, SuiteBoard
from tasks.statistics.intervals import ClusteredInterval

#: The file that says which files of a folder are the leaderboard's own; nothing else is ever removed.
LIST_NAME = "suite-leaderboard.json"
NOTE = (
    "Means over a model's videos{per_cent}; higher is better. A video without a score is "
    "left out of a mean, never counted as zero. Ranks are by the mean of a model's ranks in the "
    "dimensions in "
    "which it has a score; lower is better, equal means share a rank."
)
AVERAGED = "A group's mean is over its dimensions with a score; the last mean is over the groups."


def board_table(board: SuiteBoard) -> Table:
    """Return the leaderboard as a table; the CSV also has mean ranks and counts."""
    columns = [Column("model", "model")]
    for group in board.groups:
        for one in _of(board, group):
            columns += [
                Column(one.name, one.title, _kind(one)),
                Column(f"{one.name}_videos", "videos", "count", shown=False),
                Column(f"{one.name}_failed", "failed", "count", shown=False),
                Column(f"{one.name}_prompts", "prompts", shown=False),
            ]
        if board.averaged:
            columns.append(Column(f"{group} mean", f"{_first_large(group)}: mean", _mean_kind(board)))
        columns += [
            Column(f"{group} mean rank", f"{_first_large(group)}: mean rank", "number", shown=False),
            Column(f"{group} rank", f"{_first_large(group)}: rank", "count"),
        ]
    if board.averaged and board.dimensions:
        columns.append(Column("mean", "mean", _mean_kind(board)))
    columns += [
        Column("mean rank", "mean rank", "number", shown=False),
        Column("rank", "rank", "count"),
    ]
    note = " ".join([_note(board), *_prompts(board), *_warnings(board)])
    return Table(
        "leaderboard",
        f"{board.title}: leaderboard",
        tuple(columns),
        tuple(_row(board, line) for line in board.lines),
        note,
        "" if board.lines else "There are no scores.",
    )


def write_board(board: SuiteBoard, target: Path, more: Iterable[Table] = ()) -> Path:
    """Write the page and the table in three formats; return the page's path.

    Parameters
    ----------
    more
        Tables beside it.

    Raises
    ------
    UserInputError
        If `target` holds something else.
    """
    owned = OwnedFolder(target, LIST_NAME)
    for table in (board_table(board), *more):
        owned.write(f"{table.name}.csv", csv_text(table).encode())
        owned.write(f"{table.name}.md", markdown_text(table).encode())
        owned.write(f"{table.name}.tex", latex_text(table).encode())
    owned.write("index.html", render("suite.html.j2", _page(board), script="sort.js"))
    owned.settle()
    return target / "index.html"


def _of(board: SuiteBoard, group: str) -> list[Dimension]:
    return [one for one in board.dimensions if one.group == group]


def _first_large(group: str) -> str:
    return group[:1].upper() + group[1:]


def _kind(dimension: Dimension) -> Kind:
    return "percent" if dimension.low >= 0 and dimension.high <= 1 else "number"


def _mean_kind(board: SuiteBoard) -> Kind:
    return next((_kind(one) for one in board.dimensions if one.averaged), "number")


def _note(board: SuiteBoard) -> str:
    shares = any(_kind(one) == "percent" for one in board.dimensions)
    note = NOTE.format(per_cent=", scales from 0 to 1 in per cent" if shares else "")
    return f"{note} {AVERAGED}" if board.averaged else note


def _prompts(board: SuiteBoard) -> list[str]:
    """Return whose prompts were sent, in a sentence for each wording."""
    titles: dict[str, list[str]] = {}
    for one in board.dimensions:
        if label := board.prompts.get(one.name):
            titles.setdefault(label, []).append(one.title)
    if len(titles) == 1:
        return [f"Prompts sent to models: {label}." for label in titles]
    return [f"Prompts sent to models, {label}: {', '.join(names)}." for label, names in titles.items()]


def _row(board: SuiteBoard, line: Line) -> dict[str, Any]:
    row: dict[str, Any] = {"model": line.model}
    for one in board.dimensions:
        mean = line.means[one.name]
        row |= {one.name: mean.value, f"{one.name}_videos": mean.videos, f"{one.name}_failed": mean.failed}
        row[f"{one.name}_prompts"] = board.prompts.get(one.name, "")
    for group, standing in line.groups.items():
        row |= {f"{group} mean rank": standing.mean_rank, f"{group} rank": standing.rank}
        row[f"{group} mean"] = line.group_means[group]
    return {**row, "mean": line.mean, "mean rank": line.overall.mean_rank, "rank": line.overall.rank}


def _warnings(board: SuiteBoard) -> list[str]:
    warnings = [f"{one.title} is in no mean." for one in board.dimensions if not one.averaged]
    counts = {mean.videos for line in board.lines for mean in line.means.values() if mean.videos}
    uneven = any(len({line.means[one.name].videos for line in board.lines}) > 1 for one in board.dimensions)
    if uneven and counts:
        warnings.append("Models have different numbers of videos: only common prompts compare fairly.")
    if board.other_settings:
        names = ", ".join(sorted(board.other_settings))
        warnings.append(f"The store has scores with older settings of {names}: these are not counted.")
    return warnings


def _page(board: SuiteBoard) -> dict[str, Any]:
    columns: list[dict[str, Any]] = []
    for group in board.groups:
        columns += [{"title": one.title, "kind": "number"} for one in _of(board, group)]
        if board.averaged:
            columns.append({"title": f"{_first_large(group)}: mean", "kind": "number"})
        columns.append({"title": f"{_first_large(group)}: rank", "kind": "least"})
    if board.averaged and board.dimensions:
        columns.append({"title": "Mean", "kind": "number"})
    marks = {
        one.name: marks_of([_compared(line.means[one.name]) for line in board.lines])
        for one in board.dimensions
    }
    lines = []
    for index, line in enumerate(board.lines):
        cells: list[dict[str, Any]] = []
        for group in board.groups:
            for one in _of(board, group):
                mean = line.means[one.name]
                text = Column(one.name, one.title, _kind(one)).text(mean.value)
                failed = f", {mean.failed} failed" if mean.failed else ""
                cells.append(
                    _cell(one.title, mean.value, text, f"n {mean.videos}{failed}", marks[one.name][index])
                )
            if board.averaged:
                cells.append(_mean_cell(board, f"{_first_large(group)}: mean", line.group_means[group]))
            standing = line.groups[group]
            shown = "–" if standing.mean_rank is None else f"{standing.mean_rank:.2f}"
            rank = "–" if standing.rank is None else str(standing.rank)
            cells.append(_cell(f"{_first_large(group)}: rank", standing.rank, rank, f"mean {shown}", ""))
        if board.averaged and board.dimensions:
            cells.append(_mean_cell(board, "Mean", line.mean))
        lines.append({"model": line.model, "overall": line.overall, "cells": cells})
    return {
        "title": f"{board.title}: leaderboard",
        "board": board,
        "columns": columns,
        "lines": lines,
        "note": _note(board),
        "least_sources": MIN_SOURCES,
        "prompts": _prompts(board),
        "warnings": _warnings(board),
    }


def _compared(mean: Mean) -> tuple[float, ClusteredInterval] | None:
    return None if mean.value is None or mean.interval is None else (mean.value, mean.interval)


def _mean_cell(board: SuiteBoard, label: str, value: float | None) -> dict[str, Any]:
    return _cell(label, value, Column(label, label, _mean_kind(board)).text(value), "", "")


def _cell(label: str, value: float | None, text: str, more: str, mark: str) -> dict[str, Any]:
    return {"label": label, "value": value, "text": text, "more": more, "mark": mark}
