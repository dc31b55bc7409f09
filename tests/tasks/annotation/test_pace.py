"""How fast votes come, and when the last one will have come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.annotation.pace import Pace, by_day, by_hour, estimated_end, pace, when

NOW = datetime(2026, 3, 6, 12, 30, tzinfo=UTC)
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)


def every(minutes: float, hours: float) -> list[datetime]:
    return [NOW - minutes * MINUTE * step for step in range(1, int(hours * 60 / minutes) + 1)]


def paced(times: list[datetime], now: datetime = NOW) -> Pace:
    estimate = pace(times, now)
    assert estimate is not None
    return estimate


def test_an_even_pace_is_found_whatever_the_length() -> None:
    for hours in (2, 30, 100, 400):
        estimate = paced(every(10, hours))
        assert estimate.per_hour == pytest.approx(6, rel=0.1), hours
        assert estimate.low <= estimate.per_hour <= estimate.high
    assert estimate.per_day == pytest.approx(144, rel=0.01)
    assert (estimate.stretches, estimate.stretch_s) == (7, 86400)


def test_one_burst_changes_the_pace_little() -> None:
    even = every(10, 6 * 24)
    burst = paced([*even, *(NOW - timedelta(hours=50, seconds=second) for second in range(5000))])
    assert burst.per_hour == pytest.approx(paced(even).per_hour, rel=0.05)
    assert burst.high > 2 * paced(even).high, "but the interval tells that the days differ"


def test_days_count_alike_however_early_one_looks() -> None:
    # people work from 9 to 17: the pace of whole days does not depend on the hour of the query
    start = datetime(2026, 3, 1, 9, tzinfo=UTC)
    work = [start + day * DAY + 10 * step * MINUTE for day in range(11) for step in range(48)]
    for hour in (1, 9, 13, 20):
        now = datetime(2026, 3, 8, hour, tzinfo=UTC)
        assert paced([time for time in work if time <= now], now).per_day == pytest.approx(48)


def test_there_is_not_a_pace_at_once_and_none_without_votes() -> None:
    assert pace([], NOW) is pace([NOW - 29 * MINUTE] * 50, NOW) is None
    assert pace([NOW - 30 * MINUTE], NOW) is not None


def test_the_end_lies_between_early_and_late() -> None:
    estimate = paced(every(10, 60) + every(45, 20))
    end, over = estimated_end(700, estimate, NOW), estimated_end(0, estimate, NOW)
    assert end is not None and end.late is not None and over is not None
    assert end.early < end.at < end.late
    assert (end.at - NOW) / HOUR == pytest.approx(700 / estimate.per_hour)
    assert over.at == NOW
    # it may be open
    one_day = [NOW - day * DAY - HOUR for day in (3, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0)]
    end = estimated_end(100, paced(one_day), NOW)
    assert end is not None and end.late is None


def test_where_nothing_comes_no_end_is_made_up() -> None:
    stopped = paced([time - 9 * DAY for time in every(10, 48)])
    assert stopped.per_hour == 0
    assert estimated_end(10, stopped, NOW) is estimated_end(10, None, NOW) is None
    slow = paced([NOW - day * DAY - HOUR for day in range(6)])
    assert slow.per_hour > 0
    assert estimated_end(1e12, slow, NOW) is None, "beyond the calendar"


def test_hours_and_days_are_those_of_the_clock() -> None:
    times = [NOW, NOW - 31 * MINUTE, NOW - 29 * MINUTE, NOW - 30 * DAY]
    hours = by_hour(times, NOW, hours=3)
    assert [bar.count for bar in hours] == [0, 1, 2]
    assert hours[-1].starts == datetime(2026, 3, 6, 12, tzinfo=UTC)
    days = by_day(times, NOW, days=2, zone=UTC)
    assert [(bar.starts.day, bar.count) for bar in days] == [(5, 0), (6, 3)]
    tokyo = timezone(timedelta(hours=9))
    late = datetime(2026, 3, 6, 15, 30, tzinfo=UTC)
    assert [(bar.starts.day, bar.count) for bar in by_day(times[:3], late, 2, tokyo)] == [(6, 3), (7, 0)]
    # of this machine where no zone is given
    (bar,) = by_day([NOW], NOW, days=1)
    assert bar.starts.utcoffset() is not None
    assert (bar.count, bar.starts.date(), bar.starts.hour) == (1, NOW.astimezone().date(), 0)


def test_a_clock_that_was_set_back_harms_nothing() -> None:
    ahead = [NOW + 3 * HOUR] * 4
    assert by_hour(ahead, NOW, hours=2)[-1].count == by_day(ahead, NOW, days=2, zone=UTC)[-1].count == 4
    assert pace(ahead, NOW) is None


def test_times_of_votes() -> None:
    assert when("") is None
    # without a zone it is UTC
    for text in ("2026-03-06T12:30:00+00:00", "2026-03-06T21:30:00+09:00", "2026-03-06T12:30:00"):
        assert when(text) == NOW
    with pytest.raises(ValueError):
        when("yesterday")


@given(st.lists(st.integers(min_value=-600, max_value=60 * 24 * 20), max_size=60))
def test_the_pace_is_always_valid(minutes: list[int]) -> None:
    times = [NOW - minute * MINUTE for minute in minutes]
    estimate = pace(times, NOW)
    if estimate is not None:
        assert 0 <= estimate.low <= estimate.per_hour <= estimate.high
        stretch = timedelta(seconds=estimate.stretch_s)
        busiest = max(sum(abs(other - time) <= stretch for other in times) for time in times)
        assert estimate.per_hour <= busiest / (estimate.stretch_s / 3600) + 1e-9
        assert sum(bar.count for bar in by_hour(times, NOW, hours=24 * 21)) == len(times)
