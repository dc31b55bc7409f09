"""The report's tables on preferences; there are none unless a judge's answers have a probability."""

from __future__ import annotations

from typing import Any

from tasks.report.judged_pairs import JudgedPairs
from tasks.report.repeat_tables import bounds
from tasks.report.table import ALL, ASPECT, EVALUATOR, PAIR, Column, Table, interval_columns
from tasks.statistics.preferences import calibration_curve, pair_preferences, summarise
from tasks.statistics.trials import Trial, TrialPair, grouped, pair_points

Rows = list[dict[str, Any]]


def preference_tables(gathered: JudgedPairs) -> tuple[Table, ...]:
    """Return the tables on preferences, over all aspects and by aspect."""
    summaries: Rows = []
    curves: Rows = []
    by_pair: Rows = []
    for who, trials in gathered.by_who().items():
        name = gathered.names[who]
        # the points of the answers, next to the order-free preference
        points = pair_points(trials, gathered.ties)
        parts = sorted(grouped(trials, lambda trial: trial.pair.aspect).items())
        for aspect, some in [(ALL, trials), *parts] if len(parts) > 1 else parts:
            summary = _summary(some, points)
            if summary is not None:
                summaries.append({"aspect": aspect, "evaluator": name, **summary})
        curves += [
            {
                "evaluator": name,
                **{key: getattr(one, key) for key in ("requests", "predicted", "observed")},
                "bin_low": one.low,
                "bin_high": one.high,
                **bounds(one.clustered),
            }
            for one in calibration_curve(trials)
        ]
        by_pair += [
            {
                "evaluator": name,
                "aspect": one.pair.aspect,
                "pair_id": one.pair.pair_id,
                "source_id": one.pair.source_id,
                **{key: getattr(one, key) for key in ("high_first", "low_first", "mean")},
            }
            for one in pair_preferences(trials)
        ]
    if not summaries:
        return ()
    return _summary_table(summaries), _curve_table(curves), _pair_table(by_pair)


def _summary(trials: list[Trial], points: dict[TrialPair, float]) -> dict[str, Any] | None:
    found = summarise(trials)
    if found is None:
        return None
    answered = [points[one.pair] for one in pair_preferences(trials) if one.pair in points]
    return {
        "requests": found.requests,
        "pairs": found.pairs,
        "brier": found.brier.value,
        **bounds(found.brier.interval, "brier_"),
        "auc": found.auc.value,
        **bounds(found.auc.interval, "auc_"),
        "accuracy": sum(answered) / len(answered) if answered else None,
        "free_accuracy": found.free_accuracy.value,
        **bounds(found.free_accuracy.interval, "free_"),
        "free_brier": found.free_brier.value,
        **bounds(found.free_brier.interval, "free_brier_"),
    }


def _summary_table(rows: Rows) -> Table:
    return Table(
        "preferences",
        "How probable each answer was",
        (
            ASPECT,
            EVALUATOR,
            Column("requests", "requests", "count"),
            Column("brier", "Brier", "correlation"),
            Column("brier_low", "Brier from", "correlation", False),
            Column("brier_high", "to", "correlation", False),
            Column("auc", "AUC", "percent"),
            *interval_columns("95 %", prefix="auc_"),
            Column("pairs", "pairs", "count"),
            Column("accuracy", "answers", "percent"),
            Column("free_accuracy", "order-free", "percent"),
            *interval_columns("95 %", prefix="free_"),
            Column("free_brier", "its Brier", "correlation", False),
            Column("free_brier_low", "its Brier from", "correlation", False),
            Column("free_brier_high", "to", "correlation", False),
        ),
        tuple(rows),
        "From the probability of “first” among the judge's tokens. Brier: its mean squared error, 0.25 for a "
        "coin. AUC: the chance, in per cent, that “first” is more probable where the first video is the "
        "better one. Answers: accuracy of the answers on the same pairs. Order-free: accuracy of the mean of "
        "both orders. Intervals are clustered by source; the CSV has those of Brier scores.",
    )


def _curve_table(rows: Rows) -> Table:
    return Table(
        "calibration",
        "Calibration",
        (
            EVALUATOR,
            Column("bin_low", "“first” from", "percent"),
            Column("bin_high", "to", "percent"),
            Column("requests", "requests", "count"),
            Column("predicted", "mean", "percent"),
            Column("observed", "first is better", "percent"),
            *interval_columns("95 %"),
        ),
        tuple(rows),
        "Requests of all aspects by the probability of “first”, and how often the first video is the better "
        "one. A calibrated judge lies on the diagonal. The interval is clustered by source.",
    )


def _pair_table(rows: Rows) -> Table:
    shares = (
        Column("high_first", "high first"),
        Column("low_first", "low first"),
        Column("mean", "both orders"),
    )
    return Table(
        "preferences-by-pair",
        "Preferences by pair",
        (EVALUATOR, ASPECT, PAIR, Column("source_id", "source"), *shares),
        tuple(rows),
        long=True,
    )
