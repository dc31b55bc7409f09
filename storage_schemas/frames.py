"""Frame arrays: chunked Zarr of frames in video format.

A frame is 8-bit 4:2:0: one ``(H·3/2, W)`` array with the luma rows first, then the U plane and the V
plane, each ``H/4`` packed rows (I420). The group holds

======== ============== ======== =====================================================
array    shape          dtype    what
======== ============== ======== =====================================================
planes   (T, H·3/2, W)  uint8    inner chunk one frame, shard `SHARD_FRAMES` frames
pts_s    (T,)           float64  time of the image, in seconds of the source
digest   (T,)           uint64   checksum of each frame's planes (:func:`ids.digest_frame`)
======== ============== ======== =====================================================

and the attributes `matrix` and `full_range`. Every inner chunk has a CRC-32C. Each shard has one writer. A
group whose path ends in ``.zip`` is one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from storage_schemas.away import ask_again, is_away
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.ids import digest_frame, digest_frames

if TYPE_CHECKING:
    # imported lazily, so that commands that use no frames start faster
    import zarr

#: Frames per shard: 28 MB of planes at 512×288, the maximum that a writer buffers.
SHARD_FRAMES = 128

Planes = NDArray[np.uint8]
Matrix = Literal["bt601", "bt709", "bt2020"]


@dataclass(frozen=True, slots=True)
class ColorSpec:
    """Conversion of planes to RGB: the matrix, and whether luma spans 0–255 (otherwise 16–235)."""

    matrix: Matrix = "bt709"
    full_range: bool = False


@dataclass(frozen=True, slots=True)
class WrittenFrames:
    """Size and checksum of a finished frame array."""

    count: int
    height: int
    width: int
    checksum: str
    raw_bytes: int


@cache
def _set_zarr() -> None:
    """Let Zarr code frames in one thread, a few at once.

    Each core already runs a separate process. Passing each frame to a separate thread would take Zarr as
    long as decoding it, and a third more memory.
    """
    import zarr

    zarr.config.set({"codec_pipeline.batch_size": 16, "threading.max_workers": 1})


class FrameWriter:
    """Writes a frame array sequentially, buffering one shard in memory.

    Parameters
    ----------
    path
        Folder of the Zarr group, or the ``.zip`` file that holds it; it must not exist.
    width, height
        Size of the frames in pixels; the height is a multiple of 4, the width of 2.
    color
        Colour matrix and range of the planes.
    expected
        Number of frames, if known: a short array needs a smaller buffer.
    """

    def __init__(
        self, path: Path, width: int, height: int, color: ColorSpec, expected: int | None = None
    ) -> None:
        if height % 4 or width % 2:
            raise ValueError(f"frames of {width}×{height}: height must be a multiple of 4, width of 2")
        import zarr
        import zarr.codecs
        import zarr.storage

        _set_zarr()
        self._shape = (height * 3 // 2, width)
        self._path = path
        #: Entries not yet in the ``.zip`` file (at most one shard of frames), and the names of entries in it.
        self._entries: dict[str, Any] = {}
        self._packed: list[str] = []
        if path.suffix == ".zip":
            path.touch(exist_ok=False)
        self._group = zarr.create_group(
            store=zarr.storage.MemoryStore(self._entries) if path.suffix == ".zip" else str(path),
            attributes={"matrix": color.matrix, "full_range": color.full_range},
        )
        self._planes = self._group.create_array(
            "planes",
            shape=(expected or 0, *self._shape),
            chunks=(1, *self._shape),
            shards=(SHARD_FRAMES, *self._shape),
            dtype="uint8",
            compressors=[
                zarr.codecs.BloscCodec(cname="zstd", clevel=1, shuffle="noshuffle"),
                zarr.codecs.Crc32cCodec(),
            ],
            # store all-black frames too: otherwise a missing chunk would be indistinguishable
            config={"write_empty_chunks": True},
        )
        self._buffer = np.empty((min(expected or SHARD_FRAMES, SHARD_FRAMES), *self._shape), np.uint8)
        self._held = 0
        self._written = 0
        self._pts: list[float] = []
        self._digests: list[int] = []

    @property
    def count(self) -> int:
        """Number of frames written so far."""
        return len(self._digests)

    def append(self, planes: Planes, pts_s: float) -> None:
        """Append one frame, ``(H·3/2, W)`` uint8, whose image has time `pts_s`."""
        if planes.shape != self._shape or planes.dtype != np.uint8:
            raise ValueError(f"a frame of {planes.shape} {planes.dtype} does not match {self._shape} uint8")
        self._buffer[self._held] = planes
        self._held += 1
        self._pts.append(pts_s)
        self._digests.append(digest_frame(planes))
        if self._held == len(self._buffer):
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        if len(self._buffer) < SHARD_FRAMES and self._written:
            raise ValueError(f"more frames than the expected {len(self._buffer)}")
        end = self._written + self._held
        if end > self._planes.shape[0]:
            self._planes.resize((end, *self._shape))
        self._planes[self._written : end] = self._buffer[: self._held]
        self._written, self._held = end, 0
        self._pack("planes/c/")

    def _pack(self, prefix: str = "") -> None:
        """Move the entries with this name prefix into the ``.zip`` file, if there is one."""
        from storage_schemas.zip_store import append

        names = sorted(name for name in self._entries if name.startswith(prefix))
        if names:
            append(self._path, {name: self._entries.pop(name).to_bytes() for name in names}, self._packed)
            self._packed += names

    @property
    def digests(self) -> list[int]:
        """Checksums of the frames written so far."""
        return self._digests

    @property
    def pts_s(self) -> list[float]:
        """Times of the frames written so far, in seconds."""
        return self._pts

    def finish(self) -> WrittenFrames:
        """Write the buffered frames and the small arrays, completing the array.

        Raises
        ------
        OSError
            If the written data cannot be read back.
        """
        import zarr.codecs

        from storage_schemas.zip_store import check_written

        self._flush()
        count = self.count
        if count < self._planes.shape[0]:
            self._planes.resize((count, *self._shape))
        for name, values in (
            ("pts_s", np.asarray(self._pts, "float64")),
            ("digest", np.asarray(self._digests, "uint64")),
        ):
            array = self._group.create_array(
                name,
                shape=(count,),
                chunks=(max(count, 1),),
                dtype=values.dtype,
                compressors=[zarr.codecs.ZstdCodec(level=3), zarr.codecs.Crc32cCodec()],
                config={"write_empty_chunks": True},
            )
            array[:] = values
        self._pack()
        if self._path.suffix == ".zip":
            check_written(self._path, self._packed)
        return WrittenFrames(
            count=count,
            height=self._shape[0] * 2 // 3,
            width=self._shape[1],
            checksum=digest_frames(self._digests),
            raw_bytes=count * self._shape[0] * self._shape[1],
        )


class FrameReader:
    """Reads a frame array lazily, frame by frame.

    Parameters
    ----------
    path
        Folder of the Zarr group, or the file into which it was packed.

    Raises
    ------
    StoreError
        If there is no frame array.
    OSError
        If its file system does not answer; also raised by all methods that read.
    """

    def __init__(self, path: Path) -> None:
        from storage_schemas.zip_store import ZipRanges

        _set_zarr()
        self.path = path
        self._packed: ZipRanges | None = None
        try:
            if path.suffix == ".zip":
                self._packed = ZipRanges(path)
            self._group, self._planes = ask_again(self._opened)
        except (FileNotFoundError, KeyError, ValueError) as problem:
            if is_away(problem):
                raise
            raise StoreError(
                f"no frame array in {path} ({problem}). If frames were evicted, run the build again."
            ) from problem
        attributes = self._group.attrs.asdict()
        self.color = ColorSpec(
            matrix=cast("Matrix", attributes["matrix"]), full_range=bool(attributes["full_range"])
        )
        self.count = int(self._planes.shape[0])
        self.height = int(self._planes.shape[1]) * 2 // 3
        self.width = int(self._planes.shape[2])
        self._small: dict[str, NDArray[Any]] = {}
        self._seen: set[int] = set()

    def _opened(self) -> tuple[zarr.Group, zarr.Array[Any]]:
        import zarr

        group = zarr.open_group(store=self._packed or str(self.path), mode="r", zarr_format=3)
        return group, cast("zarr.Array[Any]", group["planes"])

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self._small:
            try:
                self._small[name] = ask_again(
                    lambda: np.asarray(cast("zarr.Array[Any]", self._group[name])[:])
                )
            except (KeyError, ValueError, RuntimeError, OSError) as problem:
                if is_away(problem):
                    raise
                raise IntegrityError(f"array {name} of {self.path}: {problem}") from problem
            if len(self._small[name]) != self.count:
                raise IntegrityError(f"array {name} of {self.path} does not have {self.count} values")
        return self._small[name]

    @property
    def pts_s(self) -> NDArray[np.float64]:
        """Time of each image in seconds of the source, shape (T,)."""
        return self._array("pts_s")

    @property
    def digests(self) -> NDArray[np.uint64]:
        """Checksum of each frame, shape (T,)."""
        return self._array("digest")

    def read(self, first: int, count: int = 1) -> Planes:
        """Return frames `first` … `first + count - 1` as ``(count, H·3/2, W)`` uint8.

        Raises
        ------
        IndexError
            If the range leaves the array.
        IntegrityError
            If a chunk is damaged or missing.
        """
        if first < 0 or count < 0 or first + count > self.count:
            raise IndexError(f"frames {first}…{first + count} of {self.count}")
        if count:
            self._require_shards(first // SHARD_FRAMES, (first + count - 1) // SHARD_FRAMES)
        try:
            return ask_again(lambda: np.asarray(self._planes[first : first + count]))
        except (ValueError, RuntimeError, OSError) as problem:
            if is_away(problem):
                raise
            raise IntegrityError(f"frames {first}…{first + count} of {self.path}: {problem}") from problem

    def _require_shards(self, first: int, last: int) -> None:
        # Zarr reads a missing file as zeros, which is a valid frame
        for shard in range(first, last + 1):
            if shard not in self._seen:
                name = f"planes/c/{shard}/0/0"
                exists = (self.path / name).is_file() if self._packed is None else name in self._packed
                if not exists:
                    raise IntegrityError(
                        f"{self.path / name} is missing: remove its artifact and build again"
                    )
                self._seen.add(shard)

    def batches(self, first: int, count: int, size: int = 32) -> Iterator[Planes]:
        """Yield the frames of a range in batches of at most `size`."""
        for start in range(first, first + count, size):
            yield self.read(start, min(size, first + count - start))

    def check(self) -> list[int]:
        """Return the indices of the frames that cannot be read or do not match their checksum.

        Raises
        ------
        IntegrityError
            If the checksums themselves are damaged.
        """
        starts = range(0, self.count, SHARD_FRAMES)
        return [index for start in starts for index in self._wrong(start)]

    def _wrong(self, first: int) -> list[int]:
        """Return the wrong frames of the shard that begins there; they are freed before the next shard."""
        count = min(SHARD_FRAMES, self.count - first)
        try:
            planes = self.read(first, count)
        except IntegrityError:
            return [index for index in range(first, first + count) if not self._is_good(index)]
        stored = self.digests[first : first + count].tolist()
        return [first + n for n, frame in enumerate(planes) if digest_frame(frame) != stored[n]]

    def _is_good(self, index: int) -> bool:
        try:
            return digest_frame(self.read(index)[0]) == int(self.digests[index])
        except IntegrityError:
            return False
