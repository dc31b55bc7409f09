"""How much of a video was really played: intervals, and what a claim is worth. No database here."""

from __future__ import annotations

Intervals = tuple[tuple[float, float], ...]


def covered(intervals: Intervals, start_s: float, end_s: float) -> float:
    """Return how many seconds of ``[start_s, end_s)`` merged intervals cover."""
    return sum(max(0.0, min(end, end_s) - max(start, start_s)) for start, end in intervals)
