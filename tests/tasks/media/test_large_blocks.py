"""Large blocks go back to the system although others were freed before them."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, re
from pathlib import Path
from tasks.media.large_blocks import return_large_blocks
if not return_large_blocks():
    print(-1)
    raise SystemExit
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
def block(size):
    pointer = libc.malloc(size)
    libc.memset(pointer, 1, size)
    return pointer
libc.free(block(30 << 20))  # from here on glibc would take blocks of up to 30 MB from its heap
before = resident()
blocks = [block(20 << 20) for _ in range(2)]
libc.free(blocks[0])  # the second one lies above it in a heap
print(resident() - before)
"""


def test_a_freed_block_does_not_stay() -> None:
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    ).stdout
    if int(output) == -1:
        pytest.skip("no glibc")
    assert int(output) < 30 << 20


SMALL = """
import ctypes, resource
from tasks.media.large_blocks import return_large_blocks
return_large_blocks()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    pointer = libc.malloc(600_000)
    libc.memset(pointer, 1, 600_000)
    libc.free(pointer)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_a_frame_sized_block_is_used_again() -> None:
    output = subprocess.run([sys.executable, "-c", SMALL], check=True, capture_output=True, text=True).stdout
    assert int(output) < 1000  # 147 pages each time it were taken anew


def test_a_large_block_is_used_again_where_it_is_kept() -> None:
    program = SMALL.replace("return_large_blocks", "keep_large_blocks").replace("600_000", "6_000_000")
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert int(output) < 10_000  # 1465 pages each time it were mapped anew
