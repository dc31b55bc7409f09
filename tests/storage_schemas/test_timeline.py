from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import StoreError
from storage_schemas.frames import ColorSpec
from storage_schemas.ids import artifact_id
from storage_schemas.source import TIMELINE_FILE, Timeline, read_timeline, write_timeline_file
from storage_schemas.store import TIMELINE, Store


def timeline(times: list[float]) -> Timeline:
    return Timeline(width=32, height=16, color=ColorSpec(), duration_s=9.0, pts_s=tuple(times))


def test_a_clip_owns_the_frames_whose_image_starts_in_it() -> None:
    line = timeline([0.0, 0.96, 2.0, 3.04, 4.0])
    spans = [(0.0, 2.0), (2.0, 4.0), (4.0, 9.0), (1.0, 2.0), (5.0, 9.0)]
    assert [line.span(*span) for span in spans] == [(0, 2), (2, 2), (4, 1), (2, 0), (5, 0)]


@given(
    st.lists(st.floats(0, 100), max_size=30).map(sorted),
    st.lists(st.floats(0, 100), min_size=2, max_size=8).map(sorted),
)
def test_neighbouring_clips_share_no_frame_and_lose_none(times: list[float], cuts: list[float]) -> None:
    line = timeline(times)
    owned: list[int] = []
    for start, end in pairwise(cuts):
        first, count = line.span(start, end)
        owned += range(first, first + count)
    assert owned == [k for k, time in enumerate(times) if cuts[0] <= time < cuts[-1]]


def test_round_trip(store: Store) -> None:
    with pytest.raises(StoreError, match="no complete artifact"):
        read_timeline(store, "0" * 64)
    consumes = {"n": 1}
    digests = [0, 2**64 - 1, 7]
    with store.stage(TIMELINE, consumes) as staged:
        write_timeline_file(staged.path / TIMELINE_FILE, [0.0, 1.04, 2.0], digests)
        color = {"matrix": "bt601", "full_range": True}
        staged.content = {"width": 32, "height": 16, "color": color, "duration_s": 3.5}
    line = read_timeline(store, artifact_id(TIMELINE, consumes))
    assert line.pts_s == (0.0, 1.04, 2.0)
    assert line.digests == tuple(digests)
    assert line.color == ColorSpec("bt601", full_range=True)
    assert (line.count, line.duration_s, line.exact) == (3, 3.5, True)
