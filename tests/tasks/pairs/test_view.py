from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import StoreError
from storage_schemas.frames import ColorSpec, FrameReader, Planes
from storage_schemas.store import FRAMES
from tasks.media.planes import planes_to_rgb
from tasks.pairs.degrade import shown_frames
from tasks.pairs.view import Pair, Side, open_record
from tests.tasks.pairs.synthetic import ASPECTS, COLOR, HEIGHT, WIDTH, Made, picture


@pytest.fixture
def source(built: Made) -> Made:
    return built


class Counted(Side):
    """Frames that are their own number, and a note of which were read."""

    width, height, color, fps = 4, 4, ColorSpec(), 2.0

    def __init__(self, count: int) -> None:
        self.count = count
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.count

    def planes(self, places: list[int] | range) -> Planes:  # type: ignore[override]
        self.read += places
        return np.stack([np.full((6, 4), place, np.uint8) for place in places])


def numbers(side: Side) -> list[int]:
    return [int(frame[0, 0]) for frame in side]


bounds = st.none() | st.integers(-50, 50)
steps = st.none() | st.integers(-4, 4).filter(bool)
slices = st.builds(slice, bounds, bounds, steps)


@given(st.integers(0, 40), slices, slices)
def test_slices_are_those_of_a_list(count: int, outer: slice, inner: slice) -> None:
    side = Counted(count)
    expected = list(range(count))[outer][inner]
    part = side[outer][inner]
    assert side.read == []
    assert len(part) == len(expected)
    assert numbers(part) == expected
    assert [int(part[place][0, 0]) for place in range(len(part))] == expected
    assert part.times_s.tolist() == [place / 2.0 for place in expected]
    assert (part.width, part.height, part.color, part.fps) == (4, 4, side.color, 2.0)


@given(st.integers(1, 40), st.integers(-60, 60))
def test_numbers_count_from_either_end(count: int, place: int) -> None:
    side = Counted(count)
    if -count <= place < count:
        assert int(side[place][0, 0]) == place % count
        assert side.read == [place % count]
    else:
        with pytest.raises(IndexError):
            side[place]


def test_iterating_reads_each_frame_once_and_no_further_than_needed() -> None:
    side = Counted(100)
    assert numbers(side) == list(range(100))
    assert side.read == list(range(100))
    side = Counted(100)
    assert [int(frame[0, 0]) for frame in itertools.islice(side, 3)] == [0, 1, 2]
    assert len(side.read) < 40


def open_(source: Made, aspect: str) -> Pair:
    return open_record(source.store, source.pair(aspect), source.facts.source.prompt)


@pytest.mark.parametrize("aspect", ASPECTS)
def test_a_pair_shows_what_its_edit_list_says(source: Made, aspect: str) -> None:
    pair = open_(source, aspect)
    record = pair.record
    assert record is not None
    high, low = list(pair.high), list(pair.low)
    assert len(high) == len(pair.high) == source.facts.timeline.count
    assert all(np.array_equal(frame, picture(k)) for k, frame in enumerate(high))
    assert len(low) == len(pair.low) == record.low_frames
    assert all(np.array_equal(pair.low[place], frame) for place, frame in enumerate(low))
    assert np.array_equal(np.stack(low), pair.low.planes(range(len(low))))
    place = 0
    for segment in record.segments:
        shown = low[place : place + segment.frame_count]
        own = range(segment.first_frame, segment.first_frame + segment.frame_count)
        numbers = shown_frames(segment) if segment.degraded_clip is None else own
        equal = [np.array_equal(a, picture(k)) for a, k in zip(shown, numbers, strict=True)]
        assert equal == [segment.degraded_clip is None] * segment.frame_count
        place += segment.frame_count
    # outside the intervals the sides are equal
    if len(low) == len(high) and aspect != "temporal_flow":
        for k in range(len(low)):
            degraded = any(start <= k < end for start, end in pair.low_intervals)
            # a frozen clip's middle frame stays
            if not degraded or aspect != "dynamics_degree":
                assert np.array_equal(low[k], high[k]) != degraded
    # equal frames have equal identities, and no others
    by_id: dict[str, bytes] = {}
    for side, frames in ((pair.high, high), (pair.low, low)):
        for id_, frame in zip(side.frame_ids(range(len(side))), frames, strict=True):
            assert by_id.setdefault(id_, frame.tobytes()) == frame.tobytes()
    assert len(set(by_id.values())) == len(by_id)
    assert pair.high.family == pair.low.family == source.frames_id
    assert pair.high.identity() != pair.low.identity()
    assert open_(source, aspect).low.identity() == pair.low.identity()
    part = pair.low[9:2:-2]
    assert part.frame_ids([0, 2]) == pair.low.frame_ids([9, 5])
    assert part.family == source.frames_id


def test_frames_in_any_order_and_more_than_once(source: Made) -> None:
    pair = open_(source, "temporal_flow")
    places = [5, 5, 4, 30, 31, 32, 0, 32]
    assert np.array_equal(pair.low.planes(places), np.stack([pair.low[place] for place in places]))
    assert pair.low.planes([]).shape == (0, HEIGHT * 3 // 2, WIDTH)
    for side, place in itertools.product((pair.low, pair.high), (-1, 10_000)):
        with pytest.raises(IndexError):
            side.planes([place])


def test_only_touched_frames_are_read(source: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = open_(source, "aesthetics")
    assert pair.record is not None
    read: list[tuple[str, int, int]] = []
    original = FrameReader.read

    def noted(self: FrameReader, first: int, count: int = 1) -> Planes:
        read.append((self.path.parent.name, first, count))
        return original(self, first, count)

    monkeypatch.setattr(FrameReader, "read", noted)
    part = pair.low[10:20]
    assert len(part) == 10
    assert part.times_s[0] == 10.0
    assert read == []
    _ = pair.high[7]
    assert read == [(source.frames_id, 7, 1)]
    read.clear()
    _ = pair.high.planes(range(3, 9))
    assert read == [(source.frames_id, 3, 6)]
    read.clear()
    place = 0
    for segment in pair.record.segments:
        if segment.degraded_clip is not None:
            _ = pair.low[place]
            assert read == [(segment.degraded_clip, 0, 1)]
            read.clear()
            around = range(place - 1, place + segment.frame_count + 1)
            _ = pair.low.planes(around)
            assert sum(count for _, _, count in read) == len(around)
            assert (segment.degraded_clip, 0, segment.frame_count) in read
            break
        place += segment.frame_count


def test_identities_need_no_picture(source: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = open_(source, "aesthetics")
    # a side that has nothing stored of its frames finds the same ones by reading
    by_reading = [Side.frame_ids(side, range(len(side))) for side in (pair.high, pair.low)]
    monkeypatch.setattr(FrameReader, "read", None)
    assert [side.frame_ids(range(len(side))) for side in (pair.high, pair.low)] == by_reading


def test_what_pixels_depend_on_is_in_the_identity() -> None:
    def ids(width: int, height: int, color: ColorSpec) -> list[str]:
        side = Counted(1)
        side.width, side.height, side.color = width, height, color
        return side.frame_ids([0])

    full = ColorSpec(full_range=True)
    given = [ids(8, 4, ColorSpec()), ids(4, 8, ColorSpec()), ids(8, 4, ColorSpec("bt601")), ids(8, 4, full)]
    assert len(set(itertools.chain(*given))) == 4
    assert Counted(2).identity() != Counted(3).identity()


def test_a_pair_carries_its_prompt_aspect_and_gold(source: Made) -> None:
    pair = open_(source, "aesthetics")
    assert pair.prompt.startswith("Clip 0.\nClip 1.\n")
    assert (pair.aspect, pair.details["gold"]) == ("aesthetics", "high")
    assert pair.high.times_s.tolist() == list(range(source.facts.timeline.count))
    assert (pair.low.width, pair.low.height, pair.low.color, pair.low.fps) == (WIDTH, HEIGHT, COLOR, 1.0)
    # RGB is a view of the planes
    assert np.array_equal(pair.high.rgb(4), planes_to_rgb(picture(4)[None], COLOR)[0])
    assert pair.high[2:9].rgb(2).shape == (HEIGHT, WIDTH, 3)
    source.store.remove(FRAMES, source.frames_id)
    with pytest.raises(StoreError, match="evicted"):
        open_(source, "aesthetics")
