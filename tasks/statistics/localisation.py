"""Accuracy with which an evaluator locates the degradation, in seconds of the low-quality video."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from storage_schemas.pair import Interval

#: Minimum intersection over union for two intervals to count as the same place.
MIN_OVERLAP = 0.5


@dataclass(frozen=True, slots=True)
class Localisation:
    """Comparison of one answer with the degraded intervals.

    Parameters
    ----------
    overlap
        Seconds that both name over seconds that either names (intersection over union); 1 where there is
        no damage and none is named.
    precision
        Share of the named seconds that are degraded; None where none are named.
    recall
        Share of the degraded seconds that are named; None where there are none.
    intervals, named
        Degraded intervals, and named ones, each after merging those that touch.
    hits
        Degraded intervals that were found: named and degraded intervals are matched one to one, for the
        greatest overlap together, and a match counts from the wanted overlap on.
    """

    overlap: float
    precision: float | None
    recall: float | None
    intervals: int
    named: int
    hits: int


@dataclass(frozen=True, slots=True)
class LocalisationSummary:
    """Means over answers; a mean is None where no answer has the number."""

    answers: int
    overlap: float | None
    precision: float | None
    recall: float | None
    hits: int
    intervals: int
    named: int


def localise(
    named: Iterable[Interval], truth: Iterable[Interval], least_overlap: float = MIN_OVERLAP
) -> Localisation:
    """Return how well named intervals fit the degraded ones.

    Parameters
    ----------
    named, truth
        ``[start, end)`` in seconds, in any order; they may overlap.
    least_overlap
        Overlap from which a named interval is a hit.

    Raises
    ------
    ValueError
        If an interval ends before it starts or is not finite, or `least_overlap` is not above 0 up to 1.
    """
    if not 0 < least_overlap <= 1:
        raise ValueError(f"an overlap of {least_overlap}: it lies above 0, up to 1")
    ours, theirs = merged(named), merged(truth)
    shared = sum(_shared(one, other) for one in ours for other in theirs)
    named_s, degraded_s = _length(ours), _length(theirs)
    union = named_s + degraded_s - shared
    return Localisation(
        overlap=min(1.0, shared / union) if union else 1.0,
        precision=min(1.0, shared / named_s) if named_s else None,
        recall=min(1.0, shared / degraded_s) if degraded_s else None,
        intervals=len(theirs),
        named=len(ours),
        hits=_hits(ours, theirs, least_overlap),
    )


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return intervals in order of time, those that overlap or touch made one, empty ones left out.

    Raises
    ------
    ValueError
        If an interval ends before it starts or is not finite.
    """
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if not -np.inf < start <= end < np.inf:
            raise ValueError(f"an interval from {start} to {end} s")
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        elif start < end:
            result.append((start, end))
    return result


def summarise(answers: Sequence[Localisation]) -> LocalisationSummary:
    """Return means over answers, every answer counting the same, and sums of intervals."""

    def mean(values: Iterable[float | None]) -> float | None:
        numbers = [value for value in values if value is not None]
        return sum(numbers) / len(numbers) if numbers else None

    return LocalisationSummary(
        answers=len(answers),
        overlap=mean(answer.overlap for answer in answers),
        precision=mean(answer.precision for answer in answers),
        recall=mean(answer.recall for answer in answers),
        hits=sum(answer.hits for answer in answers),
        intervals=sum(answer.intervals for answer in answers),
        named=sum(answer.named for answer in answers),
    )


def _shared(one: Interval, other: Interval) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _length(intervals: list[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def _hits(named: list[Interval], truth: list[Interval], least: float) -> int:
    overlaps = np.zeros((len(named), len(truth)))
    for row, one in enumerate(named):
        for column, other in enumerate(truth):
            shared = _shared(one, other)
            overlaps[row, column] = shared / (one[1] - one[0] + other[1] - other[0] - shared)
    # what is under the wanted overlap must not draw an interval away from its hit
    overlaps[overlaps < least] = 0
    matched = overlaps[linear_sum_assignment(overlaps, maximize=True)]
    return int((matched > 0).sum())
