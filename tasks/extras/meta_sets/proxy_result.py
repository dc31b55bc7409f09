"""The proxy study's result: two accuracies of each evaluator, two rankings, and their correlation."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scipy import stats

from storage_schemas.judgements import Judgement
from tasks.extras.meta_sets.proxy_study import ProxyPairs, Setting
from tasks.statistics.cells import Cell, cell_of
from tasks.statistics.correlations import Correlation, ranking_correlation
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy, Trial, TrialPair, Who, grouped, trials_of


@dataclass(frozen=True)
class ProxyRow:
    """One evaluator; it has no rank in a setting with answers to too few requests, and shares equal ranks."""

    evaluator: str
    settings: str
    generated: Cell
    degraded: Cell
    generated_rank: float | None
    degraded_rank: float | None


@dataclass(frozen=True)
class ProxyResult:
    """The study's result.

    Parameters
    ----------
    rows
        By rank in the setting ``generated``.
    correlation
        Spearman's ρ of the two settings' accuracies over the evaluators that have both ranks.
    """

    title: str
    rows: tuple[ProxyRow, ...]
    correlation: Correlation

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON-compatible values."""
        return {
            "of": self.title,
            "evaluators": self.table(),
            "spearman": {
                "rho": self.correlation.coefficient,
                "p": self.correlation.p,
                "n": self.correlation.n,
            },
        }

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each evaluator."""
        rows = []
        for row in self.rows:
            values: dict[str, Any] = {"evaluator": row.evaluator, "settings": row.settings}
            for name, cell, rank in (
                ("generated", row.generated, row.generated_rank),
                ("degraded", row.degraded, row.degraded_rank),
            ):
                values |= {
                    f"{name}_rank": rank,
                    f"{name}_accuracy": cell.accuracy,
                    f"{name}_low": None if cell.clustered is None else cell.clustered.low,
                    f"{name}_high": None if cell.clustered is None else cell.clustered.high,
                    f"{name}_pairs": cell.pairs,
                    f"{name}_ties": cell.ties,
                    f"{name}_failed": cell.failed,
                }
            rows.append(values)
        return rows

    def as_csv(self) -> str:
        """Return the table as CSV."""
        text = io.StringIO(newline="")
        rows = self.table()
        writer = csv.DictWriter(text, list(rows[0]) if rows else ["evaluator"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()


def proxy_result(
    study: ProxyPairs, judgements: Iterable[Judgement], ties: TiePolicy = DEFAULT_TIES
) -> ProxyResult:
    """Compute the result from judgements on a study's pairs.

    Parameters
    ----------
    judgements
        Rows on its pairs, by the participating evaluators.
    ties
        How an evaluator's tie counts.
    """
    drawn = study.draw()
    pairs = [TrialPair(one.pair_id, one.source_id, one.aspect, math.nan) for one in drawn.facts]
    trials = trials_of(judgements, pairs)

    def cells(setting: Setting) -> dict[Who, Cell]:
        some = [trial for trial in trials if drawn.pairs[trial.pair.pair_id].setting == setting]
        by_who: dict[Who, list[Trial]] = grouped(some, lambda trial: trial.who)
        count = sum(one.setting == setting for one in drawn.pairs.values())
        return {trial.who: cell_of(by_who.get(trial.who, []), ties, count) for trial in trials}

    generated, degraded = cells("generated"), cells("degraded")
    first, second = _accuracies(generated), _accuracies(degraded)
    ranks = _ranks(first), _ranks(second)
    rows = [
        ProxyRow(*who, generated[who], degraded[who], ranks[0].get(who), ranks[1].get(who))
        for who in generated
    ]
    rows.sort(key=lambda row: (row.generated_rank or math.inf, row.evaluator, row.settings))
    return ProxyResult(study.title, tuple(rows), ranking_correlation(first, second))


def _accuracies(cells: dict[Who, Cell]) -> dict[Who, float]:
    """Return the accuracies that are ranked."""
    return {
        who: cell.accuracy for who, cell in cells.items() if cell.accuracy is not None and cell.is_covered
    }


def _ranks(accuracies: dict[Who, float]) -> dict[Who, float]:
    """Return ranks from 1 for the highest accuracy; equal ones share their mean rank."""
    ranks = stats.rankdata([-value for value in accuracies.values()])
    return {who: float(rank) for who, rank in zip(accuracies, ranks, strict=True)}
