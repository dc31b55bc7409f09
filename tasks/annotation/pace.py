"""The pace of votes, and when the last one is expected. No clock: the time is an argument."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

#: After three days, whole days are compared, so that the time of day does not matter.
_DAYS_FROM = timedelta(days=3)
#: Only the newest days count, because workers come and go over the weeks of a campaign.
_MAX_DAYS = 7
#: Before that, the time since the first vote is divided into this many equal stretches …
_STRETCHES = 6
#: … if it is at least this long.
_MIN_SPAN = timedelta(minutes=30)
#: Share of stretches that is winsorised at each end, so that a single burst or pause changes little.
_CUT_SHARE = 0.2
#: Normal quantile of an 80 % interval.
_Z80 = 1.2816


@dataclass(frozen=True)
class VoteCount:
    """Votes in one hour or on one day.

    Parameters
    ----------
    starts
        Start of the hour or day.
    count
        Votes in it.
    """

    starts: datetime
    count: int


@dataclass(frozen=True)
class Pace:
    """Votes per hour, averaged over day and night.

    Parameters
    ----------
    per_hour
        Winsorised mean over the stretches.
    low, high
        An interval of about 80 % around it, from the spread between the stretches; `low` is never below 0.
    stretch_s
        Length of a stretch in seconds.
    stretches
        Number of stretches.
    """

    per_hour: float
    low: float
    high: float
    stretch_s: float
    stretches: int

    @property
    def per_day(self) -> float:
        """Votes in 24 hours."""
        return 24 * self.per_hour


@dataclass(frozen=True)
class ExpectedEnd:
    """When the last vote is expected, UTC.

    Parameters
    ----------
    at
        At the estimated pace.
    early, late
        At the ends of the pace's interval; `late` is None if the low end is 0.
    """

    at: datetime
    early: datetime
    late: datetime | None


def when(text: str) -> datetime | None:
    """Return a vote's time in UTC; None if it has none."""
    if not text:
        return None
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def by_hour(times: Iterable[datetime], now: datetime, hours: int = 48) -> list[VoteCount]:
    """Return the votes of each clock hour, the current one last.

    A time after `now` (the clock was set back) counts in the current hour.
    """
    last = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    counts = Counter(
        min(time, now).astimezone(UTC).replace(minute=0, second=0, microsecond=0) for time in times
    )
    starts = [last - timedelta(hours=back) for back in range(hours - 1, -1, -1)]
    return [VoteCount(start, counts[start]) for start in starts]


def by_day(
    times: Iterable[datetime], now: datetime, days: int = 14, zone: tzinfo | None = None
) -> list[VoteCount]:
    """Return the votes of each day, today last; a time after `now` counts today.

    Parameters
    ----------
    zone
        Time zone of the days; this machine's by default.
    """
    counts = Counter(min(time, now).astimezone(zone).date() for time in times)
    today: date = now.astimezone(zone).date()
    counted = []
    for back in range(days - 1, -1, -1):
        day = today - timedelta(days=back)
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        # without a zone, midnight is this machine's
        counted.append(VoteCount(midnight.astimezone(zone), counts[day]))
    return counted


def pace(times: Iterable[datetime], now: datetime) -> Pace | None:
    """Return the pace of votes.

    From three days after the first vote on, the newest whole days (24 hours back from now, at most seven) are
    compared; before that, six equal stretches of the time since the first vote. The pace is their winsorised
    mean: the largest and smallest fifth, at least one each, are replaced by the next value.

    Returns
    -------
    Pace or None
        None if there is no vote, or the first one is less than half an hour old.
    """
    sorted_times = sorted(min(time, now) for time in times)
    if not sorted_times or now - sorted_times[0] < _MIN_SPAN:
        return None
    span = now - sorted_times[0]
    if span >= _DAYS_FROM:
        stretches, length = min(_MAX_DAYS, span // timedelta(days=1)), timedelta(days=1)
    else:
        stretches, length = _STRETCHES, span / _STRETCHES
    counts = [0] * stretches
    for time in sorted_times:
        if (now - time) <= stretches * length:
            # the oldest vote may be exactly at the end of the last stretch
            counts[min(int((now - time) / length), stretches - 1)] += 1
    hours = length / timedelta(hours=1)
    mean = _winsorised_mean(counts) / hours
    plain = sum(counts) / stretches
    spread = math.sqrt(sum((count - plain) ** 2 for count in counts) / (stretches - 1)) / hours
    half = _Z80 * spread / math.sqrt(stretches)
    return Pace(mean, max(0.0, mean - half), mean + half, length.total_seconds(), stretches)


def _winsorised_mean(counts: Sequence[int]) -> float:
    cut = max(1, int(_CUT_SHARE * len(counts)))
    middle = sorted(counts)[cut:-cut]
    return (sum(middle) + cut * (middle[0] + middle[-1])) / len(counts)


def estimated_end(remaining: float, pace: Pace | None, now: datetime) -> ExpectedEnd | None:
    """Return when `remaining` more votes are expected.

    Returns
    -------
    ExpectedEnd or None
        None if there is no pace, it is 0, or the end is beyond the calendar.
    """
    if pace is None or pace.per_hour <= 0:
        return None
    at = _after(now, remaining / pace.per_hour)
    early = _after(now, remaining / pace.high)
    if at is None or early is None:
        return None
    return ExpectedEnd(at, early, _after(now, remaining / pace.low) if pace.low > 0 else None)


def _after(now: datetime, hours: float) -> datetime | None:
    try:
        return now + timedelta(hours=hours)
    except OverflowError:
        return None
