from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.statistics.localisation import localise, merged, summarise
from tests.tasks.statistics.making import few

spans = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 12)).map(lambda span: (float(span[0]), float(sum(span)))),
    max_size=6,
)


def test_an_answer_by_hand() -> None:
    result = localise([(10, 20), (50, 60)], [(12, 22), (30, 40)])
    # 8 s shared of 32 s named by either
    assert result.overlap == pytest.approx(8 / 32)
    assert (result.precision, result.recall) == (0.4, 0.4)
    # 8 of 12 s is more than half: one hit
    assert (result.hits, result.intervals, result.named) == (1, 2, 2)


def test_naming_the_whole_video_hits_nothing() -> None:
    result = localise([(0, 1000)], [(100, 110), (500, 510)])
    assert (result.recall, result.hits) == (1, 0)
    assert result.overlap == pytest.approx(0.02)


def test_one_answer_is_one_hit() -> None:
    result = localise([(0, 10)], [(0, 6), (7, 10)], least_overlap=0.3)
    assert result.hits == 1
    assert localise([(0, 6), (7, 10)], [(0, 6), (7, 10)]).hits == 2


def test_nothing_named_and_nothing_there() -> None:
    silent = localise([], [(5, 10)])
    assert (silent.overlap, silent.precision, silent.recall, silent.hits) == (0, None, 0, 0)
    false_alarm = localise([(5, 10)], [])
    assert (false_alarm.overlap, false_alarm.precision, false_alarm.recall) == (0, 0, None)
    assert localise([], []).overlap == 1


def test_intervals_that_touch_are_one() -> None:
    assert merged([(5, 8), (1, 3), (3, 4), (6, 7), (9, 9)]) == [(1, 4), (5, 8)]


@pytest.mark.parametrize("span", [(3, 2), (0, float("inf")), (float("nan"), 1)])
def test_what_is_no_interval(span: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="an interval from"):
        localise([span], [])


def test_the_wanted_overlap_has_limits() -> None:
    with pytest.raises(ValueError, match="an overlap of 0"):
        localise([], [], least_overlap=0)


@few
@given(spans, spans)
def test_overlap_is_symmetric_and_bounded(
    named: list[tuple[float, float]], truth: list[tuple[float, float]]
) -> None:
    there, back = localise(named, truth), localise(truth, named)
    assert there.overlap == pytest.approx(back.overlap)
    assert (there.precision, there.recall, there.hits) == (back.recall, back.precision, back.hits)
    assert 0 <= there.overlap <= 1
    assert there.hits <= min(there.named, there.intervals)
    seconds = [
        {second for low, high in spans for second in range(int(low), int(high))} for spans in (named, truth)
    ]
    union = seconds[0] | seconds[1]
    assert there.overlap == pytest.approx(len(seconds[0] & seconds[1]) / len(union) if union else 1)


@few
@given(spans)
def test_the_truth_itself_is_found_whole(truth: list[tuple[float, float]]) -> None:
    result = localise(truth, truth)
    assert result.overlap == pytest.approx(1)
    assert result.hits == result.intervals == result.named


def test_means_leave_out_what_is_undefined() -> None:
    summary = summarise([localise([], [(0, 10)]), localise([(0, 10)], [(0, 10)])])
    assert (summary.answers, summary.overlap, summary.precision, summary.recall) == (2, 0.5, 1, 0.5)
    assert (summary.hits, summary.intervals, summary.named) == (1, 2, 1)
    empty = summarise([])
    assert empty.answers == 0
    assert empty.overlap is empty.precision is empty.recall is None
