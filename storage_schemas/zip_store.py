"""Zarr in one uncompressed ZIP file: few files for parallel file systems, read by ranges.

Any Zarr reads such a file with its ``ZipStore``. But ``ZipStore`` reads a whole entry to access a part of
it, so a single frame would cost its whole shard; this store reads only the requested bytes.
"""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype

from storage_schemas.away import ask_again, is_away

#: The constant time of entries, so that equal content gives equal files.
_TIME = (1980, 1, 1, 0, 0, 0)
#: Fixed part of a local header, and its offset of the lengths of name and extra field.
_HEADER, _LENGTHS = 30, 26


def append(path: Path, entries: Mapping[str, bytes], held: Sequence[str] = ()) -> None:
    """Add entries, by their names, to a ZIP file or an empty file, uncompressed and without their times.

    Parameters
    ----------
    held
        Names of the entries already in the file.

    Raises
    ------
    OSError
        If it has other entries: earlier ones were lost.
    """
    # opened here: if opening fails for any reason, `zipfile` would empty the file and continue
    with path.open("r+b") as file, zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as packed:
        _require_entries(path, packed, held)
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, content)


def check_written(path: Path, names: Sequence[str]) -> None:
    """Read back a ZIP file whose entries should have these names.

    Raises
    ------
    OSError
        If it has other entries, or the content of one differs from what was written.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as packed:
            _require_entries(path, packed, names)
            damaged = packed.testzip()
    except zipfile.BadZipFile as problem:
        raise OSError(errno.EIO, f"it was written, but cannot be read ({problem})", str(path)) from problem
    if damaged is not None:
        raise OSError(errno.EIO, f"{damaged} differs from what was written", str(path))


def _require_entries(path: Path, packed: zipfile.ZipFile, names: Sequence[str]) -> None:
    if packed.namelist() != list(names):
        what = f"it has {len(packed.namelist())} of the {len(names)} entries that were written"
        raise OSError(errno.EIO, what, str(path))


def _ranges(path: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    with path.open("rb") as file, zipfile.ZipFile(file) as packed:
        for entry in packed.infolist():
            lengths = os.pread(file.fileno(), 4, entry.header_offset + _LENGTHS)
            more = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{entry.filename} is compressed")
            yield entry.filename, (entry.header_offset + _HEADER + more, entry.file_size)


class ZipRanges(Store):
    """Reads a file written by :func:`append`.

    The file is opened for each read, so that many instances can exist.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not such a file.
    OSError
        If it cannot be read.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, path: Path) -> None:
        super().__init__(read_only=True)
        self.path = path
        try:
            #: First byte and number of bytes of each entry, by its name.
            self.ranges: dict[str, tuple[int, int]] = dict(ask_again(lambda: list(_ranges(path))))
        except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as problem:
            if is_away(problem):
                raise OSError(errno.EIO, "it cannot be read", str(path)) from problem
            raise ValueError(f"{path} is damaged: {problem}") from problem
        self._is_open = True

    def __eq__(self, other: object) -> bool:
        """Return whether another store reads the same file."""
        return isinstance(other, ZipRanges) and self.path == other.path

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, key: str) -> bool:
        """Return whether there is an entry with this name."""
        return key in self.ranges

    def __str__(self) -> str:
        """Return the address of the file."""
        return f"zip://{self.path}"

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the requested bytes of an entry; None if there is no such entry."""
        if key not in self.ranges:
            return None
        begin, size = self.ranges[key]
        first, end = 0, size
        if isinstance(byte_range, RangeByteRequest):
            first, end = byte_range.start, byte_range.end
        elif isinstance(byte_range, OffsetByteRequest):
            first = byte_range.offset
        elif isinstance(byte_range, SuffixByteRequest):
            first = max(0, size - byte_range.suffix)
        count = max(0, min(end, size) - first)
        with self.path.open("rb") as file:
            return prototype.buffer.from_bytes(os.pread(file.fileno(), count, begin + first))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return parts of entries."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Return whether there is an entry with this name."""
        return key in self.ranges

    async def set(self, key: str, value: Buffer) -> None:
        """Raise an error: the store is read-only."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Raise an error: the store is read-only."""
        self._check_writable()

    async def list(self) -> AsyncIterator[str]:
        """Yield the names of all entries."""
        for key in self.ranges:
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of the entries with a prefix."""
        for key in self.ranges:
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below a prefix, once each."""
        inside = f"{prefix.rstrip('/')}/" if prefix else ""
        below = (key.removeprefix(inside) for key in self.ranges if key.startswith(inside))
        for name in dict.fromkeys(key.split("/")[0] for key in below):
            yield name
