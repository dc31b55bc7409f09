"""Memory that was used for something large goes back to the system when it is freed."""

from __future__ import annotations

import ctypes
from functools import cache

#: ``M_TRIM_THRESHOLD`` and ``M_MMAP_THRESHOLD`` of ``mallopt(3)``.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BYTES = 1 << 20
_KEPT_BYTES = 32 << 20


@cache
def return_large_blocks() -> bool:
    """Tell the C library to take blocks of a megabyte and more from the system, each on its own.

    By itself glibc stops doing so once the first such block was freed. The index of a long film, which
    FFmpeg lets grow piece by piece, then leaves holes as large as itself: 12 MB for three hours.

    Up to 32 MB of smaller blocks stay with the process: setting the one value would fix the other at
    128 kB, and arrays of a frame would be given back and taken anew at every step, at twice the time.

    Returns
    -------
    bool
        Whether the C library takes such advice; others than glibc do not need it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES))
