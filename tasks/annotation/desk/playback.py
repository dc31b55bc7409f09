"""How much of a video was actually played: intervals, and the rules for accepting a page's report.

A page reports what it played. A report is accepted as far as it is possible, given the time since the task
was opened, the reported speed, and the bytes that were sent. No database here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tasks.pairs.intervals import merged

#: Half-open ``[start, end)`` in seconds of one video, in order, without overlap.
Intervals = tuple[tuple[float, float], ...]
#: Half-open ``[first, end)`` in bytes of one file, in order, without overlap.
Ranges = tuple[tuple[int, int], ...]

#: Longer silence of the page does not count as viewing time: the tab was asleep, or a clock jumped.
MAX_SILENCE_S = 600.0
#: If it is unknown which bytes contain which second, this share of the proportional bytes must be sent: a
#: still image takes a small part of the average.
MIN_BYTE_SHARE = 0.25
#: Ranges are rounded to this many bytes, so that lists of them stay short.
_BLOCK = 4096
#: Maximum number of stored intervals per video; watching never produces that many.
MAX_PARTS = 1000


def length(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the total length of intervals."""
    return sum(end - start for start, end in intervals)


def covered(intervals: Intervals, start_s: float, end_s: float) -> float:
    """Return the seconds of ``[start_s, end_s)`` that intervals without overlap cover."""
    return sum(max(0.0, min(end, end_s) - max(start, start_s)) for start, end in intervals)


def common(one: Intervals, other: Intervals) -> Intervals:
    """Return the intersection of two lists of intervals without overlap."""
    parts = [(max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) < min(b, d)]
    return merged(parts)


def without(intervals: Intervals, seen: Intervals) -> Intervals:
    """Return the parts of intervals that are not in `seen`; both in order, without overlap."""
    left: list[tuple[float, float]] = []
    for start, end in intervals:
        at = start
        for gone_from, gone_to in seen:
            if gone_to <= at:
                continue
            if gone_from >= end:
                break
            if gone_from > at:
                left.append((at, gone_from))
            at = gone_to
        if at < end:
            left.append((at, end))
    return tuple(left)


def cleaned(claimed: Iterable[tuple[float, float]], seconds: float) -> Intervals:
    """Return valid intervals from claimed ones: finite, in order, inside the video, merged."""
    inside = [
        (max(float(start), 0.0), min(float(end), seconds))
        for start, end in claimed
        if math.isfinite(start) and math.isfinite(end)
    ]
    return merged([(start, end) for start, end in inside if start < end])


def first_seconds(intervals: Intervals, most_s: float) -> Intervals:
    """Return the beginning of intervals, at most `most_s` seconds in total."""
    left, parts = most_s, []
    for start, end in intervals:
        if left <= 0:
            break
        parts.append((start, min(end, start + left)))
        left -= end - start
    return tuple((start, end) for start, end in parts if start < end)


def step_s(before_s: float, now_s: float) -> float:
    """Return the maximum viewing time between two moments, whatever the clock did."""
    return min(max(now_s - before_s, 0.0), MAX_SILENCE_S)


def with_range(sent: Ranges, first: int, end: int) -> Ranges:
    """Return the ranges of bytes that were sent, with one added; rounded outwards to blocks of 4 KiB."""
    span = (first // _BLOCK * _BLOCK, -(-end // _BLOCK) * _BLOCK)
    together = merged([*((float(a), float(b)) for a, b in sent), (float(span[0]), float(span[1]))])
    return tuple((int(a), int(b)) for a, b in together)


def _sent_bytes(sent: Ranges, first: int, end: int) -> int:
    return sum(max(0, min(b, end) - max(a, first)) for a, b in sent)


def reachable(sent: Ranges, index: Sequence[tuple[float, int]], size: int, seconds: float) -> Intervals:
    """Return the seconds of a video that can have been played with the bytes that were sent.

    Parameters
    ----------
    index
        Rows of (second, byte) in the order of the file: the media from a row's second to the next row's is
        in the bytes from the row's to the next row's. The first row counts from 0, the last to the end. A row
        that is not later than those before it requires nothing, since frames are not always stored in
        display order.
    """
    begins = list(accumulate((min(second, seconds) for second, _byte in index[1:]), max, initial=0.0))
    ends = [*begins[1:], seconds]
    last_bytes = [*(byte for _second, byte in index[1:]), size]
    played = [
        (start_s, end_s)
        for start_s, end_s, (_second, first), end in zip(begins, ends, index, last_bytes, strict=True)
        if start_s < end_s and _sent_bytes(sent, first, end) >= end - first
    ]
    return merged(played)


def most_seconds(sent: Ranges, size: int, seconds: float) -> float:
    """Return the seconds that can have been played, if it is unknown which bytes contain which second."""
    if size <= 0:
        return 0.0
    return seconds * min(1.0, _sent_bytes(sent, 0, size) / (size * MIN_BYTE_SHARE))


@dataclass(frozen=True)
class ServedVideo:
    """One video as the server knows it: duration, size, and byte index, if known."""

    seconds: float
    size: int
    index: Sequence[tuple[float, int]] = ()


@dataclass(frozen=True)
class AcceptedPlayback:
    """What a claim resulted in: everything seen so far, and the seconds cut for lack of time and of bytes."""

    seen: Intervals
    cut_time_s: float
    cut_bytes_s: float


def accepted(
    seen: Intervals,
    claimed: Iterable[tuple[float, float]],
    film: ServedVideo,
    playable_s: float,
    sent: Ranges,
) -> AcceptedPlayback:
    """Return what counts as seen of a video after a claim.

    At most `playable_s` seconds count, and nothing that was not sent. What is cut may be
    claimed again later.

    Parameters
    ----------
    seen
        What was seen before.
    claimed
        Intervals that the page reports; they may repeat earlier ones, and may be invalid.
    playable_s
        Seconds of the video that can have been played since the task was opened: time, times speed.
    """
    new = without(cleaned(claimed, film.seconds), seen)
    new_s = length(new)
    if film.index:
        new = common(new, reachable(sent, film.index, film.size, film.seconds))
    else:
        new = first_seconds(new, most_seconds(sent, film.size, film.seconds) - length(seen))
    possible_s = length(new)
    new = first_seconds(new, playable_s - length(seen))
    together = merged([*seen, *new])
    if len(together) > MAX_PARTS:
        return AcceptedPlayback(seen, new_s, 0.0)
    return AcceptedPlayback(together, possible_s - length(new), new_s - possible_s)
