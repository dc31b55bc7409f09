"""A store that is read-only or gone in the middle of a build: the build waits, and comes out equal."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flows.release.options import BuildOptions
from flows.release.result import BuildResult
from infra.executor import Executor, Handle, InlineExecutor, ProcessExecutor
from infra.progress import BuildProgress
from storage_schemas import store_wait
from storage_schemas.errors import StoreError
from storage_schemas.store import Store
from tests.flows.small_builds import AddFilm, build_with, changed, only
from tests.inline import build_inline

Fault = tuple[Callable[[], object], Callable[[], object]]


class AwayDuring(InlineExecutor):
    """Lets the store go away at the start of each task, in several ways, and come back soon."""

    def __init__(self, *faults: Fault) -> None:
        self.faults, self.count = faults, 0

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        away, back = self.faults[self.count % len(self.faults)]
        self.count += 1
        away()
        threading.Timer(0.1, back).start()
        return super().submit(name, pool, function, *arguments)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of its own, at which builds of this process look often."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=50m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root and the permission to mount")
    monkeypatch.setattr(store_wait, "LOOK_EVERY_S", 0.02)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def two_aspects(options: BuildOptions, video: Path) -> BuildOptions:
    return only(options, "aesthetics", "temporal_flow")


def built(options: BuildOptions, executor: Callable[[], Executor]) -> BuildResult:
    progress = BuildProgress(Store.create(Path(options.store)).cache, quiet=True)
    return build_with(options, executor, progress)


def contents(result: BuildResult) -> object:
    pairs = [(pair.pair_id, pair.low_checksum) for pair in result.release.pairs()]
    return result.exit_code, result.release.manifest.content_checksum, pairs


def remount(disk: Path, mode: str) -> None:
    command = ["mount", "-o", f"remount,{mode}", str(disk)]
    # it fails while a file is open for writing
    while subprocess.run(command, capture_output=True, check=False).returncode:
        time.sleep(0.005)


def test_a_store_that_is_read_only_or_gone_at_each_stage(
    two_aspects: BuildOptions, disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, elsewhere = disk / "store", disk / "elsewhere"
    gone = (lambda: store.rename(elsewhere), lambda: elsewhere.rename(store))
    read_only = (partial(remount, disk, "ro"), partial(remount, disk, "rw"))
    executor = AwayDuring(read_only, gone)
    result = built(changed(two_aspects, store=str(store)), lambda: executor)
    # inspect, ingest, degrade, verify
    assert executor.count == 4
    assert contents(result) == contents(build_inline(two_aspects))
    said = [record.message for record in caplog.records if record.name == store_wait.__name__]
    assert len(said) >= 4
    assert ["is unavailable" in message for message in said] == [True, False] * (len(said) // 2)


def test_a_store_that_stays_away_ends_the_build_with_what_to_do(
    two_aspects: BuildOptions, disk: Path
) -> None:
    executor = AwayDuring((partial(remount, disk, "ro"), lambda: None))
    with pytest.raises(StoreError, match=r"was unavailable for 0 s .Read-only file system.*store_wait_s"):
        built(changed(two_aspects, store=str(disk / "store"), store_wait_s=0.1), lambda: executor)
    assert executor.count == 1


@pytest.mark.slow
def test_the_driver_and_its_workers_wait(
    two_aspects: BuildOptions, video: Path, add_film: AddFilm, disk: Path
) -> None:
    add_film(video.parent, 2)
    expected = build_inline(two_aspects)
    store = disk / "store"
    stop = threading.Event()

    def away_and_back() -> None:
        """Two seconds away, one there, from the first frames on."""
        while not any(store.glob("artifacts/frames/*/*/manifest.json")) and not stop.wait(0.02):
            pass
        while not stop.is_set():
            remount(disk, "ro")
            stop.wait(2)
            remount(disk, "rw")
            stop.wait(1)

    faults = threading.Thread(target=away_and_back)
    faults.start()
    try:
        result = built(changed(two_aspects, store=str(store)), partial(ProcessExecutor, 2))
    finally:
        stop.set()
        faults.join()
    assert contents(result) == contents(expected)
    # a process cannot remove what it had begun from a read-only disk; the next build does, as after a kill
    Store.open(store).clear_abandoned()
    assert not list((store / "staging").iterdir())
