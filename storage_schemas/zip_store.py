"""Zarr in one uncompressed ZIP file: few files for parallel file systems, read by ranges.

Any Zarr reads such a file with its ``ZipStore``. That one reads a whole entry to get at a part of it, so a
single frame would cost its whole shard; this store reads only the bytes that are asked for.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype

#: An entry's time, always the same, so that equal content is an equal file.
_TIME = (1980, 1, 1, 0, 0, 0)
#: Fixed part of a local header, and where it has the lengths of name and extra field.
_HEADER, _LENGTHS = 30, 26


def append(path: Path, entries: Mapping[str, bytes]) -> None:
    """Add entries, by their names, to a ZIP file or an empty file, uncompressed and without their times."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as packed:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, content)


class ZipRanges(Store):
    """Reads a file of :func:`append`.

    The file is opened for each read, so that many of these can be held.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not such a file.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, path: Path) -> None:
        super().__init__(read_only=True)
        self.path = path
        #: First byte and number of bytes of each entry, by its name.
        self.places: dict[str, tuple[int, int]] = {}
        try:
            with zipfile.ZipFile(path) as packed, path.open("rb") as file:
                for entry in packed.infolist():
                    lengths = os.pread(file.fileno(), 4, entry.header_offset + _LENGTHS)
                    more = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
                    if entry.compress_type != zipfile.ZIP_STORED:
                        raise ValueError(f"{entry.filename} is compressed")
                    self.places[entry.filename] = (entry.header_offset + _HEADER + more, entry.file_size)
        except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as problem:
            raise ValueError(f"{path} is damaged: {problem}") from problem
        self._is_open = True

    def __eq__(self, other: object) -> bool:
        """Return whether another store reads the same file."""
        return isinstance(other, ZipRanges) and self.path == other.path

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, key: str) -> bool:
        """Return whether there is an entry of a name."""
        return key in self.places

    def __str__(self) -> str:
        """Return the address of the file."""
        return f"zip://{self.path}"

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of an entry that are asked for; None if there is no such entry."""
        if key not in self.places:
            return None
        begin, size = self.places[key]
        first, end = 0, size
        if isinstance(byte_range, RangeByteRequest):
            first, end = byte_range.start, byte_range.end
        elif isinstance(byte_range, OffsetByteRequest):
            first = byte_range.offset
        elif isinstance(byte_range, SuffixByteRequest):
            first = max(0, size - byte_range.suffix)
        with self.path.open("rb") as file:
            count = max(0, min(end, size) - first)
            return prototype.buffer.from_bytes(os.pread(file.fileno(), count, begin + first))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return parts of entries."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Return whether there is an entry of a name."""
        return key in self.places

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse: the store is read only."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Refuse: the store is read only."""
        self._check_writable()

    async def list(self) -> AsyncIterator[str]:
        """Yield the names of all entries."""
        for key in self.places:
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of the entries that begin so."""
        for key in self.places:
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below one, once each."""
        inside = f"{prefix.rstrip('/')}/" if prefix else ""
        below = (key.removeprefix(inside) for key in self.places if key.startswith(inside))
        for name in dict.fromkeys(key.split("/")[0] for key in below):
            yield name
