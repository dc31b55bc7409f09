"""A cache of decoded frames, because a source's pairs, orders and judges need the same ones."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes
from tasks.pairs.view import Side

#: Memory for frames in one process, in bytes: about 1,200 of 512×288.
KEPT_BYTES = 256 << 20


class FrameCache:
    """The most recently used frames by identity; thread-safe.

    Parameters
    ----------
    most_bytes
        Memory for frames.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self._frames: OrderedDict[str, Planes] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, ids: Sequence[str]) -> dict[str, Planes]:
        """Return the cached ones of some frames."""
        with self._lock:
            cached = {id_: self._frames[id_] for id_ in ids if id_ in self._frames}
            for id_ in cached:
                self._frames.move_to_end(id_)
        return cached

    def put(self, frames: dict[str, Planes]) -> None:
        """Add frames; the least recently used ones are dropped."""
        with self._lock:
            for id_, frame in frames.items():
                if id_ not in self._frames:
                    self._frames[id_] = frame
                    self.bytes += frame.nbytes
            while self.bytes > self.most_bytes:
                self.bytes -= self._frames.popitem(last=False)[1].nbytes


class CachedSide(Side):
    """A video whose frames are not read again while they are cached.

    Parameters
    ----------
    side
        The video; it has to know the identity of its frames without reading them.
    cache
        The cache.
    """

    def __init__(self, side: Side, cache: FrameCache) -> None:
        self._side, self._cache = side, cache
        self.width, self.height, self.color, self.fps = side.width, side.height, side.color, side.fps

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._side)

    @property
    def times_s(self) -> NDArray[np.float64]:
        """Presentation time of each frame, in seconds of this video."""
        return self._side.times_s

    @property
    def family(self) -> str:
        """Family of videos that share frames with this one."""
        return self._side.family

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return the identity of frames."""
        return self._side.frame_ids(indices)

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return frames by index, read-only; only frames that are not cached are read."""
        ids = self.frame_ids(indices)
        frames = self._cache.take(ids)
        missing = {id_: index for id_, index in zip(ids, indices, strict=True) if id_ not in frames}
        if missing:
            read = self._side.planes(list(missing.values()))
            new = {id_: frame.copy() for id_, frame in zip(missing, read, strict=True)}
            self._cache.put(new)
            frames |= new
        shape = (len(ids), self.height * 3 // 2, self.width)
        planes = np.stack([frames[id_] for id_ in ids]) if ids else np.empty(shape, np.uint8)
        planes.setflags(write=False)
        return planes
