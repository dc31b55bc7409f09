"""Ratings that take no part in an agreement, and why: a line cannot be used, or its video has no score."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from storage_schemas.suite_score import SuiteScore
from tasks.evaluators.meta_sets.base import LeftOut
from tasks.publish.report.table import Column, Table
from tasks.suites.alignment.ratings import Rating, VideoKey

#: The video has no score in the dimension in which it is rated.
NO_SCORE = "no_score"
_SHOWN = 3


def without_score(ratings: Iterable[Rating], scores: Iterable[SuiteScore]) -> dict[str, list[LeftOut]]:
    """Return by dimension the rated videos that have no score there, with the reason where it failed.

    Parameters
    ----------
    scores
        The suite's rows with the settings that count, also those that failed.
    """
    scored: set[tuple[VideoKey, str]] = set()
    failed: dict[tuple[VideoKey, str], str] = {}
    for row in scores:
        id_ = VideoKey(model=row.model, prompt_id=row.prompt_id, sample=row.sample), row.dimension
        if row.score is not None:
            scored.add(id_)
        elif row.failure is not None:
            failed[id_] = f"it failed with {row.failure.value}: {row.message}"
    counts: dict[tuple[VideoKey, str], int] = defaultdict(int)
    for rating in ratings:
        if (rating.video, rating.dimension) not in scored:
            counts[rating.video, rating.dimension] += 1
    found: dict[str, list[LeftOut]] = defaultdict(list)
    for (video, dimension), count in counts.items():
        why = failed.get((video, dimension), "it was not scored with these settings")
        message = f"{count} rating{'s' if count > 1 else ''} of a video without a score: {why}"
        found[dimension].append(LeftOut(f"{video} in {dimension}", NO_SCORE, message))
    return dict(found)


def in_words(dimension: str, left_out: Sequence[LeftOut]) -> str:
    """Return in a line which rated videos of a dimension have no score."""
    names = [one.where.removesuffix(f" in {dimension}") for one in left_out]
    some = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f"{dimension}: {len(names)} rated video{'s' if len(names) > 1 else ''} without a score: {some}"


def left_out_table(left_out: Iterable[LeftOut]) -> Table:
    """Return every rating that was left out, with its reason."""
    rows = tuple({"where": one.where, "reason": one.reason, "message": one.message} for one in left_out)
    return Table(
        "alignment-left-out",
        "Ratings that were left out",
        (Column("where", "where"), Column("reason", "reason"), Column("message", "what is wrong")),
        rows,
        "",
        "" if rows else "Every rating was used.",
    )
