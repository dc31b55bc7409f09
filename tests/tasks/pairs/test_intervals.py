from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

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


def clips_of(outcome: Sequence[Segment]) -> list[int]:
    return [unit.clip for unit in outcome if unit.clip is not None]


@given(layouts())
def test_units_hold_every_frame_exactly_once_in_order(layout: tuple[list[ClipSpan], int]) -> None:
    spans, count = layout
    outcome = units(spans, count)
    assert frames(outcome) == list(range(count))
    assert [u.clip for u in outcome if u.kind == "source"] == [s.index for s in spans if s.frame_count]
    assert all(unit.frame_count > 0 for unit in outcome)
    assert all((unit.clip is None) == (unit.kind == "gap") for unit in outcome)


@given(layouts(), st.data())
def test_edits_conserve_the_rest(layout: tuple[list[ClipSpan], int], data: st.DataObject) -> None:
    outcome = units(*layout)
    clips = clips_of(outcome)
    drawn = data.draw(st.sets(st.sampled_from(clips))) if clips else set()
    # replacing in place
    changed = {u.clip: u.model_copy(update={"kind": "degraded"}) for u in outcome if u.clip in drawn}
    result = replaced(outcome, {clip: s for clip, s in changed.items() if clip is not None})
    assert frames(result) == frames(outcome)
    assert {s.clip for s in result if s.kind == "degraded"} == drawn
    high, low = degraded_intervals(outcome, result, sorted(drawn), 1.0)
    assert high == low
    # in another order
    order = data.draw(st.permutations(clips))
    result = reordered(outcome, order, sorted(drawn))
    assert sorted(frames(result)) == frames(outcome)
    assert clips_of(result) == order
    assert [s.kind for s in result] == [u.kind for u in outcome]
    assert [s for s in result if s.kind == "gap"] == [u for u in outcome if u.kind == "gap"]
    assert {s.clip for s in result if s.moved} == drawn
    # without them
    result = reordered(outcome, [clip for clip in clips if clip not in drawn], sorted(drawn))
    assert frames(result) == [f for u in outcome if u.clip not in drawn for f in frames([u])]
    high, low = degraded_intervals(outcome, result, sorted(drawn), 1.0)
    marked = {second for start, end in high for second in range(int(start), int(end))}
    assert marked == {f for u in outcome if u.clip in drawn for f in frames([u])}
    # two seconds on either side of each join, which is where the clip was
    left = frames(result)
    joins = [sum(frame < u.first_frame for frame in left) for u in outcome if u.clip in drawn]
    assert low == merged([(max(join - 2.0, 0), min(join + 2, len(left))) for join in joins])


# a gap of 2, clips A 2–6, B 6–9, a gap of 3, clips C 12–14, D 14–20, and a gap of 1
SPANS = [ClipSpan(0, 2, 4), ClipSpan(1, 6, 3), ClipSpan(2, 12, 2), ClipSpan(3, 14, 6)]
UNITS = units(SPANS, 21)


def removed(*gone: int, fps: float = 1.0) -> tuple[object, object]:
    order = [span.index for span in SPANS if span.index not in gone]
    return degraded_intervals(UNITS, reordered(UNITS, order, gone), gone, fps)


def test_degraded_intervals_of_removed_clips_by_hand() -> None:
    # with a gap of 3 s between them, the joins' margins touch: 2–6 A, join 6, gap 6–9, join 9
    assert removed(1, 2) == (((6, 9), (12, 14)), ((4, 11),))
    # far apart: join of A at 2; low is 0–2 gap, 2–5 B, 5–8 gap, 8–10 C, join of D at 10, 10–11 gap
    assert removed(0, 3) == (((2, 6), (14, 20)), ((0, 4), (8, 11)))


def test_degraded_intervals_follow_the_rate_and_their_margin_does_not() -> None:
    # at two frames a second B is 3.0–4.5 s, and its join at 3.0 s
    assert removed(1, fps=2.0) == (((3.0, 4.5),), ((1.0, 5.0),))


def test_degraded_intervals_of_degraded_clips_by_hand() -> None:
    changed = {n: UNITS[n + 1].model_copy(update={"kind": "degraded"}) for n in (0, 1)}
    high, low = degraded_intervals(UNITS, replaced(UNITS, changed), [1, 0], 1.0)
    assert high == low == ((2, 9),)


def test_degraded_intervals_of_moved_clips_by_hand() -> None:
    # A and B are drawn; the four places between the gaps become C B D A, so A comes last
    result = reordered(UNITS, [2, 1, 3, 0], [0, 1])
    assert [s.clip for s in result] == [None, 2, 1, None, 3, 0, None]
    assert [s.clip for s in result if s.moved] == [1, 0]
    # 0–2 gap, 2–4 C, 4–7 B, 7–10 gap, 10–16 D, 16–20 A, 20–21 gap
    assert degraded_intervals(UNITS, result, [0, 1], 1.0) == (((2, 9),), ((4, 7), (16, 20)))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda p: (min(p), max(p)))))
def test_merged_marks_the_same_seconds(intervals: list[tuple[int, int]]) -> None:
    result = merged([(float(start), float(end)) for start, end in intervals])
    seconds = {second for start, end in intervals for second in range(start, end)}
    assert {second for start, end in result for second in range(int(start), int(end))} == seconds
    assert all(start < end for start, end in result)
    assert all(one[1] < two[0] for one, two in pairwise(result))
