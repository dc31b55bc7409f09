from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.annotation.pace import by_day, by_hour, estimated_end, pace, when

NOW = datetime(2026, 3, 6, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def every(minutes: float, hours: float) -> list[datetime]:
    return [NOW - timedelta(minutes=minutes * step) for step in range(1, int(hours * 60 / minutes) + 1)]


def test_an_even_pace_is_found_whatever_the_length() -> None:
    for hours in (2, 30, 100, 400):
        estimate = pace(every(10, hours), NOW)
        assert estimate is not None
        assert estimate.per_hour == pytest.approx(6, rel=0.1), hours
        assert estimate.low <= estimate.per_hour <= estimate.high
    assert estimate is not None
    assert estimate.per_day == pytest.approx(144, rel=0.01)
    assert (estimate.stretches, estimate.stretch_s) == (7, 86400)


def test_one_burst_changes_the_pace_little() -> None:
    even = every(10, 6 * 24)
    burst = even + [NOW - timedelta(hours=50, seconds=second) for second in range(5000)]
    estimate, without = pace(burst, NOW), pace(even, NOW)
    assert estimate is not None
    assert without is not None
    assert estimate.per_hour == pytest.approx(without.per_hour, rel=0.05)
    assert estimate.high > 2 * without.high, "but the interval tells that the days differ"


def test_days_count_alike_however_early_one_looks() -> None:
    # people work from 9 to 17: the pace of whole days does not depend on the hour of the query
    work = [
        datetime(2026, 3, day, hour, minute, tzinfo=UTC)
        for day in range(1, 12)
        for hour in range(9, 17)
        for minute in range(0, 60, 10)
    ]
    for hour in (1, 9, 13, 20):
        now = datetime(2026, 3, 8, hour, tzinfo=UTC)
        estimate = pace([time for time in work if time <= now], now)
        assert estimate is not None
        assert estimate.per_day == pytest.approx(48)


def test_there_is_no_pace_at_once_and_none_without_votes() -> None:
    assert pace([], NOW) is None
    assert pace([NOW - timedelta(minutes=29)] * 50, NOW) is None
    assert pace([NOW - timedelta(minutes=30)], NOW) is not None


def test_the_end_lies_between_early_and_late() -> None:
    estimate = pace(every(10, 60) + every(45, 20), NOW)
    end = estimated_end(700, estimate, NOW)
    assert estimate is not None
    assert end is not None
    assert end.late is not None
    assert end.early < end.at < end.late
    assert (end.at - NOW) / HOUR == pytest.approx(700 / estimate.per_hour)
    assert estimated_end(0, estimate, NOW).at == NOW  # type: ignore[union-attr]


def test_where_nothing_comes_no_end_is_made_up() -> None:
    stopped = [time - timedelta(days=9) for time in every(10, 48)]
    estimate = pace(stopped, NOW)
    assert estimate is not None
    assert estimate.per_hour == 0
    assert estimated_end(10, estimate, NOW) is None
    assert estimated_end(10, None, NOW) is None
    slow = pace([NOW - timedelta(days=day, hours=1) for day in range(6)], NOW)
    assert slow is not None
    assert slow.per_hour > 0
    assert estimated_end(1e12, slow, NOW) is None, "beyond the calendar"


def test_an_end_may_be_open() -> None:
    one_day = [NOW - timedelta(days=day, hours=1) for day in (3, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0)]
    end = estimated_end(100, pace(one_day, NOW), NOW)
    assert end is not None
    assert end.late is None


def test_hours_and_days_are_those_of_the_clock() -> None:
    times = [NOW, NOW - timedelta(minutes=31), NOW - timedelta(minutes=29), NOW - timedelta(days=30)]
    hours = by_hour(times, NOW, hours=3)
    assert [bar.count for bar in hours] == [0, 1, 2]
    assert hours[-1].starts == datetime(2026, 3, 6, 12, tzinfo=UTC)
    days = by_day(times, NOW, days=2, zone=UTC)
    assert [(bar.starts.day, bar.count) for bar in days] == [(5, 0), (6, 3)]
    tokyo = timezone(timedelta(hours=9))
    late = datetime(2026, 3, 6, 15, 30, tzinfo=UTC)
    assert [(bar.starts.day, bar.count) for bar in by_day(times[:3], late, 2, tokyo)] == [(6, 3), (7, 0)]


def test_days_are_of_this_machine_where_no_zone_is_given() -> None:
    (bar,) = by_day([NOW], NOW, days=1)
    local = NOW.astimezone()
    assert bar.count == 1
    assert bar.starts.utcoffset() is not None
    assert (bar.starts.date(), bar.starts.hour) == (local.date(), 0)


def test_a_clock_that_was_set_back_harms_nothing() -> None:
    ahead = [NOW + timedelta(hours=3)] * 4
    assert by_hour(ahead, NOW, hours=2)[-1].count == 4
    assert by_day(ahead, NOW, days=2, zone=UTC)[-1].count == 4
    assert pace(ahead, NOW) is None


def test_times_of_votes() -> None:
    assert when("") is None
    assert when("2026-03-06T12:30:00+00:00") == NOW
    assert when("2026-03-06T21:30:00+09:00") == NOW
    assert when("2026-03-06T12:30:00") == NOW, "without a zone it is UTC"
    with pytest.raises(ValueError):
        when("yesterday")


@given(st.lists(st.integers(min_value=-600, max_value=60 * 24 * 20), max_size=60))
def test_whatever_comes_the_pace_is_no_nonsense(minutes: list[int]) -> None:
    times = [NOW - timedelta(minutes=minute) for minute in minutes]
    estimate = pace(times, NOW)
    if estimate is None:
        return
    assert 0 <= estimate.low <= estimate.per_hour <= estimate.high
    busiest = max(
        sum(1 for other in times if abs(other - time) <= timedelta(seconds=estimate.stretch_s))
        for time in times
    )
    assert estimate.per_hour <= busiest / (estimate.stretch_s / 3600) + 1e-9
    assert sum(bar.count for bar in by_hour(times, NOW, hours=24 * 21)) == len(times)
