"""Joint tables of a suite and its variants: each one's agreement with people by dimension.

In the form of Video-Bench's tables 2, 4, 5 and 7 (Spearman's ρ), 3 (Krippendorff's α) and 6 (ρ by kind of
prompt).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from storage_schemas.errors import StoreError, UserInputError
from storage_schemas.suite_score import SuiteScore
from tasks.report.suite_tables import Runs, means_over, runs_of
from tasks.report.table import Column, Table
from tasks.scoring.suites.base import Dimension, Suite, SuitePrompt
from tasks.scoring.suites.human_agreement import (
    Scores,
    alpha_of_people,
    alpha_with_machine,
    rank_agreement,
)
from tasks.scoring.suites.human_ratings import Rating, VideoKey
from tasks.scoring.suites.leaderboard import current, prompts_sent
from tasks.scoring.suites.score_store import ScoresStore

#: Name of the row of people alone.
PEOPLE = "people"


@dataclass(frozen=True)
class ScoredVariant:
    """A suite, or a variant of it, with its scores.

    Parameters
    ----------
    name, title, source
        Its name in the store, what tables call it, and the paper's table that has it.
    runs
        Scores by dimension.
    prompts
        Whose prompts were sent, by dimension.
    metrics
        By dimension, the metric of another benchmark that takes its place, on a scale of its own.
    """

    name: str
    title: str
    source: str
    runs: Mapping[str, Runs]
    prompts: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)


def scored_variants(scores: ScoresStore, suite: Suite, only: Sequence[str] = ()) -> list[ScoredVariant]:
    """Return the suite and its variants that have scores, the paper's in their order, then others.

    Parameters
    ----------
    only
        These variants; empty for all in the store.

    Raises
    ------
    UserInputError
        If one of them has no scores.
    StoreError
        If nothing has scores.
    """
    found = _in_store(scores, suite)
    names = [variant.name for variant in found if variant.name]
    for name in only:
        if name not in names:
            raise UserInputError(
                f"no scores of variant {name!r}, only of {', '.join(names) or 'none'}: "
                f"`slvmeval suite run {suite.name} --variant {name}` makes them"
            )
    if not found:
        raise StoreError(f"there are no scores of {suite.name}: `slvmeval suite run {suite.name}` makes them")
    return [variant for variant in found if not only or not variant.name or variant.name in only]


def baselines_of(scores: ScoresStore, suite: Suite) -> list[tuple[str, str, Runs]]:
    """Return the metrics of other benchmarks in a store: dimension, name and values of each."""
    return [
        (dimension, metric, variant.runs[dimension])
        for variant in _in_store(scores, suite)
        for dimension, metric in variant.metrics.items()
    ]


def _in_store(scores: ScoresStore, suite: Suite) -> list[ScoredVariant]:
    rows = scores.rows()
    begin = f"{suite.name}+"
    names = {row.suite.removeprefix(begin) for row in rows if row.suite.startswith(begin)}
    # scores of blurred videos are not a variant
    others = {name for name in names if "+" not in name and not name.startswith("blur")}
    found = []
    for name in ["", *suite.variants, *sorted(others - set(suite.variants))]:
        newest, _ = current([row for row in rows if row.suite == (f"{begin}{name}" if name else suite.name)])
        # one of which everything failed has nothing to compare
        if not (runs := runs_of(newest)):
            continue
        variant = suite.variants.get(name)
        title, source = (variant.title, variant.source) if variant else (name or suite.title, "")
        found.append(ScoredVariant(name, title, source, runs, prompts_sent(newest), metrics_of(newest)))
    return found


def metrics_of(rows: Iterable[SuiteScore]) -> dict[str, str]:
    """Return the metrics of other benchmarks that take the place of dimensions, by dimension."""
    # all rows of a dimension with the same settings have the same metric
    first = {row.dimension: row for row in rows if row.score is not None}
    details = {name: json.loads(row.details) for name, row in first.items()}
    return {name: str(values["metric"]) for name, values in details.items() if "metric" in values}


def ablation_tables(
    dimensions: Sequence[Dimension],
    variants: Sequence[ScoredVariant],
    ratings: Sequence[Rating],
    prompts: Mapping[str, SuitePrompt],
    common_videos: bool = False,
) -> list[Table]:
    """Return ρ of each variant, α next to that of people, and, if prompts have kinds, ρ by kind.

    Parameters
    ----------
    dimensions
        Those of the suite; a metric of another benchmark has no α, since its scale is not people's.
    variants
        The suite itself first.
    common_videos
        Whether only videos count that all variants with scores in a dimension have scored.
    """
    shown = [one for one in dimensions if any(one.name in variant.runs for variant in variants)]
    scores = {(variant.name, one.name): _scores(variant, one.name) for variant in variants for one in shown}
    if common_videos:
        scores = _common(scores)
    by_dimension = {one.name: [rating for rating in ratings if rating.dimension == one.name] for one in shown}
    whole = _rank_rows(shown, variants, scores, by_dimension)
    uneven = any(len({row[f"{one.name}_videos"] for row in whole} - {None}) > 1 for one in shown)
    tables = [
        Table(
            "ablations",
            "Agreement with people by variant: Spearman's ρ",
            (*_named(variants), *_columns(shown, "videos", "p")),
            tuple(whole),
            "Of a variant's score and the mean of a video's ratings. A mean is over the dimensions shown; a "
            "variant that lacks one has none." + _UNEVEN * uneven,
            "" if whole else "There are no scores.",
        ),
        Table(
            "ablations-alpha",
            "Agreement with people by variant: Krippendorff's α",
            (*_named(variants), *_columns(shown, "ratings")),
            tuple(_alpha_rows(shown, variants, scores, by_dimension)),
            "Ordinal. The first row is α among people over all ratings. In the others each rating is paired "
            "with the machine's score of the same video. A metric of another benchmark has none."
            + _UNEVEN
            * uneven,
            "" if whole else "There are no scores.",
        ),
    ]
    kinds = sorted({prompt.kind for prompt in prompts.values() if prompt.kind})
    if not kinds:
        return tables
    rows = []
    for kind in kinds:
        of_kind = {id_ for id_, prompt in prompts.items() if prompt.kind == kind}
        some = {
            name: [rating for rating in ratings if rating.video.prompt_id in of_kind]
            for name, ratings in by_dimension.items()
        }
        rows += [{"kind": kind, **row} for row in _rank_rows(shown, variants, scores, some)]
    tables.append(
        Table(
            "ablations-kinds",
            "Agreement with people by kind of prompt: Spearman's ρ",
            (Column("kind", "prompts"), *_named(variants), *_columns(shown, "videos", "p")),
            tuple(rows),
            "Prompts without a kind are left out.",
        )
    )
    return tables


_UNEVEN = " Variants have different videos: --common compares them on the same ones."


def _scores(variant: ScoredVariant, dimension: str) -> Scores:
    """Return each video's mean over repeats; with none, the variant has no value."""
    return means_over(variant.runs[dimension]) if dimension in variant.runs else {}


def _common(scores: Mapping[tuple[str, str], Scores]) -> dict[tuple[str, str], Scores]:
    common: dict[str, set[VideoKey]] = {}
    for (_, dimension), scores_of in scores.items():
        if scores_of:
            common[dimension] = common[dimension] & set(scores_of) if dimension in common else set(scores_of)
    return {
        (variant, dimension): {video: scores_of[video] for video in scores_of if video in common[dimension]}
        for (variant, dimension), scores_of in scores.items()
    }


def _named(variants: Sequence[ScoredVariant]) -> tuple[Column, ...]:
    labels = {label for variant in variants for label in variant.prompts.values()}
    return (
        Column("title", "variant"),
        Column("variant", "name", shown=False),
        Column("source", "paper", shown=False),
        Column("sent", "prompts sent", shown=len(labels) > 1),
    )


def _columns(dimensions: Sequence[Dimension], *more: str) -> list[Column]:
    columns = []
    groups = list(dict.fromkeys(one.group for one in dimensions))
    for group in groups:
        for one in dimensions:
            if one.group == group:
                columns.append(Column(one.name, one.title, "number"))
                for key in more:
                    kind: Any = "p" if key == "p" else "count"
                    columns.append(Column(f"{one.name}_{key}", key, kind, shown=False))
        columns.append(Column(f"{group} mean", f"{group[:1].upper()}{group[1:]}: mean", "number"))
    if len(groups) > 1:
        columns.append(Column("mean", "mean", "number"))
    return columns


def _names(variant: ScoredVariant) -> dict[str, Any]:
    sent = "; ".join(sorted(set(variant.prompts.values())))
    return {"title": variant.title, "variant": variant.name, "source": variant.source, "sent": sent}


def _means(dimensions: Sequence[Dimension], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mean of each group and of all dimensions; None unless all exist."""
    groups: dict[str, list[Any]] = {}
    for one in dimensions:
        groups.setdefault(f"{one.group} mean", []).append(row.get(one.name))
    return {name: _mean(values) for name, values in groups.items()} | {
        "mean": _mean([row.get(one.name) for one in dimensions])
    }


def _mean(values: Iterable[float | None]) -> float | None:
    given = list(values)
    numbers = [value for value in given if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers and len(numbers) == len(given) else None


def _rank_rows(
    dimensions: Sequence[Dimension],
    variants: Sequence[ScoredVariant],
    scores: Mapping[tuple[str, str], Scores],
    ratings: Mapping[str, Sequence[Rating]],
) -> list[dict[str, Any]]:
    rows = []
    for variant in variants:
        row = _names(variant)
        for one in dimensions:
            if scores_of := scores[variant.name, one.name]:
                found = rank_agreement(ratings[one.name], scores_of)
                row |= {one.name: found.coefficient, f"{one.name}_videos": found.n, f"{one.name}_p": found.p}
            else:
                row |= {one.name: None, f"{one.name}_videos": None, f"{one.name}_p": None}
        rows.append(row | _means(dimensions, row))
    return rows


def _alpha_rows(
    dimensions: Sequence[Dimension],
    variants: Sequence[ScoredVariant],
    scores: Mapping[tuple[str, str], Scores],
    ratings: Mapping[str, Sequence[Rating]],
) -> list[dict[str, Any]]:
    scales = {one.name: (math.floor(one.low), math.ceil(one.high)) for one in dimensions}
    people: dict[str, Any] = {"title": PEOPLE, "variant": "", "source": "table 3", "sent": ""}
    for one in dimensions:
        alpha = alpha_of_people(scales[one.name], ratings[one.name])
        people |= {one.name: alpha.alpha, f"{one.name}_ratings": len(ratings[one.name])}
    rows = [people | _means(dimensions, people)]
    for variant in variants:
        row = _names(variant)
        for one in dimensions:
            scores_of = scores[variant.name, one.name]
            if not scores_of or one.name in variant.metrics:
                continue
            used = [rating for rating in ratings[one.name] if rating.video in scores_of]
            within = {video: min(max(score, one.low), one.high) for video, score in scores_of.items()}
            alpha = alpha_with_machine(scales[one.name], used, within)
            row |= {one.name: alpha.alpha, f"{one.name}_ratings": len(used)}
        # a row of baselines alone would be empty
        if any(one.name in row for one in dimensions):
            rows.append(row | _means(dimensions, row))
    return rows
