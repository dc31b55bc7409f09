"""Comprehensiveness and temporal flow: nested draws, what stays, what may not stand where it stood."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas.errors import Reason, SetAside
from storage_schemas.ids import digest_value
from storage_schemas.rng import keyed_rng
from tasks.aspects.base import Arrangement, ClipSpan
from tasks.aspects.comprehensiveness import RemoveClips
from tasks.aspects.temporal_flow import ReinsertWindow, window

SIZES = st.integers(2, 40).flatmap(lambda clips: st.tuples(st.just(clips), st.integers(1, clips // 2)))
SEEDS = st.integers(0, 10_000)
REMOVE, REINSERT = RemoveClips(), ReinsertWindow()
some = settings(max_examples=60)
REMOVE_VERSION, REMOVE_DRAWS = 1, "f115da96e9614658"
REINSERT_VERSION, REINSERT_DRAWS = 2, "c8c07a3878f74527"


def rearranged(operation: Any, clips: int, count: int, seed: int, **overrides: Any) -> Arrangement:
    spans = [ClipSpan(index, index * 10, 10) for index in range(clips)]
    result: Arrangement = operation.rearrange(
        spans, count, (seed, "s", "a"), operation.parameters(overrides=overrides)
    )
    return result


@some
@given(size=SIZES, seed=SEEDS)
def test_removed_clips_are_gone_and_the_others_stay_in_order(size: tuple[int, int], seed: int) -> None:
    clips, count = size
    result = rearranged(REMOVE, clips, count, seed)
    assert list(result.order) == [index for index in range(clips) if index not in result.drawn]
    assert len(result.drawn) == count
    assert len(result.order) >= clips / 2


@some
@given(size=SIZES, seed=SEEDS)
def test_no_moved_clip_stands_at_its_old_index(size: tuple[int, int], seed: int) -> None:
    clips, count = size
    result = rearranged(REINSERT, clips, count, seed)
    assert sorted(result.order) == list(range(clips))
    assert list(result.drawn) == list(range(result.drawn[0], result.drawn[0] + count))
    assert all(result.order[index] != index for index in result.drawn)
    rest = [index for index in result.order if index not in result.drawn]
    assert rest == sorted(rest)


@some
@given(clips=st.integers(4, 40), seed=SEEDS)
def test_windows_are_nested(clips: int, seed: int) -> None:
    drawn = [set(rearranged(REINSERT, clips, count, seed).drawn) for count in range(1, clips // 2 + 1)]
    assert all(small < large for small, large in pairwise(drawn))


@some
@given(clips=st.integers(4, 40), seed=SEEDS, data=st.data())
def test_shuffle_changes_the_window_alone(clips: int, seed: int, data: st.DataObject) -> None:
    result = rearranged(REINSERT, clips, data.draw(st.integers(2, clips // 2)), seed, mode="shuffle")
    for place, index in enumerate(result.order):
        assert (place == index) == (index not in result.drawn)
    assert {result.order[index] for index in result.drawn} == set(result.drawn)


@pytest.mark.parametrize(
    ("operation", "clips", "count", "overrides", "reason"),
    [
        (REMOVE, 9, 5, {}, Reason.TOO_FEW_CLIPS),
        (REINSERT, 9, 5, {}, Reason.TOO_FEW_CLIPS),
        # one clip has no other order within its window
        (REINSERT, 4, 1, {"mode": "shuffle"}, Reason.NO_ARRANGEMENT),
    ],
)
def test_what_cannot_be_arranged_is_set_aside(
    operation: Any, clips: int, count: int, overrides: dict[str, Any], reason: Reason
) -> None:
    with pytest.raises(SetAside) as caught:
        rearranged(operation, clips, count, 0, **overrides)
    assert caught.value.reason is reason


def test_every_clip_may_be_removed_and_the_window_may_lie_anywhere() -> None:
    removed = {index for seed in range(60) for index in rearranged(REMOVE, 10, 2, seed).drawn}
    assert removed == set(range(10))
    firsts = {rearranged(REINSERT, 12, 5, seed).drawn[0] for seed in range(200)}
    assert firsts == set(range(8))


def test_windows_of_a_size_are_equally_likely_and_smaller_ones_lie_within() -> None:
    starts = Counter(window(12, 5, keyed_rng("window", number)).start for number in range(4000))
    assert set(starts) == set(range(8))
    # 500 each, with a standard deviation of 21
    assert max(abs(count - 500) for count in starts.values()) < 100
    for number in range(50):
        widening = [set(window(12, count, keyed_rng("window", number))) for count in range(1, 13)]
        assert [len(places) for places in widening] == list(range(1, 13))
        assert all(one < more for one, more in pairwise(widening))


@pytest.mark.parametrize(
    ("operation", "version", "expected"),
    [(REMOVE, REMOVE_VERSION, REMOVE_DRAWS), (REINSERT, REINSERT_VERSION, REINSERT_DRAWS)],
    ids=["remove", "reinsert"],
)
def test_draws_change_only_with_the_version(operation: Any, version: int, expected: str) -> None:
    """Ids of pairs have the operation's version: other draws under the same one would be other pairs' ids."""
    orders = [list(rearranged(operation, 20, 5, seed).order) for seed in range(50)]
    assert (operation.version, digest_value(orders)[:16]) == (version, expected)
