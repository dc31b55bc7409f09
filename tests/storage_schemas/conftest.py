"""A store in a temporary folder, small pictures, and a small file system of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import storage_schemas
from storage_schemas.frames import Planes
from storage_schemas.store import Store

ROOT = Path(storage_schemas.__file__).parents[1]

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


@pytest.fixture
def picture() -> Callable[[int], Planes]:
    """Frames of 32×16 as planes, each number another noise."""

    def make(number: int) -> Planes:
        return np.random.default_rng(number).integers(0, 256, (24, 32), dtype=np.uint8)

    return make


@pytest.fixture(scope="session")
def run_python() -> RunPython:
    """Run a program text in a process of its own."""

    def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An empty file system of 1 MiB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
