"""The main accuracy table: aspects by evaluators, with interval, n, failures and marks for the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, get_args

from tasks.report.judged_pairs import FAILURE_WORDS, JudgedPairs
from tasks.report.table import Column, Table, aspect_title, interval_columns
from tasks.statistics.cells import MIN_SHARE, Cell, MacroMean, cell_of, cells_of, macro_mean
from tasks.statistics.intervals import ClusteredInterval, Interval
from tasks.statistics.trials import grouped

Mark = Literal["", "best", "second"]
IntervalKind = Literal["clustered", "wilson", "paper"]
INTERVAL_KINDS: tuple[IntervalKind, ...] = get_args(IntervalKind)
DEFAULT_INTERVAL: IntervalKind = "clustered"
#: Minimum number of sources for marking the best: from fewer, it may be best by chance.
MIN_SOURCES = 10
#: The row in which all answers weigh the same, and the one in which all aspects do.
POOLED, MEAN = "all pairs", "mean of aspects"

INTERVAL_TEXTS: Mapping[IntervalKind, str] = {
    "clustered": "Wilson's 95 % interval, clustered by source",
    "wilson": "Wilson's 95 % interval, n = pairs",
    "paper": "the paper's normal 95 % interval, n = pairs, twice the pairs where both orders were asked",
}

MARKS_NOTE = (
    "Bold on a tint: the best; underlined: the second. An evaluator is compared if "
    f"{100 * MIN_SHARE:g} % of its requests count, and marked if it has {MIN_SOURCES} sources and an "
    "interval, clustered by source, above those of all below it."
)


@dataclass(frozen=True)
class MatrixCell:
    """One evaluator on one aspect as displayed; `cell` is None if it was not asked, and for a mean."""

    accuracy: float | None
    cell: Cell | None = None
    interval: Interval | None = None
    mark: Mark = ""


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
    """Return the accuracy table of judgements; see :func:`marks_of` for what is marked."""
    pairs = {
        aspect: len({trial.pair.pair_id for trial in some})
        for aspect, some in grouped(gathered.trials, lambda trial: trial.pair.aspect).items()
    }
    cells = cells_of(gathered.trials, gathered.ties, pairs)
    by_who = gathered.by_who()
    aspects = [aspect for aspect in gathered.aspects if aspect in pairs]
    rows = [
        MatrixRow(
            aspect,
            aspect_title(aspect),
            pairs[aspect],
            marked_cells([cells.get((who, aspect)) for who in by_who], kind),
        )
        for aspect in aspects
    ]
    total = sum(pairs.values())
    pooled = [cell_of(some, gathered.ties, total) for some in by_who.values()]
    means = [macro_mean(some, aspects, gathered.ties) for some in by_who.values()]
    covered = [all(is_compared(cells.get((who, aspect))) for aspect in aspects) for who in by_who]
    summary = (
        MatrixRow(POOLED, "All pairs", total, marked_cells(pooled, kind)),
        MatrixRow(MEAN, "Mean of aspects", total, marked_means(means, covered)),
    )
    return Matrix(
        tuple(gathered.names[who] for who in by_who), tuple(rows), summary if len(rows) > 1 else (), kind
    )


def marked_means(means: Sequence[MacroMean | None], covered: Sequence[bool]) -> tuple[MatrixCell, ...]:
    """Return means of aspects for display, the best and second best marked.

    Parameters
    ----------
    means
        One evaluator's mean each; None where it has no accuracy on an aspect.
    covered
        Whether it is compared on each aspect.
    """
    compared = [
        (mean.accuracy, mean.clustered) if mean is not None and covers else None
        for mean, covers in zip(means, covered, strict=True)
    ]
    return tuple(
        MatrixCell(None) if mean is None else MatrixCell(mean.accuracy, None, mean.clustered, mark)
        for mean, mark in zip(means, marks_of(compared), strict=True)
    )


def marked_cells(
    row_cells: Sequence[Cell | None], kind: IntervalKind, *, clearly: bool = True
) -> tuple[MatrixCell, ...]:
    """Return cells of one row for display, the best and second best marked.

    Parameters
    ----------
    row_cells
        One evaluator's cell each; None where it was not asked.
    clearly
        Whether intervals must not overlap, as in :func:`marks_of`.
    """
    compared = [
        (cell.accuracy, cell.clustered)
        if is_compared(cell) and cell.accuracy is not None and cell.clustered is not None
        else None
        for cell in row_cells
    ]
    return tuple(
        MatrixCell(None) if cell is None else MatrixCell(cell.accuracy, cell, getattr(cell, kind), mark)
        for cell, mark in zip(row_cells, marks_of(compared, clearly=clearly), strict=True)
    )


def is_compared(cell: Cell | None) -> TypeGuard[Cell]:
    """Return whether there is a cell that can be ranked and marked."""
    return cell is not None and cell.is_covered


def marks_of(
    compared: Sequence[tuple[float, ClusteredInterval] | None], *, clearly: bool = True
) -> list[Mark]:
    """Mark the best value, and the second best.

    The best has an interval above those of all others, and `MIN_SOURCES` sources; the second has one above
    those of all but the best. Nothing is marked among fewer than two values, or if none is clearly best.

    Parameters
    ----------
    compared
        Accuracies with their clustered intervals; None where one is not compared.
    clearly
        False marks the highest numbers, as the paper's tables do, even if intervals overlap.
    """
    marks: list[Mark] = [""] * len(compared)
    ranked = [(*one, index) for index, one in enumerate(compared) if one is not None]
    ranked.sort(key=lambda one: -one[0])
    names: tuple[Mark, ...] = ("best", "second")
    for rank, name in enumerate(names[: len(ranked)] if len(ranked) > 1 else ()):
        accuracy, interval, index = ranked[rank]
        if not accuracy or interval.clusters < MIN_SOURCES:
            break
        below = [other.high if clearly else other_accuracy for other_accuracy, other, _ in ranked[rank + 1 :]]
        if (interval.low if clearly else accuracy) <= max(below, default=-1.0):
            break
        marks[index] = name
    return marks


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
    *interval_columns("failures wrong", prefix="bounds_"),
    Column("coverage", "coverage", "percent"),
    Column("n", "n", "count"),
    Column("counted_pairs", "pairs with points", "count"),
    Column("pairs", "pairs asked", "count", shown=False),
    Column("requests", "requests", "count", shown=False),
    Column("failed", "failed", "count"),
    Column("failures", "why"),
    Column("not_asked", "not asked", "count"),
    Column("ties", "ties", "count"),
    Column("clusters", "sources", "count", shown=False),
    Column("effective_n", "effective n", "count", shown=False),
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
        "n counts a pair twice where it was asked in both orders; a pair counts if both have an answer. "
        f"A failed request counts {FAILURE_WORDS[gathered.failures]}; the bounds are the accuracies if all "
        "failures were wrong, and if all were right. Coverage: requests that count, of those that all pairs "
        "of the row need."
    )
    return Table("accuracy", "Accuracy by aspect and evaluator", ACCURACY_COLUMNS, tuple(rows), note)


def _values(shown: MatrixCell) -> dict[str, Any]:
    cell = shown.cell
    values: dict[str, Any] = {"accuracy": shown.accuracy, "mark": shown.mark}
    clustered = shown.interval if cell is None else cell.clustered
    if isinstance(clustered, ClusteredInterval):
        values |= {"clusters": clustered.clusters, "effective_n": clustered.effective_n}
        values |= _ends("clustered", clustered)
    if cell is None:
        return values
    keys = ("n", "counted_pairs", "pairs", "requests", "coverage", "failed", "not_asked", "ties")
    return {
        **values,
        **_ends("paper", cell.paper),
        **_ends("wilson", cell.wilson),
        **_ends("bounds", cell.bounds),
        **{key: getattr(cell, key) for key in keys},
        "failures": ", ".join(f"{reason} {count}" for reason, count in cell.failures),
    }


def _ends(name: str, interval: Interval | None) -> dict[str, float | None]:
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return {f"{name}_low": low, f"{name}_high": high}
