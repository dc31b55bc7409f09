"""What moves the dimensions of a suite: each against each aspect of damage, and against what it claims."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage_schemas.judgements import Judgement
from tasks.report.detection_tables import TRIVIAL
from tasks.report.judged_release import JudgedRelease
from tasks.report.repeat_tables import bounds
from tasks.report.table import ASPECT, Column, Table, interval_columns
from tasks.statistics.specificity import Auc, auc_of
from tasks.statistics.trials import TrialPair, grouped, settled

_NONE = (
    "No dimension of a suite was asked of all aspects: `evaluate -e 'locot2v-bench?dimension=all'` does it."
)
_DIMENSION = Column("evaluator", "dimension")


@dataclass(frozen=True)
class _Cell:
    evaluator: str
    aspect: str
    strength: str
    claims: bool | None
    found: Auc


def specificity_tables(gathered: JudgedRelease) -> tuple[Table, ...]:
    """Return the matrix of dimensions and aspects by strength, and its result for each dimension.

    Trivial numbers of pictures are listed next to the dimensions; without a dimension the tables are empty.
    """
    cells = list(_cells(gathered))
    if all(cell.claims is None for cell in cells):
        cells = []
    return _matrix_table(cells), _summary_table(gathered, cells)


def _cells(gathered: JudgedRelease) -> Iterator[_Cell]:
    pairs = {trial.pair.pair_id: trial.pair for trial in gathered.all_trials}
    rows = [row for row in settled(gathered.rows) if row.answered and row.pair_id in pairs]
    claims: dict[str, Sequence[str] | None] = {}
    scores: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        details = _told(row)
        found = _scores(row, details)
        if found is not None and ("claims" in details or (row.use or row.evaluator) in TRIVIAL):
            name = gathered.names[row.evaluator, row.settings]
            claims[name] = details.get("claims")
            scores.setdefault((name, row.pair_id), []).append(found)
    order = {aspect: index for index, aspect in enumerate(gathered.aspects)}
    kept = [(name, pairs[pair], some) for (name, pair), some in scores.items()]
    kept = [one for one in kept if not gathered.main_strength or one[1].clips == gathered.main_clips]
    cells = grouped(kept, lambda one: (one[0], one[1].aspect, one[1].strength))

    def rank(key: tuple[str, str, str]) -> tuple[Any, ...]:
        name, aspect, strength = key
        strengths = gathered.strengths.get(aspect, ())
        at = strengths.index(strength) if strength in strengths else 0
        return claims[name] is None, name, order.get(aspect, len(order)), at

    for name, aspect, strength in sorted(cells, key=rank):
        some = cells[name, aspect, strength]
        auc = _auc([(pair, values) for _, pair, values in some])
        if auc is not None:
            claimed = claims[name]
            yield _Cell(name, aspect, strength, None if claimed is None else aspect in claimed, auc)


def _told(row: Judgement) -> Mapping[str, Any]:
    """Return the information on a dimension in a row's details; a scorer has it for each video."""
    told: Mapping[str, Any] = json.loads(row.details) if '"claims"' in row.details else {}
    inner = told.get("high")
    return inner if isinstance(inner, Mapping) and "claims" not in told else told


def _scores(row: Judgement, told: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the scores of the undamaged and the damaged video; None if the row has none."""
    if row.score_high is not None and row.score_low is not None:
        return row.score_high, row.score_low
    both = told.get("scores")
    if not isinstance(both, list) or len(both) != 2:
        return None
    first, second = map(float, both)
    return (second, first) if row.order == "low_first" else (first, second)


def _auc(some: Sequence[tuple[TrialPair, Sequence[tuple[float, float]]]]) -> Auc | None:
    """Return the AUC of pairs, each with the mean scores over its requests."""
    high, low = ([sum(one[index] for one in every) / len(every) for _, every in some] for index in (0, 1))
    return auc_of(high, low, [pair.source_id for pair, _ in some])


def _matrix_table(cells: Sequence[_Cell]) -> Table:
    rows = [
        {
            "evaluator": cell.evaluator,
            "aspect": cell.aspect,
            "strength": cell.strength,
            "claims": "" if cell.claims is None else "yes" if cell.claims else "no",
            "auc": cell.found.auc,
            **bounds(cell.found.interval),
            "paired": cell.found.paired,
            "pairs": cell.found.pairs,
            "sources": cell.found.sources,
        }
        for cell in cells
    ]
    return Table(
        "specificity",
        "What moves the dimensions of a suite",
        (
            _DIMENSION,
            ASPECT,
            Column("strength", "strength"),
            Column("claims", "claims it"),
            Column("auc", "AUC", "correlation"),
            *interval_columns("95 %", "correlation"),
            Column("paired", "within pairs", "percent"),
            Column("pairs", "pairs", "count"),
            Column("sources", "sources", "count"),
        ),
        tuple(rows),
        "AUC: the chance that an undamaged video has a greater score than a damaged one of this aspect, of "
        "any two pairs; 0.5 is chance, and under it the damaged ones score higher. Intervals delete one "
        "source at a time, from three sources on. Within pairs: the same for the two videos of a pair. "
        "Claims it: whether the suite's mapping has the dimension stand for the aspect; empty for trivial "
        "numbers.",
        "" if rows else _NONE,
    )


def _summary_table(gathered: JudgedRelease, cells: Sequence[_Cell]) -> Table:
    main = gathered.main_strength
    kept = [cell for cell in cells if cell.strength == main.get(cell.aspect, cell.strength)]
    rows = []
    for name, some in grouped(kept, lambda cell: cell.evaluator).items():
        on, off = [one for one in some if one.claims], [one for one in some if not one.claims]
        strongest = max(off, key=lambda one: abs(one.found.auc - 0.5), default=None)
        rows.append(
            {
                "evaluator": name,
                "claims": ", ".join(one.aspect for one in on),
                "on": _mean([one.found.auc for one in on]),
                "off": _mean([abs(one.found.auc - 0.5) + 0.5 for one in off]),
                "strongest": "" if strongest is None else strongest.aspect,
                "strongest_auc": None if strongest is None else strongest.found.auc,
                "moved": ", ".join(one.aspect for one in some if one.found.moved),
            }
        )
    return Table(
        "specificity-summary",
        "What dimensions claim, and what moves them",
        (
            _DIMENSION,
            Column("claims", "claims"),
            Column("on", "AUC of these", "correlation"),
            Column("off", "of others, either way", "correlation"),
            Column("strongest", "strongest other"),
            Column("strongest_auc", "its AUC", "correlation"),
            Column("moved", "moved by"),
        ),
        tuple(rows),
        "At the recipe's main strength. Of others: the mean of AUCs, those under 0.5 reversed: a specific "
        "dimension is near 0.5 there. Moved by: aspects whose interval does not contain 0.5, without "
        "correction for their number.",
        "" if rows else _NONE,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
