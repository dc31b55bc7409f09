"""Agreement of evaluators with a set's gold answers, with and without ties."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from storage_schemas.judgements import Judgement
from tasks.extras.meta_sets.base import MetaPair
from tasks.scoring.request import PairFacts
from tasks.statistics.cells import Cell, cell_of
from tasks.statistics.tie_margin import TieMargin, best_tie_margin
from tasks.statistics.trials import (
    DEFAULT_TIES,
    FailurePolicy,
    TiePolicy,
    Trial,
    TrialPair,
    failures_count,
    grouped,
    settled,
    trials_of,
)


@dataclass(frozen=True)
class Agreement:
    """One evaluator on one aspect of a set.

    Parameters
    ----------
    with_ties
        Better, worse and tie are three answers, and only the gold one is right.
    without_ties
        Over pairs whose gold answer is not a tie; the policy decides how an evaluator's tie counts.
    calibrated
        For scorers only; see :func:`~tasks.statistics.tie_margin.best_tie_margin`.
    """

    evaluator: str
    settings: str
    aspect: str
    with_ties: Cell
    without_ties: Cell
    calibrated: TieMargin | None


def set_trials(
    judgements: Iterable[Judgement], facts: Sequence[PairFacts], gold: Mapping[str, MetaPair]
) -> tuple[Trial, ...]:
    """Return the trials of judgements on a set, one per request.

    Parameters
    ----------
    facts, gold
        The set's pairs, and their comparisons by id.
    """
    pairs = [
        TrialPair(
            pair_id=one.pair_id,
            source_id=one.source_id,
            aspect=one.aspect,
            # unknown without opening the videos, and not needed by any statistic here
            duration_s=math.nan,
            gold_tie=gold[one.pair_id].gold == "tie",
        )
        for one in facts
    ]
    return trials_of(judgements, pairs)


def agreements(
    judgements: Iterable[Judgement],
    facts: Sequence[PairFacts],
    gold: Mapping[str, MetaPair],
    ties: TiePolicy = DEFAULT_TIES,
    failures: FailurePolicy = "ignored",
) -> tuple[Agreement, ...]:
    """Return the agreement of each evaluator, by aspect, in order of first appearance.

    Parameters
    ----------
    judgements
        Rows on pairs of the set.
    facts, gold
        The set's pairs, and their comparisons by id.
    ties
        How an evaluator's tie counts if one video is better.
    failures
        Points for a request without an answer.
    """
    rows = settled(judgements)
    tied = {id_: pair.gold == "tie" for id_, pair in gold.items()}
    rows_by_aspect = []
    trials = failures_count(set_trials(rows, facts, gold), failures)
    by_cell = grouped(rows, lambda row: (row.evaluator, row.settings, row.aspect))
    for key, some in grouped(trials, lambda trial: (*trial.who, trial.pair.aspect)).items():
        scored = [
            (row.score_high - row.score_low, tied[row.pair_id])
            for row in by_cell[key]
            if row.score_high is not None and row.score_low is not None
        ]
        finite = [one for one in scored if math.isfinite(one[0])]
        rows_by_aspect.append(
            Agreement(
                *key,
                with_ties=cell_of(some, "wrong"),
                without_ties=cell_of([trial for trial in some if not trial.pair.gold_tie], ties),
                calibrated=best_tie_margin([d for d, _ in finite], [tie for _, tie in finite]),
            )
        )
    return tuple(rows_by_aspect)
