"""Stores in a temporary folder, and a small file system."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage_schemas.commit import set_commit_hook
from storage_schemas.store import Store
from tests.once import Once
from tests.storage_schemas.written_store import write_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


@pytest.fixture
def whole_store(tmp_path: Path, once: Once) -> Store:
    """A store with one release that has one version of one pair."""
    made = once("written-store", lambda folder: write_store(folder / "store"))
    shutil.copytree(made / "store", tmp_path / "whole")
    return Store.open(tmp_path / "whole")


@pytest.fixture
def commit_hook() -> Iterator[Callable[[Callable[[str], None] | None], None]]:
    """Set the hook of commits; after the test there is none."""
    yield set_commit_hook
    set_commit_hook(None)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An empty file system of 1 MiB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    command = [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
