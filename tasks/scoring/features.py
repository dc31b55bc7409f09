"""Features of frames, computed once for both videos of a pair and all aspects of a source.

A *feature* is one row of numbers per frame: a CLIP embedding, a sharpness. Rows are stored by the frame's
identity, so that equal frames of two videos share one. A store has them in ::

    cache/features/<key of the feature>/<family of the videos>/<unique name>.parquet

Files are only added, each atomically by one writer. A damaged file is ignored.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage_schemas.commit import write_atomic
from storage_schemas.errors import SetAside
from storage_schemas.ids import canonical_json, digest_text
from storage_schemas.parquet import open_parquet
from storage_schemas.row_store import new_name
from storage_schemas.store import Store
from tasks.pairs.view import Side

log = logging.getLogger(__name__)

Rows = NDArray[Any]

#: Maximum rows per file, and therefore the rows that a killed process can lose.
ROWS_PER_FILE = 2048
#: Memory for rows in one process, in bytes: 60,000 embeddings of 1,024 numbers.
KEPT_BYTES = 256 << 20
#: Approximate overhead of a row in bytes: identity, dictionary entry, array.
_ROW_OVERHEAD = 300


class FrameFeature(ABC):
    """Computes one row of numbers for each frame.

    Class attributes
    ----------------
    name
        Name in files and reports.
    dtype
        Type of the numbers.
    """

    name: str
    dtype: ClassVar[Literal["float32", "float64"]] = "float32"

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of values in a row."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return everything the numbers depend on besides the frame: model digest, preprocessing.

        It has to be JSON-serialisable.
        """

    @abstractmethod
    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the rows of frames by index, shape (n, `width`).

        Parameters
        ----------
        side
            The video; only the requested frames need to be read.
        indices
            Ascending indices, at most a batch of them.
        """

    def ids(self, side: Side, indices: Sequence[int]) -> list[str]:
        """Return the identity of each row: that of its frame."""
        return side.frame_ids(indices)

    @property
    def description(self) -> str:
        """The feature as canonical JSON, which identifies its files."""
        return canonical_json(
            {"name": self.name, "width": self.width, "dtype": self.dtype, "settings": self.settings()}
        )

    @property
    def key(self) -> str:
        """Checksum of the description."""
        return digest_text(self.description)[:32]


@dataclass(frozen=True)
class Features:
    """Rows of the requested frames, and their cost.

    Parameters
    ----------
    rows
        Shape (n, width), in the order of the indices.
    needed
        Number of requested rows.
    computed
        Number of rows that had to be computed.
    """

    rows: Rows
    needed: int
    computed: int

    def counts(self) -> dict[str, int]:
        """Return both counts, for a judgement's details."""
        return {"needed": self.needed, "computed": self.computed}


class _Shelf:
    """The known rows of one feature for one family of videos."""

    def __init__(self, feature: FrameFeature, folder: Path | None) -> None:
        self.feature, self.folder = feature, folder
        self.rows: dict[str, Rows] = {}
        self.lock = threading.Lock()
        self._read: set[str] = set()
        self._schema = pa.schema(
            [
                ("id", pa.string()),
                ("row", pa.list_(pa.from_numpy_dtype(np.dtype(feature.dtype)), feature.width)),
            ],
            metadata={"feature": feature.description},
        )

    @property
    def bytes(self) -> int:
        """Approximate memory of the rows."""
        itemsize = np.dtype(self.feature.dtype).itemsize
        return len(self.rows) * (self.feature.width * itemsize + _ROW_OVERHEAD)

    def refresh(self) -> None:
        """Read new files, including those of other processes."""
        if self.folder is None or not self.folder.is_dir():
            return
        for path in sorted(self.folder.glob("*.parquet")):
            if path.name not in self._read:
                self._read.add(path.name)
                self._take(path)

    def _take(self, path: Path) -> None:
        try:
            with open_parquet(path, page_checksum_verification=True) as file:
                if (file.schema_arrow.metadata or {}).get(b"feature") != self._schema.metadata[b"feature"]:
                    raise pa.ArrowInvalid("it has another feature")
                table = file.read()
            ids = table["id"].to_pylist()
            flat = table["row"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            rows = flat.reshape(len(ids), self.feature.width)
        except FileNotFoundError:
            return  # removed in the meantime
        except (pa.ArrowException, OSError, ValueError) as problem:
            log.warning("features in %s are ignored and computed again: %s", path, problem)
            return
        self.rows.update(zip(ids, rows, strict=True))

    def add(self, ids: Sequence[str], rows: Rows) -> None:
        """Store rows in memory and in a new file."""
        self.rows.update(zip(ids, rows, strict=True))
        if self.folder is None or not ids:
            return
        flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
        values = pa.FixedSizeListArray.from_arrays(flat, self.feature.width)
        sink = pa.BufferOutputStream()
        table = pa.table([pa.array(ids, pa.string()), values], schema=self._schema)
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        data = sink.getvalue().to_pybytes()
        path = self.folder / new_name(hashlib.sha256(data).hexdigest(), ".parquet")
        self._read.add(path.name)
        try:
            write_atomic(path, data)
        except (OSError, SetAside) as problem:
            # this process has the rows; only the next one has to compute them again
            log.warning("features of frames are not stored in %s: %s", self.folder, problem)


class FeatureCache:
    """Rows of features by frame, in memory and, given a folder, on disk.

    It is thread-safe; two threads do not compute the same rows of a source concurrently.

    Parameters
    ----------
    folder
        Folder of the files, such as a store's `features`; None for memory only.
    kept_bytes
        Memory for rows; the least recently used families are dropped first.
    """

    def __init__(self, folder: Path | None = None, kept_bytes: int = KEPT_BYTES) -> None:
        self.folder, self.kept_bytes = folder, kept_bytes
        self._shelves: OrderedDict[tuple[str, str], _Shelf] = OrderedDict()
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[int, int]] = {}

    @classmethod
    def of(cls, store: Store) -> FeatureCache:
        """Return the cache of a store."""
        return cls(store.features)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the numbers of requested and of computed rows by feature."""
        with self._lock:
            return {
                name: {"needed": needed, "computed": computed}
                for name, (needed, computed) in sorted(self._counts.items())
            }

    def compute_missing(
        self, side: Side, indices: Sequence[int], feature: FrameFeature, batch: int = 16
    ) -> Features:
        """Return the rows of frames; only frames without a known row are read and computed.

        Parameters
        ----------
        side
            The video.
        indices
            Indices of the frames, in any order and possibly repeated.
        feature
            The feature to compute.
        batch
            Number of frames computed and held in memory at once.

        Raises
        ------
        ValueError
            If the feature's rows do not have its declared shape.
        """
        ids = feature.ids(side, indices)
        shelf = self._shelf(side.family, feature)
        with shelf.lock:
            if any(id_ not in shelf.rows for id_ in ids):
                shelf.refresh()
            missing: dict[str, int] = {}
            for id_, index in sorted(zip(ids, indices, strict=True), key=lambda item: item[1]):
                if id_ not in shelf.rows:
                    missing.setdefault(id_, index)
            for some in _slices(list(missing), ROWS_PER_FILE):
                _compute(shelf, side, {id_: missing[id_] for id_ in some}, batch)
            rows = np.empty((len(ids), feature.width), feature.dtype)
            for at, id_ in enumerate(ids):
                rows[at] = shelf.rows[id_]
        self._note(feature.name, len(ids), len(missing))
        return Features(rows, len(ids), len(missing))

    def _shelf(self, family: str, feature: FrameFeature) -> _Shelf:
        key = feature.key
        with self._lock:
            shelf = self._shelves.get((key, family))
            if shelf is None:
                folder = None if self.folder is None else self.folder / key / digest_text(family)[:32]
                shelf = self._shelves[key, family] = _Shelf(feature, folder)
            self._shelves.move_to_end((key, family))
            while len(self._shelves) > 1 and sum(s.bytes for s in self._shelves.values()) > self.kept_bytes:
                self._shelves.popitem(last=False)
            return shelf

    def _note(self, name: str, needed: int, computed: int) -> None:
        with self._lock:
            before = self._counts.get(name, (0, 0))
            self._counts[name] = (before[0] + needed, before[1] + computed)


def _compute(shelf: _Shelf, side: Side, missing: dict[str, int], batch: int) -> None:
    ids: list[str] = []
    parts: list[Rows] = []
    feature = shelf.feature
    try:
        for some in _slices(list(missing), batch):
            rows = np.asarray(feature.compute(side, [missing[id_] for id_ in some]), feature.dtype)
            if rows.shape != (len(some), feature.width):
                raise ValueError(f"{feature.name}: {rows.shape} for {len(some)} rows of {feature.width}")
            ids += some
            parts.append(rows)
    finally:
        # rows computed before a model failed are not lost
        if ids:
            shelf.add(ids, np.concatenate(parts))


def _slices(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
