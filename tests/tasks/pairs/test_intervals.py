from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.pair import Segment
from tasks.aspects.base import ClipSpan
from tasks.pairs.intervals import degraded_intervals, merged, reordered, replaced, units


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[ClipSpan], int]:
    """Clips in order, some without frames, with gaps around them, and the number of frames."""
    spans: list[ClipSpan] = []
    at = 0
    for index in range(draw(st.integers(0, 8))):
        at += draw(st.integers(0, 3))
        count = draw(st.integers(0, 5))
        spans.append(ClipSpan(index, at, count))
        at += count
    return spans, at + draw(st.integers(0, 3))


def frames(segments: Sequence[Segment]) -> list[int]:
    return [frame for s in segments for frame in range(s.first_frame, s.first_frame + s.frame_count)]


@given(layouts())
def test_units_hold_every_frame_exactly_once_in_order(layout: tuple[list[ClipSpan], int]) -> None:
    spans, count = layout
    outcome = units(spans, count)
    assert frames(outcome) == list(range(count))
    assert [u.clip for u in outcome if u.kind == "source"] == [s.index for s in spans if s.frame_count]
    assert all(unit.frame_count > 0 for unit in outcome)
    assert all((unit.clip is None) == (unit.kind == "gap") for unit in outcome)


@given(layouts(), st.data())
def test_reordering_conserves_frames_and_leaves_gaps_where_they_are(
    layout: tuple[list[ClipSpan], int], data: st.DataObject
) -> None:
    outcome = units(*layout)
    clips = [unit.clip for unit in outcome if unit.clip is not None]
    order = data.draw(st.permutations(clips))
    drawn = data.draw(st.sets(st.sampled_from(clips))) if clips else set()
    result = reordered(outcome, order, sorted(drawn))
    assert sorted(frames(result)) == frames(outcome)
    assert [s.clip for s in result if s.clip is not None] == order
    assert [s.kind for s in result] == [u.kind for u in outcome]
    assert [s for s in result if s.kind == "gap"] == [u for u in outcome if u.kind == "gap"]
    assert {s.clip for s in result if s.moved} == drawn


@given(layouts(), st.data())
def test_removing_takes_exactly_the_frames_of_the_removed_clips(
    layout: tuple[list[ClipSpan], int], data: st.DataObject
) -> None:
    outcome = units(*layout)
    clips = [unit.clip for unit in outcome if unit.clip is not None]
    gone = data.draw(st.sets(st.sampled_from(clips), min_size=1)) if clips else set()
    result = reordered(outcome, [clip for clip in clips if clip not in gone], sorted(gone))
    assert frames(result) == [f for u in outcome if u.clip not in gone for f in frames([u])]
    high, low = degraded_intervals(outcome, result, sorted(gone), 1.0)
    marked = {second for start, end in high for second in range(int(start), int(end))}
    assert marked == {f for u in outcome if u.clip in gone for f in frames([u])}
    assert all(0 <= start < end <= len(frames(result)) for start, end in low)


@given(layouts(), st.data())
def test_replacing_in_place_conserves_frames(layout: tuple[list[ClipSpan], int], data: st.DataObject) -> None:
    outcome = units(*layout)
    clips = [unit.clip for unit in outcome if unit.clip is not None]
    chosen = data.draw(st.sets(st.sampled_from(clips))) if clips else set()
    changed = {u.clip: u.model_copy(update={"kind": "degraded"}) for u in outcome if u.clip in chosen}
    result = replaced(outcome, {clip: s for clip, s in changed.items() if clip is not None})
    assert frames(result) == frames(outcome)
    assert {s.clip for s in result if s.kind == "degraded"} == chosen
    high, low = degraded_intervals(outcome, result, sorted(chosen), 1.0)
    assert high == low


# a gap of 2, clips A 2–6, B 6–9, a gap of 3, clips C 12–14, D 14–20, and a gap of 1
SPANS = [ClipSpan(0, 2, 4), ClipSpan(1, 6, 3), ClipSpan(2, 12, 2), ClipSpan(3, 14, 6)]
UNITS = units(SPANS, 21)


def removed(*gone: int, fps: float = 1.0) -> tuple[object, object]:
    order = [span.index for span in SPANS if span.index not in gone]
    return degraded_intervals(UNITS, reordered(UNITS, order, gone), gone, fps)


@pytest.mark.parametrize(
    ("gone", "high", "low"),
    [
        # in the middle: low is 0–2 gap, 2–6 A, 6–9 gap, 9–11 C, …; the join is where B was
        ((1,), ((6, 9),), ((4, 8),)),
        # the first clip: the join is at the end of the gap before it, and starts no earlier than the video
        ((0,), ((2, 6),), ((0, 4),)),
        # the last clip: 15 frames are left, the join is at 14
        ((3,), ((14, 20),), ((12, 15),)),
        # neighbours without a gap between them: one interval, one join
        ((0, 1), ((2, 9),), ((0, 4),)),
        ((2, 3), ((12, 20),), ((10, 13),)),
        # with a gap of 3 s between them, the joins' margins touch: 2–6 A, join 6, gap 6–9, join 9
        ((1, 2), ((6, 9), (12, 14)), ((4, 11),)),
        # far apart: join of A at 2; low is 0–2 gap, 2–5 B, 5–8 gap, 8–10 C, join of D at 10, 10–11 gap
        ((0, 3), ((2, 6), (14, 20)), ((0, 4), (8, 11))),
    ],
)
def test_removed_clips_by_hand(
    gone: tuple[int, ...], high: tuple[tuple[int, int], ...], low: tuple[tuple[int, int], ...]
) -> None:
    assert removed(*gone) == (high, low)


def test_the_very_first_and_last_frames_may_go() -> None:
    spans = [ClipSpan(0, 0, 3), ClipSpan(1, 3, 10), ClipSpan(2, 13, 2)]
    whole = units(spans, 15)
    high, low = degraded_intervals(whole, reordered(whole, [1], [0, 2]), [0, 2], 1.0)
    assert high == ((0, 3), (13, 15))
    assert low == ((0, 2), (8, 10))


def test_a_video_shorter_than_the_margin_is_all_join() -> None:
    spans = [ClipSpan(0, 0, 1), ClipSpan(1, 1, 1)]
    whole = units(spans, 2)
    assert degraded_intervals(whole, reordered(whole, [0], [1]), [1], 1.0) == (((1, 2),), ((0, 1),))


def test_seconds_follow_the_rate_and_the_margin_does_not() -> None:
    # at two frames a second B is 3.0–4.5 s, and its join at 3.0 s
    assert removed(1, fps=2.0) == (((3.0, 4.5),), ((1.0, 5.0),))


def test_degraded_clips_by_hand() -> None:
    changed = {n: UNITS[n + 1].model_copy(update={"kind": "degraded"}) for n in (0, 1)}
    high, low = degraded_intervals(UNITS, replaced(UNITS, changed), [1, 0], 1.0)
    assert high == low == ((2, 9),)


def test_moved_clips_by_hand() -> None:
    # A and B are drawn; the four places between the gaps become C B D A, so A comes last
    result = reordered(UNITS, [2, 1, 3, 0], [0, 1])
    assert [(s.clip, s.moved) for s in result] == [
        (None, False),
        (2, False),
        (1, True),
        (None, False),
        (3, False),
        (0, True),
        (None, False),
    ]
    # 0–2 gap, 2–4 C, 4–7 B, 7–10 gap, 10–16 D, 16–20 A, 20–21 gap
    assert degraded_intervals(UNITS, result, [0, 1], 1.0) == (((2, 9),), ((4, 7), (16, 20)))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda p: (min(p), max(p)))))
def test_merging_marks_the_same_seconds(intervals: list[tuple[int, int]]) -> None:
    result = merged([(float(start), float(end)) for start, end in intervals])
    seconds = {second for start, end in intervals for second in range(start, end)}
    assert {second for start, end in result for second in range(int(start), int(end))} == seconds
    assert all(start < end for start, end in result)
    assert all(one[1] < two[0] for one, two in pairwise(result))
