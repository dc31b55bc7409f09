"""Frames of clips, read ahead in a thread: while one clip is computed, the next one's are read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from storage_schemas.frames import FrameReader, Planes
from tasks.aspects.base import ClipSpan

#: Frames read at once: 57 MB at 512×288. At most three such blocks are in memory: two of the clip that is
#: computed, and the first of the next.
BLOCK_FRAMES = 256


class ClipFrames:
    """The frames of one clip, read in blocks, each once for all operations that degrade a short clip.

    A clip of up to two blocks stays in memory. Of a longer one there are two: the block in use, and the one
    after it, which is read meanwhile; after the last comes the first, since operations look at a clip twice.

    Parameters
    ----------
    reader
        The source's frames; only `thread` reads them.
    span
        The clip.
    thread
        An executor with one thread.

    Attributes
    ----------
    waited_s
        Time for which :meth:`read` waited for frames, seconds.
    """

    def __init__(self, reader: FrameReader, span: ClipSpan, thread: ThreadPoolExecutor) -> None:
        self._reader, self.span, self._thread = reader, span, thread
        self._blocks: dict[int, Future[Planes]] = {}
        self._count = -(-span.frame_count // BLOCK_FRAMES)
        self.waited_s = 0.0

    def start(self) -> None:
        """Let the first block be read; return at once."""
        self._ask(0)

    def read(self, first: int, count: int) -> Planes:
        """Return frames `first` … of the clip as ``(count, H·3/2, W)`` uint8, read-only.

        Raises
        ------
        IntegrityError
            If they cannot be read; a later call tries again.
        """
        if not count:
            return self._reader.read(self.span.first_frame, 0)
        parts = []
        while count:
            block, offset = divmod(first, BLOCK_FRAMES)
            part = self._block(block)[offset : offset + count]
            parts.append(part)
            first, count = first + len(part), count - len(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def close(self) -> None:
        """Forget all blocks; those not yet begun are not read."""
        for block in self._blocks.values():
            block.cancel()
        self._blocks.clear()

    def _block(self, number: int) -> Planes:
        following = (number + 1) % self._count
        for other in self._blocks.keys() - {number, following}:
            self._blocks.pop(other).cancel()
        asked = self._ask(number)
        self._ask(following)
        began = time.monotonic()
        try:
            return asked.result()
        except BaseException:
            self._blocks.pop(number, None)
            raise
        finally:
            self.waited_s += time.monotonic() - began

    def _ask(self, number: int) -> Future[Planes]:
        if number not in self._blocks:
            self._blocks[number] = self._thread.submit(self._read, number)
        return self._blocks[number]

    def _read(self, number: int) -> Planes:
        first = number * BLOCK_FRAMES
        count = min(BLOCK_FRAMES, self.span.frame_count - first)
        planes = self._reader.read(self.span.first_frame + first, count)
        planes.setflags(write=False)
        return planes


@contextmanager
def reading_thread() -> Iterator[ThreadPoolExecutor]:
    """Yield an executor with the thread that reads a source's frames; at the end it is gone."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="frames")
    try:
        yield thread
    finally:
        thread.shutdown(cancel_futures=True)
