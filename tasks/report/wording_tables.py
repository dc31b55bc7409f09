"""The report's tables on wordings of judges: accuracy by wording, and where the variance comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.report.judged_pairs import JudgedPairs
from tasks.report.repeat_tables import bounds
from tasks.report.table import ALL, ASPECT, EVALUATOR, Column, Table, interval_columns
from tasks.statistics.trials import Trial, grouped
from tasks.statistics.wordings import PARTS, Wordings, trials_by_wording, wordings_of

_NONE = (
    "No judge has complete answers on the same pairs in several wordings: give `evaluate --prompts` a folder "
    "with a folder for each."
)
#: Name of the judge's words without a wording.
OWN = "its own"


def found_wordings(gathered: JudgedPairs) -> Iterator[tuple[str, str, Wordings]]:
    """Yield aspect, evaluator and its wordings, over all aspects too."""
    own = grouped(gathered.trials, lambda trial: trial.who[0])
    for name, by_wording in trials_by_wording(gathered.wording_trials, own).items():
        aspects = {trial.pair.aspect for some in by_wording.values() for trial in some}
        ordered = [aspect for aspect in gathered.aspects if aspect in aspects]
        for aspect in [ALL, *ordered] if len(ordered) > 1 else ordered:
            found = wordings_of({wording: _of(some, aspect) for wording, some in by_wording.items()})
            if found is not None:
                yield aspect, name, found


def _of(trials: Sequence[Trial], aspect: str) -> list[Trial]:
    return [trial for trial in trials if aspect in (ALL, trial.pair.aspect)]


def wording_tables(gathered: JudgedPairs) -> tuple[Table, ...]:
    """Return the tables on wordings; they are empty unless a judge was asked in several."""
    spread: list[dict[str, Any]] = []
    each: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for aspect, evaluator, found in found_wordings(gathered):
        head = {"aspect": aspect, "evaluator": evaluator}
        values = [accuracy for accuracy, _ in found.accuracies.values()]
        spread.append(
            {
                **head,
                "wordings": len(values),
                "pairs": found.pairs,
                "mean": found.mean,
                "least": min(values),
                "most": max(values),
                "deviation": found.deviation,
                **bounds(found.another),
            }
        )
        each += [
            {**head, "wording": wording or OWN, "accuracy": accuracy, **bounds(interval)}
            for wording, (accuracy, interval) in found.accuracies.items()
        ]
        parts += [
            {**head, "part": part, "variance": one.variance, "share": one.share, **bounds(one.interval)}
            for part, one in zip(PARTS, found.components, strict=True)
            if one is not None
        ]
    return _spread_table(spread), _each_table(each), _part_table(parts)


def _spread_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "wordings",
        "Effect of other words",
        (
            ASPECT,
            EVALUATOR,
            Column("wordings", "wordings", "count"),
            Column("pairs", "pairs", "count"),
            Column("mean", "mean", "percent"),
            Column("least", "least", "percent"),
            Column("most", "most", "percent"),
            Column("deviation", "deviation", "percent"),
            *interval_columns("another wording"),
        ),
        tuple(rows),
        "Accuracies of one judge with several wordings of its prompts, on the pairs that it answered in all "
        "of them: their mean, ends and standard deviation. Another wording: where the accuracy with one more "
        "wording of this kind would lie, at 95 %. A published accuracy in there may differ by words alone.",
        "" if rows else _NONE,
    )


def _each_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "accuracy-by-wording",
        "Accuracy by wording",
        (
            ASPECT,
            EVALUATOR,
            Column("wording", "wording"),
            Column("accuracy", "accuracy", "percent"),
            *interval_columns("95 %"),
        ),
        tuple(rows),
        "The interval is clustered by source.",
        "" if rows else _NONE,
    )


def _part_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "wording-variance",
        "Share of the answers' variance due to wording",
        (
            ASPECT,
            EVALUATOR,
            Column("part", "between"),
            Column("share", "share", "percent"),
            Column("variance", "variance", "correlation"),
            *interval_columns("95 %", "correlation"),
        ),
        tuple(rows),
        "Wording: one wording makes the judge better on all pairs. Pair and wording: which pairs it gets "
        "right depends on the words. Order: the two orders of a pair are answered differently; chance is in "
        "it where nothing was repeated. Repeat: the same request is answered differently. Crossed and nested "
        "random effects by analysis of variance; intervals delete one source at a time.",
        "" if rows else _NONE,
    )
