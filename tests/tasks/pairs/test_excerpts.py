"""Excerpts: the same damage in more or less of a source, nested, at a position."""

from __future__ import annotations

from itertools import pairwise

import pytest

from storage_schemas.errors import Reason, SetAside
from storage_schemas.pair import LengthPoint, Position, Segment
from tasks.aspects.base import ClipSpan
from tasks.pairs.excerpts import cut_excerpt, within
from tasks.pairs.intervals import reordered, replaced, units

#: Twenty clips of ten frames, with a gap after each fifth.
SPANS = [ClipSpan(clip, 12 * clip, 10 if clip % 5 == 4 else 12) for clip in range(20)]
SOURCE = units(SPANS, 240)
MIDDLES = {"early": 0.17, "middle": 0.5, "late": 0.83}


def damaged(*clips: int) -> list[Segment]:
    by_clip = {unit.clip: unit for unit in SOURCE}
    return replaced(SOURCE, {clip: by_clip[clip].model_copy(update={"kind": "degraded"}) for clip in clips})


@pytest.mark.parametrize("position", ["own", "early", "middle", "late"])
@pytest.mark.parametrize("clip", [7, 9, 12])
def test_shorter_excerpts_lie_within_longer_ones_around_the_damage(clip: int, position: Position) -> None:
    bounds = []
    for share in (0.2, 0.3, 0.5):
        found = cut_excerpt(SOURCE, damaged(clip), LengthPoint(share=share, position=position), "it")
        segments = within(damaged(clip), found)
        assert sum(one.frame_count for one in segments) == found.frame_count
        assert [one.clip for one in segments if one.kind == "degraded"] == [clip]
        assert found.frame_count == pytest.approx(240 * share, abs=13)
        if position != "own":
            assert found.damage_at == pytest.approx(MIDDLES[position], abs=0.16)
        bounds.append((found.first_frame, found.first_frame + found.frame_count))
    for (begin, end), (wider_begin, wider_end) in pairwise(bounds):
        assert wider_begin <= begin < end <= wider_end


@pytest.mark.parametrize("clip", [0, 3, 11, 19])
def test_own_position_is_where_the_damage_is_in_the_film(clip: int) -> None:
    whole = cut_excerpt(SOURCE, damaged(clip), LengthPoint(share=1), "it")
    assert (whole.first_frame, whole.frame_count) == (0, 240)
    half = cut_excerpt(SOURCE, damaged(clip), LengthPoint(share=0.5), "it")
    assert half.damage_at == pytest.approx(whole.damage_at, abs=0.06)


def test_no_room_is_reported() -> None:
    with pytest.raises(SetAside, match="too little of the film on one side") as late:
        cut_excerpt(SOURCE, damaged(0), LengthPoint(share=0.5, position="late"), "color")
    assert late.value.reason is Reason.NO_ARRANGEMENT
    with pytest.raises(SetAside, match=r"color cannot have 0.2 of the film .* its clips give 0.8"):
        cut_excerpt(SOURCE, damaged(2, 17), LengthPoint(share=0.2), "color")


def test_removed_and_moved_clips_keep_their_neighbours() -> None:
    order = [clip for clip in range(20) if clip != 12]
    removed = reordered(SOURCE, order, [12])
    found = cut_excerpt(SOURCE, removed, LengthPoint(share=0.1), "it")
    assert [one.clip for one in within(removed, found) if one.clip is not None] == [11, 13]
    moved = [*range(6), 8, 6, 7, *range(9, 20)]
    segments = reordered(SOURCE, moved, [8])
    found = cut_excerpt(SOURCE, segments, LengthPoint(share=0.2), "it")
    assert {6, 7, 8} <= {one.clip for one in within(segments, found)}
