"""Stretches that an evaluator names against those that are degraded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.statistics.localisation import localise, merged, summarise
from tests.tasks.statistics.making import few

Spans = list[tuple[float, float]]
spans = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 12)).map(lambda span: (float(span[0]), float(sum(span)))),
    max_size=6,
)


def test_an_answer_by_hand() -> None:
    result = localise([(10, 20), (50, 60)], [(12, 22), (30, 40)])
    # 8 s shared of 32 s named by either; 8 of 12 s is more than half: one hit
    assert (result.overlap, result.precision, result.recall) == (pytest.approx(8 / 32), 0.4, 0.4)
    assert (result.hits, result.intervals, result.named) == (1, 2, 2)
    # who names the whole video hits nothing
    result = localise([(0, 1000)], [(100, 110), (500, 510)])
    assert (result.overlap, result.recall, result.hits) == (pytest.approx(0.02), 1, 0)


def test_one_answer_is_one_hit() -> None:
    assert localise([(0, 10)], [(0, 6), (7, 10)], least_overlap=0.3).hits == 1
    assert localise([(0, 6), (7, 10)], [(0, 6), (7, 10)]).hits == 2


def test_nothing_named_and_nothing_there() -> None:
    silent, false_alarm = localise([], [(5, 10)]), localise([(5, 10)], [])
    assert (silent.overlap, silent.precision, silent.recall, silent.hits) == (0, None, 0, 0)
    assert (false_alarm.overlap, false_alarm.precision, false_alarm.recall) == (0, 0, None)
    assert localise([], []).overlap == 1


def test_intervals_that_touch_are_one() -> None:
    assert merged([(5, 8), (1, 3), (3, 4), (6, 7), (9, 9)]) == [(1, 4), (5, 8)]


def test_what_is_not_an_interval_or_overlap() -> None:
    for span in ((3, 2), (0, float("inf")), (float("nan"), 1)):
        with pytest.raises(ValueError, match="an interval from"):
            localise([span], [])
    with pytest.raises(ValueError, match="an overlap of 0"):
        localise([], [], least_overlap=0)


@few
@given(spans, spans)
def test_overlap_is_symmetric_and_bounded(named: Spans, truth: Spans) -> None:
    there, back = localise(named, truth), localise(truth, named)
    assert there.overlap == pytest.approx(back.overlap)
    assert (there.precision, there.recall, there.hits) == (back.recall, back.precision, back.hits)
    assert there.hits <= min(there.named, there.intervals)
    ours, theirs = ({second for a, b in some for second in range(int(a), int(b))} for some in (named, truth))
    share = len(ours & theirs) / len(ours | theirs) if ours | theirs else 1
    assert there.overlap == pytest.approx(share)
    # the truth itself is found whole
    itself = localise(truth, truth)
    assert itself.overlap == pytest.approx(1)
    assert itself.hits == itself.intervals == itself.named


def test_means_leave_out_what_is_undefined() -> None:
    summary = summarise([localise([], [(0, 10)]), localise([(0, 10)], [(0, 10)])])
    assert (summary.answers, summary.overlap, summary.precision, summary.recall) == (2, 0.5, 1, 0.5)
    assert (summary.hits, summary.intervals, summary.named) == (1, 2, 1)
    empty = summarise([])
    assert (empty.answers, empty.overlap, empty.precision, empty.recall) == (0, None, None, None)
