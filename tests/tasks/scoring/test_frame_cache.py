"""Frames are read once while they are kept, and are the same as without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from storage_schemas.frames import Planes
from tasks.pairs.view import Side, open_record
from tasks.scoring.frame_cache import CachedSide, FrameCache
from tests.tasks.pairs.synthetic import Made
from tests.tasks.scoring.sides import FrameList, noise


class Counted(Side):
    def __init__(self, side: Side) -> None:
        self.side, self.read = side, 0
        self.width, self.height, self.color, self.fps = side.width, side.height, side.color, side.fps

    def __len__(self) -> int:
        return len(self.side)

    def frame_ids(self, places: Sequence[int]) -> list[str]:
        return self.side.frame_ids(places)

    @property
    def family(self) -> str:
        return self.side.family

    def planes(self, places: Sequence[int]) -> Planes:
        self.read += len(places)
        return self.side.planes(places)


def test_both_videos_of_a_pair_share_what_is_equal(built: Made) -> None:
    record = built.pair("aesthetics")
    pair = open_record(built.store, record, "prompt")
    high, low = Counted(pair.high), Counted(pair.low)
    cache = FrameCache()
    one, two = CachedSide(high, cache), CachedSide(low, cache)
    every = range(len(pair.high))
    assert np.array_equal(one.planes(every), pair.high.planes(every))
    assert np.array_equal(two.planes(every), pair.low.planes(every))
    changed = sum(end - start for start, end in record.low_intervals)
    assert high.read == len(every)
    assert low.read == changed < len(every)
    assert np.array_equal(one.rgb(3), pair.high.rgb(3))
    assert high.read == len(every)
    assert one.identity() == pair.high.identity() != two.identity() == pair.low.identity()
    assert np.array_equal(one[5:9].planes([1, 1]), pair.high[5:9].planes([1, 1]))
    assert one.planes([]).shape == (0, *pair.high.planes([0]).shape[1:])


def test_memory_has_a_bound() -> None:
    side = FrameList([noise(number) for number in range(10)])
    frame = side.planes([0]).nbytes
    cache = FrameCache(most_bytes=3 * frame)
    kept = CachedSide(Counted(side), cache)
    for place in range(10):
        kept.planes([place])
    assert cache.bytes == 3 * frame
    assert len(cache.take(side.frame_ids(range(10)))) == 3
