"""What many tests need is made once in a run, whichever of its processes asks first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

Once = Callable[[str, Callable[[Path], object]], Path]


def folder_of_the_run(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder that all processes of a run share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Give a function that returns a folder by name, filled by a maker in the first process that asks.

    The others wait for it. Nobody changes such a folder: a test that does copies it first.
    """
    shared = folder_of_the_run(tmp_path_factory) / "once"

    def get(name: str, make: Callable[[Path], object]) -> Path:
        folder, draft = shared / name, shared / f"{name}.draft"
        shared.mkdir(exist_ok=True)
        with FileLock(shared / f"{name}.lock", timeout=300):
            if not folder.exists():
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir()
                make(draft)
                draft.rename(folder)
        return folder

    return get
