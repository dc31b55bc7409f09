"""Features and frames are computed and read once while they are kept, the same as without."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.frames import Planes
from storage_schemas.gc import drop_features
from storage_schemas.store import Store
from tasks.pairs.view import Pair, Side, open_record
from tasks.scoring.features import FeatureCache, FrameFeature, Rows
from tasks.scoring.frame_cache import CachedSide, FrameCache
from tests.tasks.pairs.synthetic import ASPECTS, Made
from tests.tasks.scoring.sides import FrameList, noise


class Sums(FrameFeature):
    """Sum and first sample of a frame, with a note of the places that were computed."""

    name = "sums"
    dtype = "float32"
    width = 2

    def __init__(self, version: int = 1) -> None:
        self.version = version
        self.computed: list[list[int]] = []

    def settings(self) -> dict[str, Any]:
        return {"version": self.version}

    def compute(self, side: Side, places: Sequence[int]) -> Rows:
        self.computed.append(list(places))
        return expected(side, places)


def expected(side: Side, places: Sequence[int]) -> Rows:
    planes = side.planes(places)
    return np.stack([planes.sum((1, 2)), planes[:, 0, 0]], 1).astype(np.float32)


def opened(source: Made, aspect: str) -> Pair:
    return open_record(source.store, source.pair(aspect), "")


def test_features_shared_by_videos_are_computed_once(built: Made, tmp_path: Path) -> None:
    cache, feature = FeatureCache(tmp_path), Sums()
    needed = 0
    for aspect in ASPECTS:
        pair = opened(built, aspect)
        for side in (pair.high, pair.low):
            result = cache.compute_missing(side, range(len(side)), feature)
            assert np.array_equal(result.rows, expected(side, range(len(side))))
            needed += len(side)
    pairs = [opened(built, aspect) for aspect in ASPECTS]
    distinct = {frame.tobytes() for pair in pairs for side in (pair.high, pair.low) for frame in side}
    assert cache.counts() == {"sums": {"needed": needed, "computed": len(distinct)}}
    # ten videos of one source take less than two of them
    assert len(distinct) < 2 * len(pairs[0].high) < needed / 4


def test_another_process_finds_what_was_computed(built: Made, tmp_path: Path) -> None:
    high = opened(built, "aesthetics").high
    first = FeatureCache(tmp_path).compute_missing(high, range(10), Sums())
    other = Sums()
    again = FeatureCache(tmp_path).compute_missing(high, [3, 12, 3, 0], other, batch=1)
    assert other.computed == [[12]]
    assert np.array_equal(again.rows[[0, 2, 3]], first.rows[[3, 3, 0]])
    assert again.rows.dtype == np.float32
    assert again.counts() == {"needed": 4, "computed": 1}
    # so does one that is open already
    mine = FeatureCache(tmp_path)
    mine.compute_missing(high, [20], other)
    FeatureCache(tmp_path).compute_missing(high, [21, 22], Sums())
    assert mine.compute_missing(high, [20, 21, 22], other).computed == 0


def test_batches_bound_what_is_held(tmp_path: Path) -> None:
    side, feature = FrameList([noise(n) for n in range(50)]), Sums()
    FeatureCache(tmp_path).compute_missing(side, range(49, -1, -1), feature, batch=8)
    assert [len(places) for places in feature.computed] == [8] * 6 + [2]
    assert list(chain.from_iterable(feature.computed)) == list(range(50))


def test_other_settings_are_another_feature(built: Made, tmp_path: Path) -> None:
    high, cache = opened(built, "aesthetics").high, FeatureCache(tmp_path)
    for version in (1, 2):
        assert cache.compute_missing(high, range(5), Sums(version)).computed == 5
    assert Sums(1).key != Sums(2).key
    assert len(list(tmp_path.iterdir())) == 2


def damage(path: Path, how: str) -> None:
    raw = bytearray(path.read_bytes())
    if how == "torn":
        raw = raw[: len(raw) // 2]
    elif how == "empty":
        raw = bytearray()
    elif how == "flipped":
        # within the rows, past the header and the identities
        at = raw.index(b"\x28\xb5\x2f\xfd", 60) + 12
        raw[at] ^= 0xFF
    elif how == "of another feature":
        other = FeatureCache(path.parents[2] / "other")
        other.compute_missing(FrameList([noise(0)]), [0], Sums(7))
        raw = bytearray(next((path.parents[2] / "other").rglob("*.parquet")).read_bytes())
    path.write_bytes(raw)


@pytest.mark.parametrize("how", ["torn", "empty", "flipped", "of another feature"])
def test_damaged_file_is_redone(
    how: str, built: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    high = opened(built, "aesthetics").high
    FeatureCache(tmp_path / "features").compute_missing(high, range(8), Sums())
    (file,) = (tmp_path / "features").rglob("*.parquet")
    damage(file, how)
    with caplog.at_level(logging.WARNING):
        result = FeatureCache(tmp_path / "features").compute_missing(high, range(8), Sums())
    assert result.computed == 8
    assert str(file) in caplog.text
    assert np.array_equal(result.rows, expected(high, range(8)))
    # the damaged file stays, what is computed again lies beside it
    assert FeatureCache(tmp_path / "features").compute_missing(high, range(8), Sums()).computed == 0


def test_rows_are_kept_when_a_model_gives_up(tmp_path: Path) -> None:
    class Weak(Sums):
        def compute(self, side: Side, places: Sequence[int]) -> Rows:
            if 6 in places:
                raise MemoryError("no room")
            return super().compute(side, places)

    side = FrameList([noise(n) for n in range(10)])
    with pytest.raises(MemoryError):
        FeatureCache(tmp_path).compute_missing(side, range(10), Weak(), batch=3)
    assert FeatureCache(tmp_path).compute_missing(side, range(10), Sums()).computed == 4


def test_rows_of_a_wrong_shape_are_refused() -> None:
    class Wrong(Sums):
        def compute(self, side: Side, places: Sequence[int]) -> Rows:
            return np.zeros((len(places), 3))

    with pytest.raises(ValueError, match="sums"):
        FeatureCache().compute_missing(FrameList([noise(0)]), [0], Wrong())


def test_folder_without_rights_costs_only_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "features").write_text("in the way")
    side = FrameList([noise(n) for n in range(4)])
    result = FeatureCache(tmp_path / "features").compute_missing(side, range(4), Sums())
    assert np.array_equal(result.rows, expected(side, range(4)))
    assert "not stored" in caplog.text


def test_memory_is_bounded_by_families() -> None:
    cache, feature = FeatureCache(kept_bytes=1), Sums()
    one, other = (FrameList([noise(n)], family=str(n)) for n in range(2))
    computed = [cache.compute_missing(side, [0], feature).computed for side in (one, one, other, one)]
    assert computed == [1, 0, 1, 1]


def test_threads_share_and_caches_of_one_folder_do_not_harm_each_other(tmp_path: Path) -> None:
    side = FrameList([noise(n) for n in range(64)])

    def together(*caches: FeatureCache) -> list[int]:
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(one.compute_missing, side, range(64), Sums(), 4) for one in caches]
            return sorted(run.result().computed for run in runs)

    assert together(*[FeatureCache(tmp_path / "threads")] * 4) == [0, 0, 0, 64]
    # each as another process would have it
    assert all(0 <= n <= 64 for n in together(*(FeatureCache(tmp_path / "two") for _ in range(4))))
    again = FeatureCache(tmp_path / "two").compute_missing(side, range(64), Sums())
    assert again.computed == 0
    assert np.array_equal(again.rows, expected(side, range(64)))


def test_gc_drops_the_features_of_a_store(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    assert drop_features(store).count == 0
    side = FrameList([noise(0)])
    FeatureCache.of(store).compute_missing(side, [0], Sums())
    would = drop_features(store, dry_run=True)
    assert (would.kind, would.count) == ("features", 1)
    assert would.bytes > 0
    assert FeatureCache.of(store).compute_missing(side, [0], Sums()).computed == 0
    assert drop_features(store) == would
    assert not store.features.exists()
    assert FeatureCache.of(store).compute_missing(side, [0], Sums()).computed == 1


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
