"""What the C library does with large freed blocks of memory: return them, or keep some.

Incident: a film of three hours left holes of 12 MB in a worker's memory.
"""

from __future__ import annotations

import ctypes

#: ``M_TRIM_THRESHOLD`` and ``M_MMAP_THRESHOLD`` of ``mallopt(3)``.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BYTES = 1 << 20
_KEPT_BYTES = 32 << 20


def return_large_blocks() -> bool:
    """Make the C library map each block of a megabyte or more separately, so that freeing returns it.

    By default, glibc stops doing so after the first such block is freed. FFmpeg grows the index of a long
    film piece by piece, which then leaves holes as large as the index: 12 MB for three hours.

    Up to 32 MB of smaller blocks stay with the process: setting only one of the two values would fix the
    other at 128 kB, and every frame's arrays would be returned and mapped again, which doubles the time.

    Returns
    -------
    bool
        Whether the C library accepted the setting; libraries other than glibc do not need it.
    """
    return _set(_LARGE_BYTES)


def keep_large_blocks() -> bool:
    """Make the C library keep up to 32 MB of freed blocks, also of larger ones, for the next.

    An operation needs the same arrays for each frame. By default they are returned and mapped again, page by
    page, which adds half to the time of a pencil sketch.

    Returns
    -------
    bool
        Whether the C library accepted the setting.
    """
    return _set(_KEPT_BYTES)


def _set(mapped_bytes: int) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, mapped_bytes))
