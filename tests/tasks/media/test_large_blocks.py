"""Large blocks go back to the system although others were freed before them."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, re, resource
from pathlib import Path
from tasks.media.large_blocks import keep_large_blocks, return_large_blocks
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
def pages_taken(size):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        libc.free(block(size))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
"""
FREED = """
if not return_large_blocks():
    print(-1)
    raise SystemExit
libc.free(block(30 << 20))  # from here on glibc would take blocks of up to 30 MB from its heap
before = resident()
blocks = [block(20 << 20) for _ in range(2)]
libc.free(blocks[0])  # the second one lies above it in a heap
print(resident() - before)
"""


@pytest.mark.parametrize(
    ("rest", "limit"),
    [
        (FREED, 30 << 20),
        # 147 pages each time it were taken again
        ("return_large_blocks(); print(pages_taken(600_000))", 1000),
        # 1465 pages each time it were mapped again
        ("keep_large_blocks(); print(pages_taken(6_000_000))", 10_000),
    ],
    ids=["a freed block does not stay", "a frame's block is used again", "a kept block is used again"],
)
def test_blocks(rest: str, limit: int) -> None:
    command = [sys.executable, "-c", PROGRAM + rest]
    output = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if output == -1:
        pytest.skip("no glibc")
    assert output < limit
