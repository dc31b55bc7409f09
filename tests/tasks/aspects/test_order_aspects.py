"""Comprehensiveness and temporal flow: nested draws, what stays, what may not stand where it stood."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas.errors import Reason, SetAside
from tasks.aspects.base import ClipSpan
from tasks.aspects.comprehensiveness import RemoveClips
from tasks.aspects.temporal_flow import ReinsertWindow

SIZES = st.integers(2, 40).flatmap(lambda clips: st.tuples(st.just(clips), st.integers(1, clips // 2)))
SEEDS = st.integers(0, 10_000)


def spans(count: int) -> list[ClipSpan]:
    return [ClipSpan(index, index * 10, 10) for index in range(count)]


@settings(max_examples=100, deadline=None)
@given(size=SIZES, seed=SEEDS)
def test_removed_clips_are_gone_and_the_others_stay_in_order(size: tuple[int, int], seed: int) -> None:
    clips, count = size
    operation = RemoveClips()
    result = operation.rearrange(spans(clips), count, (seed, "s", "a"), operation.parameters())
    assert list(result.order) == [index for index in range(clips) if index not in result.drawn]
    assert len(result.drawn) == count
    assert len(result.order) >= clips / 2


def test_every_clip_may_be_removed() -> None:
    operation = RemoveClips()
    drawn = {
        index
        for seed in range(60)
        for index in operation.rearrange(spans(10), 2, (seed,), operation.parameters()).drawn
    }
    assert drawn == set(range(10))


def test_removing_more_than_half_is_set_aside() -> None:
    operation = RemoveClips()
    with pytest.raises(SetAside) as caught:
        operation.rearrange(spans(9), 5, (0,), operation.parameters())
    assert caught.value.reason is Reason.TOO_FEW_CLIPS


@settings(max_examples=150, deadline=None)
@given(size=SIZES, seed=SEEDS)
def test_no_moved_clip_stands_at_its_old_index(size: tuple[int, int], seed: int) -> None:
    clips, count = size
    operation = ReinsertWindow()
    result = operation.rearrange(spans(clips), count, (seed, "s", "a"), operation.parameters())
    assert sorted(result.order) == list(range(clips))
    assert list(result.drawn) == list(range(result.drawn[0], result.drawn[0] + count))
    assert all(result.order[index] != index for index in result.drawn)
    rest = [index for index in result.order if index not in result.drawn]
    assert rest == sorted(rest)


@settings(max_examples=100, deadline=None)
@given(clips=st.integers(4, 40), seed=SEEDS)
def test_windows_are_nested(clips: int, seed: int) -> None:
    operation = ReinsertWindow()
    drawn = [
        set(operation.rearrange(spans(clips), count, (seed,), operation.parameters()).drawn)
        for count in range(1, clips // 2 + 1)
    ]
    assert all(small < large for small, large in pairwise(drawn))


@settings(max_examples=100, deadline=None)
@given(clips=st.integers(4, 40), seed=SEEDS, data=st.data())
def test_shuffle_changes_the_window_alone(clips: int, seed: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(2, clips // 2))
    operation = ReinsertWindow()
    parameters = operation.parameters(overrides={"mode": "shuffle"})
    result = operation.rearrange(spans(clips), count, (seed,), parameters)
    for place, index in enumerate(result.order):
        assert (place == index) == (index not in result.drawn)
    assert {result.order[index] for index in result.drawn} == set(result.drawn)


def test_one_clip_has_no_other_order_within_its_window() -> None:
    operation = ReinsertWindow()
    with pytest.raises(SetAside) as caught:
        operation.rearrange(spans(4), 1, (0,), operation.parameters(overrides={"mode": "shuffle"}))
    assert caught.value.reason is Reason.NO_ARRANGEMENT


def test_moving_more_than_half_is_set_aside() -> None:
    operation = ReinsertWindow()
    with pytest.raises(SetAside) as caught:
        operation.rearrange(spans(9), 5, (0,), operation.parameters())
    assert caught.value.reason is Reason.TOO_FEW_CLIPS


def test_the_window_may_lie_anywhere() -> None:
    operation = ReinsertWindow()
    firsts = {
        operation.rearrange(spans(12), 5, (seed,), operation.parameters()).drawn[0] for seed in range(200)
    }
    assert firsts == set(range(8))
