from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage_schemas import frames as module
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.frames import SHARD_FRAMES, ColorSpec, FrameReader, FrameWriter, Planes
from storage_schemas.ids import digest_frame, digest_frames
from tests.frame_arrays import write_frames

COLOR = ColorSpec("bt601", full_range=True)
Picture = Callable[[int], Planes]


def write(path: Path, frames: list[Planes]) -> None:
    write_frames(path, frames, map(float, range(len(frames))), COLOR)


def shard(path: Path, number: int = 0) -> Path:
    return path / "planes" / "c" / str(number) / "0" / "0"


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 9),
    height=st.sampled_from([4, 8, 12]),
    width=st.sampled_from([2, 6, 16]),
    shard_frames=st.integers(1, 5),
    expected=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    height: int,
    width: int,
    shard_frames: int,
    expected: bool,
    seed: int,
) -> None:
    path = tmp_path_factory.mktemp("frames") / "planes.zarr"
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
    assert (reader.count, reader.height, reader.width) == (count, height, width)
    assert (written.count, written.height, written.width) == (count, height, width)
    assert reader.color == COLOR
    assert np.array_equal(reader.pts_s, times)
    assert [int(value) for value in reader.digests] == [digest_frame(planes) for planes in frames]
    assert written.checksum == digest_frames(reader.digests)
    assert written.raw_bytes == frames.size


@pytest.mark.parametrize("count", [SHARD_FRAMES - 1, SHARD_FRAMES, SHARD_FRAMES + 1, 2 * SHARD_FRAMES + 3])
def test_arrays_around_the_size_of_a_shard(tmp_path: Path, picture: Picture, count: int) -> None:
    path = tmp_path / "planes.zarr"
    frames = [picture(number) for number in range(count)]
    write(path, frames)
    reader = FrameReader(path)
    assert reader.count == count
    assert np.array_equal(reader.read(0, count), np.stack(frames))
    assert len(list((path / "planes" / "c").iterdir())) == -(-count // SHARD_FRAMES)


def test_black_frames_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "planes.zarr"
    write(path, [np.zeros((24, 32), np.uint8)] * 3)
    assert shard(path).stat().st_size > 0
    assert not FrameReader(path).read(0, 3).any()
    assert FrameReader(path).check() == []


def test_only_the_touched_shard_is_needed(tmp_path: Path, picture: Picture) -> None:
    path = tmp_path / "planes.zarr"
    write(path, [picture(number) for number in range(SHARD_FRAMES + 2)])
    shard(path).unlink()
    assert np.array_equal(FrameReader(path).read(SHARD_FRAMES)[0], picture(SHARD_FRAMES))


def test_a_missing_file_is_no_black_picture(tmp_path: Path, picture: Picture) -> None:
    path = tmp_path / "planes.zarr"
    write(path, [picture(number) for number in range(SHARD_FRAMES + 2)])
    shard(path, 1).unlink()
    reader = FrameReader(path)
    with pytest.raises(IntegrityError, match="is missing"):
        reader.read(SHARD_FRAMES - 1, 2)
    assert reader.check() == [SHARD_FRAMES, SHARD_FRAMES + 1]


def test_a_flipped_byte_is_found(tmp_path: Path, picture: Picture) -> None:
    path = tmp_path / "planes.zarr"
    write(path, [picture(number) for number in range(4)])
    raw = bytearray(shard(path).read_bytes())
    raw[len(raw) // 8] ^= 1
    shard(path).write_bytes(raw)
    reader = FrameReader(path)
    with pytest.raises(IntegrityError, match=r"frames 0…4 of"):
        reader.read(0, 4)
    assert reader.check() == [0]
    assert np.array_equal(reader.read(3)[0], picture(3))


def test_a_cut_off_file_is_found(tmp_path: Path, picture: Picture) -> None:
    path = tmp_path / "planes.zarr"
    write(path, [picture(number) for number in range(4)])
    raw = shard(path).read_bytes()
    shard(path).write_bytes(raw[: len(raw) // 2])
    assert FrameReader(path).check() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["digest", "pts_s"])
def test_damage_in_the_small_arrays_is_found(tmp_path: Path, picture: Picture, name: str) -> None:
    path = tmp_path / "planes.zarr"
    write(path, [picture(number) for number in range(4)])
    chunk = path / name / "c" / "0"
    raw = bytearray(chunk.read_bytes())
    raw[-1] ^= 255
    chunk.write_bytes(raw)
    reader = FrameReader(path)
    with pytest.raises(IntegrityError, match=name):
        _ = reader.digests if name == "digest" else reader.pts_s


def test_another_picture_under_an_old_checksum_is_found(tmp_path: Path, picture: Picture) -> None:
    one, two = tmp_path / "one.zarr", tmp_path / "two.zarr"
    write(one, [picture(number) for number in range(4)])
    write(two, [picture(0), picture(1), picture(9), picture(3)])
    shard(one).write_bytes(shard(two).read_bytes())
    assert FrameReader(one).check() == [2]


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, 5), (4, 1), (2, -1)])
def test_reading_outside_is_refused(tmp_path: Path, picture: Picture, first: int, count: int) -> None:
    path = tmp_path / "planes.zarr"
    write(path, [picture(number) for number in range(4)])
    with pytest.raises(IndexError, match="of 4"):
        FrameReader(path).read(first, count)
    assert FrameReader(path).read(4, 0).shape == (0, 24, 32)


def test_no_frame_array_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run the build again"):
        FrameReader(tmp_path / "none.zarr")


def test_frames_that_do_not_fit_are_refused(tmp_path: Path, picture: Picture) -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        FrameWriter(tmp_path / "a.zarr", 32, 18, COLOR)
    writer = FrameWriter(tmp_path / "b.zarr", 32, 16, COLOR)
    for wrong in (picture(0)[:1], picture(0).astype(np.uint16), picture(0)[:, :16]):
        with pytest.raises(ValueError, match="does not fit"):
            writer.append(wrong, 0.0)


def test_more_frames_than_announced_are_refused(tmp_path: Path, picture: Picture) -> None:
    writer = FrameWriter(tmp_path / "a.zarr", 32, 16, COLOR, expected=2)
    for number in range(3):
        writer.append(picture(number), float(number))
    with pytest.raises(ValueError, match="announced"):
        writer.finish()


def test_an_array_of_no_frames_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        write(tmp_path / "a.zarr", [])


def test_memory_holds_one_shard(tmp_path: Path, picture: Picture) -> None:
    writer = FrameWriter(tmp_path / "a.zarr", 32, 16, COLOR, expected=5)
    assert writer._buffer.nbytes == 5 * 24 * 32
    long = FrameWriter(tmp_path / "b.zarr", 32, 16, COLOR, expected=10_000)
    assert long._buffer.nbytes == SHARD_FRAMES * 24 * 32
