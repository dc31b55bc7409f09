"""Frame arrays in one file: equal to the folder, readable by Zarr itself, and read by ranges."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import zarr

from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.frames import SHARD_FRAMES, ColorSpec, FrameReader
from tests.frame_arrays import write_frames

COUNT = SHARD_FRAMES + 5
FRAMES = np.random.default_rng(1).integers(0, 256, (COUNT, 48, 32), dtype=np.uint8)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "planes.zarr.zip"
    write_frames(path, FRAMES, map(float, range(COUNT)), ColorSpec(full_range=True))
    return path


def test_it_reads_what_was_written_and_leaves_no_folder(packed: Path) -> None:
    reader = FrameReader(packed)
    assert (reader.count, reader.height, reader.width, reader.color.full_range) == (COUNT, 32, 32, True)
    assert np.array_equal(reader.read(0, COUNT), FRAMES)
    assert reader.pts_s.tolist() == list(range(COUNT))
    assert reader.check() == []
    assert [path.name for path in packed.parent.iterdir()] == [packed.name]


def test_zarr_itself_opens_it(packed: Path) -> None:
    group = zarr.open_group(zarr.storage.ZipStore(packed), mode="r")
    assert np.array_equal(np.asarray(group["planes"][COUNT - 1]), FRAMES[-1])


def test_equal_frames_are_an_equal_file(packed: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.zarr.zip"
    write_frames(again, FRAMES, map(float, range(COUNT)), ColorSpec(full_range=True))
    assert again.read_bytes() == packed.read_bytes()


def test_one_frame_reads_only_its_chunk(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FrameReader(packed)
    read, sizes = os.pread, list[int]()

    def counted(handle: int, count: int, place: int) -> bytes:
        sizes.append(count)
        return read(handle, count, place)

    monkeypatch.setattr(os, "pread", counted)
    assert np.array_equal(reader.read(7)[0], FRAMES[7])
    # the shard's index, then the frame: random bytes do not shrink
    assert sum(sizes) < 3 * FRAMES[7].nbytes + 16 * SHARD_FRAMES + 64
    assert packed.stat().st_size > 20 * sum(sizes)


def test_what_is_no_such_file_is_said_so(packed: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no frame array"):
        FrameReader(tmp_path / "none.zarr.zip")
    packed.write_bytes(packed.read_bytes()[:-30])
    with pytest.raises(StoreError, match="damaged"):
        FrameReader(packed)


def test_a_missing_shard_is_not_black_pictures(packed: Path) -> None:
    reader = FrameReader(packed)
    assert reader._packed is not None
    del reader._packed.places["planes/c/1/0/0"]
    with pytest.raises(IntegrityError, match="is missing"):
        reader.read(SHARD_FRAMES)
