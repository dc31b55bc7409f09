"""What was played, of what was claimed: time, speed and bytes."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.annotation.desk.playback import (
    MAX_PARTS,
    MAX_SILENCE_S,
    MIN_BYTE_SHARE,
    Intervals,
    Ranges,
    ServedVideo,
    accepted,
    cleaned,
    common,
    covered,
    first_seconds,
    length,
    most_seconds,
    reachable,
    step_s,
    with_range,
    without,
)

SECONDS = 60
ALL: Ranges = ((0, 1 << 40),)
FILM = ServedVideo(float(SECONDS), 6000)

whole = st.integers(0, SECONDS)
#: Intervals at whole seconds, so that a test can count the covered seconds itself.
lists = st.lists(st.tuples(whole, whole).map(lambda pair: (float(min(pair)), float(max(pair)))), max_size=12)


def seconds(intervals: Intervals) -> set[int]:
    return {second for start, end in intervals for second in range(int(start), int(end))}


@settings(max_examples=40)
@given(lists, lists, st.integers(0, 80))
def test_cleaned_common_and_without_are_set_operations(
    one: list[tuple[float, float]], other: list[tuple[float, float]], most: int
) -> None:
    a, b = cleaned(one, SECONDS), cleaned(other, SECONDS)
    assert seconds(a) == {s for start, end in one for s in range(int(start), int(end))}
    assert length(a) == len(seconds(a))
    assert all(end < after for (_, end), (after, _) in pairwise(a)), "apart and in order"
    assert seconds(common(a, b)) == seconds(a) & seconds(b)
    assert seconds(without(a, b)) == seconds(a) - seconds(b)
    assert covered(a, 10, 20) == len(seconds(a) & set(range(10, 20)))
    assert sorted(seconds(a))[:most] == sorted(seconds(first_seconds(a, most)))


def test_rubbish_in_a_claim_counts_for_nothing() -> None:
    claimed = [(math.nan, 5), (3, math.inf), (-math.inf, 2), (9, 4), (7, 7), (-5.0, 1.0), (58.0, 99.0)]
    assert cleaned(claimed, 60.0) == ((0.0, 1.0), (58.0, 60.0))


reports = st.lists(
    st.tuples(st.floats(0, 40), st.lists(st.tuples(st.floats(-5, 70), st.floats(-5, 70)), max_size=5)),
    max_size=12,
)


@settings(max_examples=40)
@given(reports, st.sampled_from([1.0, 1.5, 2.0, 4.0]))
def test_accepted_is_bound_by_time(
    story: list[tuple[float, list[tuple[float, float]]]], speed: float
) -> None:
    seen: Intervals = ()
    elapsed = 0.0
    for passed, claimed in story:
        elapsed += passed
        result = accepted(seen, claimed, FILM, elapsed * speed, ALL)
        assert length(result.seen) <= elapsed * speed + 1e-9
        assert abs(length(without(seen, result.seen))) < 1e-9, "what was seen stays seen"
        fits = cleaned([*seen, *claimed], FILM.seconds)
        assert length(without(result.seen, fits)) < 1e-9, "nothing is seen that nobody claimed"
        cut = result.cut_time_s + result.cut_bytes_s
        assert math.isclose(length(result.seen) + cut, length(fits), abs_tol=1e-6), "all is seen or cut"
        seen = result.seen


@given(st.lists(st.tuples(st.integers(0, 99_999), st.integers(1, 30_000)), max_size=10))
def test_ranges_hold_what_was_sent_and_at_most_a_block_more(spans: list[tuple[int, int]]) -> None:
    sent: Ranges = ()
    for first, count in spans:
        sent = with_range(sent, first, first + count)
    assert all(a < b for a, b in sent)
    assert list(sent) == sorted(sent)
    for first, count in spans:
        assert any(a <= first and first + count <= b for a, b in sent)
    for a, b in sent:
        inside = [(first, first + count) for first, count in spans if a <= first and first + count <= b]
        assert min(first for first, _ in inside) - a < 4096
        assert b - max(end for _, end in inside) < 4096


def test_only_seconds_whose_bytes_were_sent_can_be_played() -> None:
    index = [(0.0, 8192), (10.0, 16384), (20.0, 40960)]
    assert reachable((), index, 81920, 30.0) == ()
    assert reachable(((0, 8192),), index, 81920, 30.0) == (), "the header holds no picture"
    assert reachable(((0, 16384),), index, 81920, 30.0) == ((0.0, 10.0),)
    assert reachable(((16384, 40959),), index, 81920, 30.0) == (), "a byte is missing"
    assert reachable(((0, 16384), (40960, 81920)), index, 81920, 30.0) == ((0.0, 10.0), (20.0, 30.0))
    film = ServedVideo(30.0, 81920, index)
    result = accepted((), [(5.0, 25.0)], film, 200.0, ((0, 16384),))
    assert (result.seen, result.cut_bytes_s, result.cut_time_s) == (((5.0, 10.0),), 15.0, 0.0)


@given(st.lists(st.floats(0, 40), min_size=1, max_size=9), st.floats(0.1, 30))
def test_reachable_is_all_once_all_is_sent_in_any_stored_order(times: list[float], seconds: float) -> None:
    index = [(second, 100 * place) for place, second in enumerate(times)]
    assert reachable(((0, 10_000),), index, 10_000, seconds) == ((0.0, seconds),)


def test_without_an_index_bytes_count_by_their_share() -> None:
    assert most_seconds((), 1000, 60.0) == 0.0
    fair = 100_000 * MIN_BYTE_SHARE
    assert most_seconds(((0, round(fair / 2)),), 100_000, 60.0) == 30.0
    assert most_seconds(((0, 100_000),), 100_000, 60.0) == 60.0
    assert most_seconds(((0, 10),), 0, 60.0) == 0.0, "an empty file holds no second"
    result = accepted((), [(30.0, 60.0)], ServedVideo(60.0, 100_000), 200.0, ((0, 5_000),))
    assert (result.seen, result.cut_bytes_s) == (((30.0, 42.0),), 18.0)


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_a_step_of_the_clock_is_never_negative_and_never_long(before: float, now: float) -> None:
    assert 0.0 <= step_s(before, now) <= MAX_SILENCE_S


def test_crumbs_without_end_are_not_kept() -> None:
    seen = tuple((n / 50, n / 50 + 0.001) for n in range(MAX_PARTS))
    result = accepted(seen, [(50.0, 50.5)], FILM, 1e6, ALL)
    assert (result.seen, result.cut_time_s) == (seen, 0.5)
    assert len(accepted(seen, [(0.0, 20.0)], FILM, 1e6, ALL).seen) == 1, "who plays on is believed"


def test_accepted_takes_later_what_came_too_early() -> None:
    early = accepted((), [(0.0, 10.0)], FILM, 8.0, ALL)
    assert (early.seen, early.cut_time_s) == (((0.0, 8.0),), 2.0)
    assert accepted(early.seen, [(0.0, 10.0)], FILM, 10.0, ALL).seen == ((0.0, 10.0),)
