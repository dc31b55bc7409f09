"""The main accuracy table: aspects by evaluators, with interval, n, failures and marks for the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, get_args

from tasks.report.judged_pairs import JudgedPairs
from tasks.report.table import Column, Table, aspect_title
from tasks.statistics.cells import Cell, cell_of, cells_of, macro_accuracy
from tasks.statistics.intervals import Interval
from tasks.statistics.trials import Who

IntervalKind = Literal["clustered", "wilson", "paper"]
INTERVAL_KINDS: tuple[IntervalKind, ...] = get_args(IntervalKind)
DEFAULT_INTERVAL: IntervalKind = "clustered"
#: Share of the judged pairs that a cell needs to be compared with others.
LEAST_SHARE = 0.9
#: The row in which all answers weigh the same, and the one in which all aspects do.
POOLED, MEAN = "all pairs", "mean of aspects"

INTERVAL_TEXTS: Mapping[IntervalKind, str] = {
    "clustered": "Wilson's 95 % interval, clustered by source",
    "wilson": "Wilson's 95 % interval, n = pairs",
    "paper": "the paper's normal 95 % interval, n = pairs, twice the pairs where both orders were asked",
}


@dataclass(frozen=True)
class MatrixCell:
    """One evaluator on one aspect as displayed; `cell` is None if it was not asked, and for a mean."""

    accuracy: float | None
    cell: Cell | None = None
    interval: Interval | None = None
    mark: Literal["", "best", "second"] = ""


@dataclass(frozen=True)
class MatrixRow:
    """One aspect; `pairs` counts the pairs that any evaluator was asked about."""

    aspect: str
    title: str
    pairs: int
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True)
class Matrix:
    """Aspects by evaluators."""

    evaluators: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    summary: tuple[MatrixRow, ...]
    interval: IntervalKind


def matrix_of(gathered: JudgedPairs, kind: IntervalKind = DEFAULT_INTERVAL) -> Matrix:
    """Return the accuracy table of judgements.

    The best and the second best are marked among cells with answers on at least `LEAST_SHARE` of the pairs
    that any evaluator was asked about: one right answer on one pair should not count as 100 %.
    """
    cells = cells_of(gathered.trials, gathered.ties)
    whos = [who for who in gathered.names if any(who == other for other, _ in cells)]
    aspects = [aspect for aspect in gathered.aspects if any(aspect == other for _, other in cells)]
    rows = []
    for aspect in aspects:
        pairs = len({t.pair.pair_id for t in gathered.trials if t.pair.aspect == aspect})
        held = [cells.get((who, aspect)) for who in whos]
        rows.append(MatrixRow(aspect, aspect_title(aspect), pairs, marked_cells(held, pairs, kind)))
    all_pairs = len({t.pair.pair_id for t in gathered.trials})
    by_who = gathered.by_who()
    pooled = [cell_of(by_who[who], gathered.ties) for who in whos]
    means = [_mean(cells, who, aspects) for who in whos]
    summary = (
        MatrixRow(POOLED, "All pairs", all_pairs, marked_cells(pooled, all_pairs, kind)),
        MatrixRow(
            MEAN,
            "Mean of aspects",
            all_pairs,
            tuple(MatrixCell(mean, mark=mark) for mean, mark in zip(means, marks_of(means), strict=True)),
        ),
    )
    return Matrix(
        tuple(gathered.names[who] for who in whos), tuple(rows), summary if len(rows) > 1 else (), kind
    )


def _mean(cells: Mapping[tuple[Who, str], Cell], who: Who, aspects: Sequence[str]) -> float | None:
    held = [cells[who, aspect] for aspect in aspects if (who, aspect) in cells]
    return macro_accuracy(held) if len(held) == len(aspects) else None


def marked_cells(held: Sequence[Cell | None], pairs: int, kind: IntervalKind) -> tuple[MatrixCell, ...]:
    """Return cells of one row for display, the best and second best marked; see :func:`matrix_of`.

    Parameters
    ----------
    held
        One evaluator's cell each; None where it was not asked.
    pairs
        Number of pairs that any evaluator was asked about.
    """
    compared = [cell.accuracy if is_compared(cell, pairs) else None for cell in held]
    return tuple(
        MatrixCell(None) if cell is None else MatrixCell(cell.accuracy, cell, getattr(cell, kind), mark)
        for cell, mark in zip(held, marks_of(compared), strict=True)
    )


def is_compared(cell: Cell | None, pairs: int) -> TypeGuard[Cell]:
    """Return whether a cell has an accuracy from at least `LEAST_SHARE` of the pairs, so it can be marked."""
    return cell is not None and cell.accuracy is not None and cell.counted_pairs >= LEAST_SHARE * pairs


def marks_of(accuracies: Sequence[float | None]) -> list[Literal["", "best", "second"]]:
    """Mark the best values, and the second best if one alone is best and one alone second.

    Nothing is marked among fewer than two values, where all are equal, or at 0: the mark would say nothing.
    """
    rounded = [None if value is None else round(value, 12) for value in accuracies]
    counts = Counter(value for value in rounded if value is not None)
    if len(counts) < 2:
        return [""] * len(rounded)
    best, second = sorted(counts, reverse=True)[:2]
    marks: dict[float | None, Literal["best", "second"]] = {best: "best"}
    if counts[best] == counts[second] == 1 and second > 0:
        marks[second] = "second"
    return [marks.get(value, "") for value in rounded]


ACCURACY_COLUMNS = (
    Column("aspect", "aspect", "aspect"),
    Column("evaluator", "evaluator"),
    Column("settings", "settings", shown=False),
    Column("accuracy", "accuracy", "percent"),
    *(
        Column(f"{kind}_{end}", f"{kind} {end}", "percent")
        for kind in ("paper", "wilson", "clustered")
        for end in ("low", "high")
    ),
    Column("n", "n", "count"),
    Column("counted_pairs", "pairs with points", "count"),
    Column("pairs", "pairs asked", "count", shown=False),
    Column("requests", "requests", "count", shown=False),
    Column("failed", "failed", "count"),
    Column("failures", "why"),
    Column("ties", "ties", "count"),
    Column("clusters", "sources", "count", shown=False),
    Column("effective_n", "effective n", "number", shown=False),
    Column("mark", "mark"),
)


def accuracy_table(gathered: JudgedPairs, matrix: Matrix) -> Table:
    """Return the matrix as a table with one row per cell and all three intervals."""
    settings = {name: who[1] for who, name in gathered.names.items()}
    rows = []
    for row in (*matrix.rows, *matrix.summary):
        for name, shown in zip(matrix.evaluators, row.cells, strict=True):
            if shown.cell is not None or shown.accuracy is not None:
                rows.append(
                    {**_values(shown), "aspect": row.aspect, "evaluator": name, "settings": settings[name]}
                )
    note = (
        "n counts a pair twice where it was asked in both orders. A failed request is neither right nor "
        "wrong. The mean of aspects has no interval here."
    )
    return Table("accuracy", "Accuracy by aspect and evaluator", ACCURACY_COLUMNS, tuple(rows), note)


def _values(shown: MatrixCell) -> dict[str, Any]:
    cell = shown.cell
    values: dict[str, Any] = {"accuracy": shown.accuracy, "mark": shown.mark}
    if cell is None:
        return values
    for kind in INTERVAL_KINDS:
        interval: Interval | None = getattr(cell, kind)
        values[f"{kind}_low"] = None if interval is None else interval.low
        values[f"{kind}_high"] = None if interval is None else interval.high
    return {
        **values,
        **{key: getattr(cell, key) for key in ("n", "counted_pairs", "pairs", "requests", "failed", "ties")},
        "failures": ", ".join(f"{reason} {count}" for reason, count in cell.failures),
        "clusters": None if cell.clustered is None else cell.clustered.clusters,
        "effective_n": None if cell.clustered is None else cell.clustered.effective_n,
    }
