"""Frame arrays, as a folder and as one file: what was written is read, and damage is found."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas import frames as module
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.frames import SHARD_FRAMES, ColorSpec, FrameReader, FrameWriter, Planes
from storage_schemas.ids import digest_frame, digest_frames
from tests.frame_arrays import write_frames
from tests.storage_schemas.written_store import picture

COLOR = ColorSpec("bt601", full_range=True)
PICTURES = [picture(number) for number in range(4)]
FOLDER, ZIP = "planes.zarr", "planes.zarr.zip"


def written(path: Path, frames: list[Planes] | int = 4) -> FrameReader:
    """Write an array of these frames, or of that number, and open it."""
    frames = [picture(number) for number in range(frames)] if isinstance(frames, int) else frames
    write_frames(path, frames, map(float, range(len(frames))), COLOR)
    return FrameReader(path)


def shard(path: Path, number: int = 0) -> Path:
    return path / "planes" / "c" / str(number) / "0" / "0"


@settings(max_examples=20)
@given(
    count=st.integers(1, 9),
    height=st.sampled_from([4, 8, 12]),
    width=st.sampled_from([2, 6, 16]),
    shard_frames=st.integers(1, 5),
    expected=st.booleans(),
    name=st.sampled_from([FOLDER, ZIP]),
    seed=st.integers(0, 1000),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    height: int,
    width: int,
    shard_frames: int,
    expected: bool,
    name: str,
    seed: int,
) -> None:
    path = tmp_path_factory.mktemp("frames") / name
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 256, (count, height * 3 // 2, width), dtype=np.uint8)
    times = np.cumsum(rng.random(count))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SHARD_FRAMES", shard_frames)
        writer = FrameWriter(path, width, height, COLOR, count if expected else None)
        for planes, time in zip(frames, times, strict=True):
            writer.append(planes, float(time))
        written = writer.finish()
        reader = FrameReader(path)
        assert np.array_equal(reader.read(0, count), frames)
        first = count // 3
        assert np.array_equal(reader.read(first, count - first), frames[first:])
        assert np.array_equal(np.concatenate(list(reader.batches(0, count, 2))), frames)
        assert reader.check() == []
    assert [file.name for file in path.parent.iterdir()] == [name]
    assert (reader.count, reader.height, reader.width) == (count, height, width)
    assert (written.count, written.height, written.width) == (count, height, width)
    assert reader.color == COLOR
    assert np.array_equal(reader.pts_s, times)
    assert [int(value) for value in reader.digests] == [digest_frame(planes) for planes in frames]
    assert written.checksum == digest_frames(reader.digests)
    assert written.raw_bytes == frames.size


def test_arrays_around_the_size_of_a_shard(tmp_path: Path) -> None:
    whole = SHARD_FRAMES
    for count, shards in ((whole - 1, 1), (whole, 1), (whole + 1, 2), (2 * whole + 3, 3)):
        path = tmp_path / f"{count}.zarr"
        reader = written(path, count)
        assert reader.count == count
        assert np.array_equal(reader.read(0, count), [picture(number) for number in range(count)])
        assert len(list((path / "planes" / "c").iterdir())) == shards


def test_only_the_touched_shard_is_needed_and_a_missing_one_is_not_a_black_picture(tmp_path: Path) -> None:
    reader = written(tmp_path / FOLDER, SHARD_FRAMES + 2)
    shard(tmp_path / FOLDER, 1).rename(tmp_path / "kept")
    with pytest.raises(IntegrityError, match="is missing"):
        reader.read(SHARD_FRAMES - 1, 2)
    assert reader.check() == [SHARD_FRAMES, SHARD_FRAMES + 1]
    (tmp_path / "kept").rename(shard(tmp_path / FOLDER, 1))
    shard(tmp_path / FOLDER).unlink()
    assert np.array_equal(FrameReader(tmp_path / FOLDER).read(SHARD_FRAMES)[0], picture(SHARD_FRAMES))


def test_black_frames_are_stored(tmp_path: Path) -> None:
    reader = written(tmp_path / FOLDER, [np.zeros((24, 32), np.uint8)] * 3)
    assert shard(tmp_path / FOLDER).stat().st_size > 0
    assert not reader.read(0, 3).any()
    assert reader.check() == []


def test_flipped_cut_off_and_exchanged_pictures_are_found(tmp_path: Path) -> None:
    reader, file = written(tmp_path / FOLDER), shard(tmp_path / FOLDER)
    whole = file.read_bytes()
    raw = bytearray(whole)
    raw[len(raw) // 8] ^= 1
    file.write_bytes(raw)
    with pytest.raises(IntegrityError, match=r"frames 0…4 of"):
        reader.read(0, 4)
    assert reader.check() == [0]
    assert np.array_equal(reader.read(3)[0], PICTURES[3])
    file.write_bytes(whole[: len(whole) // 2])
    assert FrameReader(tmp_path / FOLDER).check() == [0, 1, 2, 3]
    written(tmp_path / "two.zarr", [*PICTURES[:2], picture(9), PICTURES[3]])
    file.write_bytes(shard(tmp_path / "two.zarr").read_bytes())
    assert FrameReader(tmp_path / FOLDER).check() == [2]


@pytest.mark.parametrize("name", ["digest", "pts_s"])
def test_damage_in_the_small_arrays_is_found(tmp_path: Path, name: str) -> None:
    written(tmp_path / FOLDER)
    chunk = tmp_path / FOLDER / name / "c" / "0"
    raw = bytearray(chunk.read_bytes())
    raw[-1] ^= 255
    chunk.write_bytes(raw)
    reader = FrameReader(tmp_path / FOLDER)
    with pytest.raises(IntegrityError, match=name):
        _ = reader.digests if name == "digest" else reader.pts_s


def test_reading_outside_or_nothing_is_refused(tmp_path: Path) -> None:
    reader = written(tmp_path / FOLDER)
    for first, count in [(-1, 1), (0, 5), (4, 1), (2, -1)]:
        with pytest.raises(IndexError, match="of 4"):
            reader.read(first, count)
    assert reader.read(4, 0).shape == (0, 24, 32)
    with pytest.raises(StoreError, match="run the build again"):
        FrameReader(tmp_path / "none.zarr")


def test_frames_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        FrameWriter(tmp_path / "a.zarr", 32, 18, COLOR)
    writer = FrameWriter(tmp_path / "b.zarr", 32, 16, COLOR, expected=2)
    for wrong in (PICTURES[0][:1], PICTURES[0].astype(np.uint16), PICTURES[0][:, :16]):
        with pytest.raises(ValueError, match="does not match"):
            writer.append(wrong, 0.0)
    for number in range(3):
        writer.append(PICTURES[number], float(number))
    with pytest.raises(ValueError, match="more frames than the expected"):
        writer.finish()
    with pytest.raises(ValueError, match="at least one"):
        written(tmp_path / "c.zarr", 0)


def test_memory_holds_one_shard(tmp_path: Path) -> None:
    for expected, held in ((5, 5), (10_000, SHARD_FRAMES)):
        writer = FrameWriter(tmp_path / f"{expected}.zarr", 32, 16, COLOR, expected=expected)
        assert writer._buffer.nbytes == held * 24 * 32


@pytest.fixture
def packed(tmp_path: Path) -> FrameReader:
    """An array in one file of one shard and 5 frames more."""
    return written(tmp_path / ZIP, SHARD_FRAMES + 5)


def test_a_file_is_read_by_zarr_and_equal_for_equal_frames(packed: FrameReader, tmp_path: Path) -> None:
    group = zarr.open_group(zarr.storage.ZipStore(tmp_path / ZIP), mode="r")
    assert np.array_equal(np.asarray(group["planes"][SHARD_FRAMES + 4]), picture(SHARD_FRAMES + 4))
    written(tmp_path / "again.zarr.zip", SHARD_FRAMES + 5)
    assert (tmp_path / "again.zarr.zip").read_bytes() == (tmp_path / ZIP).read_bytes()


def test_read_takes_one_chunk(packed: FrameReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, sizes = os.pread, list[int]()

    def counted(handle: int, count: int, place: int) -> bytes:
        sizes.append(count)
        return read(handle, count, place)

    monkeypatch.setattr(os, "pread", counted)
    assert np.array_equal(packed.read(7)[0], picture(7))
    # the shard's index, then the frame: random bytes do not shrink
    assert sum(sizes) < 3 * picture(7).nbytes + 16 * SHARD_FRAMES + 64
    assert (tmp_path / ZIP).stat().st_size > 20 * sum(sizes)


def test_reader_names_a_file_that_is_missing_or_damaged(packed: FrameReader, tmp_path: Path) -> None:
    assert packed._packed is not None
    del packed._packed.ranges["planes/c/1/0/0"]
    with pytest.raises(IntegrityError, match="is missing"):
        packed.read(SHARD_FRAMES)
    with pytest.raises(StoreError, match="no frame array"):
        FrameReader(tmp_path / "none.zarr.zip")
    (tmp_path / ZIP).write_bytes((tmp_path / ZIP).read_bytes()[:-30])
    with pytest.raises(StoreError, match="damaged"):
        FrameReader(tmp_path / ZIP)
