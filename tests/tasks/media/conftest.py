"""The corpus of awkward videos, each made when a test first asks for it, and kept for later runs."""

from __future__ import annotations

import os
import shutil
import time
from hashlib import sha256
from pathlib import Path

import pytest
from filelock import FileLock

from tests.tasks.media import corpus
from tests.tasks.media.corpus import CASES, Video

KEPT = Path("build/tests/corpus").absolute()


@pytest.fixture(scope="session")
def video(ffmpeg: str) -> Video:
    """Path of a corpus video by name; all are made again by another command or another corpus.py."""
    cases = {case.name: case for case in CASES}
    made_by = sha256(ffmpeg.encode() + Path(str(corpus.__file__)).read_bytes()).hexdigest()[:16]
    kept = KEPT / made_by
    kept.mkdir(parents=True, exist_ok=True)
    os.utime(kept)
    for old in KEPT.glob("*"):
        # another run of today may use it
        if old.stat().st_mtime < time.time() - 86_400:
            shutil.rmtree(old, ignore_errors=True)

    def get(name: str) -> Path:
        case, folder = cases[name], kept / name
        with FileLock(kept / f"{name}.lock", timeout=300):
            if not folder.exists():
                draft = kept / f"{name}.draft"
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir()
                case.make(ffmpeg, draft / case.file)
                draft.rename(folder)
        return folder / case.file

    return get
