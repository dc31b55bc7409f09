"""A store that is read-only or gone in the middle of a build: the build waits, and comes out equal."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flows.build.options import BuildOptions
from flows.build.run import Build, BuildResult
from infra.executor import Executor, Handle, InlineExecutor, ProcessExecutor
from infra.progress import BuildProgress
from storage_schemas import store_wait
from storage_schemas.errors import StoreError
from storage_schemas.store import Store
from tests.inline import build_inline

AddFilm = Callable[[Path, int], Path]


Fault = tuple[Callable[[], object], Callable[[], object]]


class AwayDuring(InlineExecutor):
    """Lets the store go away at the start of each task, in several ways, and come back soon."""

    def __init__(self, *faults: Fault) -> None:
        self.faults, self.count = faults, 0

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        away, back = self.faults[self.count % len(self.faults)]
        self.count += 1
        away()
        threading.Timer(0.2, back).start()
        return super().submit(name, pool, function, *arguments)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=50m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root and the permission to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def two_aspects(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> BuildOptions:
    add_film(tmp_path / "videos", 1)
    aspects = {name: options.recipe.aspects[name] for name in ("aesthetics", "temporal_flow")}
    return options.model_copy(update={"recipe": options.recipe.model_copy(update={"aspects": aspects})})


def built(options: BuildOptions, executor: Callable[[], Executor]) -> BuildResult:
    with BuildProgress(Store.create(Path(options.store)).cache, quiet=True) as progress:
        build = Build(options, progress)
        build.prepare()
        return build.run(executor)


def contents(result: BuildResult) -> object:
    return result.release.manifest.content_checksum, [
        (p.pair_id, p.low_checksum) for p in result.release.pairs()
    ]


def remount(disk: Path, mode: str) -> None:
    command = ["mount", "-o", f"remount,{mode}", str(disk)]
    # it fails while a file is open for writing
    while subprocess.run(command, capture_output=True, check=False).returncode:
        time.sleep(0.005)


def read_only(disk: Path) -> Fault:
    return partial(remount, disk, "ro"), partial(remount, disk, "rw")


@pytest.mark.slow
def test_a_store_that_is_read_only_or_gone_at_each_stage(
    two_aspects: BuildOptions,
    disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(store_wait, "LOOK_EVERY_S", 0.02)
    store, elsewhere = disk / "store", disk / "elsewhere"
    gone = (lambda: store.rename(elsewhere), lambda: elsewhere.rename(store))
    executor = AwayDuring(read_only(disk), gone)
    result = built(two_aspects.model_copy(update={"store": str(store)}), lambda: executor)
    # inspect, ingest, degrade, verify
    assert (executor.count, result.exit_code) == (4, 0)
    assert contents(result) == contents(build_inline(two_aspects))
    said = [record.message for record in caplog.records if record.name == store_wait.__name__]
    assert len(said) >= 4
    assert ["is away" in message for message in said] == [True, False] * (len(said) // 2)


def test_a_store_that_stays_away_ends_the_build_with_what_to_do(
    two_aspects: BuildOptions, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_wait, "LOOK_EVERY_S", 0.02)
    options = two_aspects.model_copy(update={"store": str(disk / "store"), "store_wait_s": 0.1})
    executor = AwayDuring((partial(remount, disk, "ro"), lambda: None))
    with pytest.raises(StoreError, match=r"was away for 0 s .Read-only file system.*store_wait_s"):
        built(options, lambda: executor)
    assert executor.count == 1


@pytest.mark.slow
def test_the_driver_and_its_workers_wait(
    two_aspects: BuildOptions, add_film: AddFilm, disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (2, 3, 4):
        add_film(tmp_path / "videos", number)
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

    caplog.set_level(logging.WARNING)
    faults = threading.Thread(target=away_and_back)
    faults.start()
    try:
        result = built(two_aspects.model_copy(update={"store": str(store)}), partial(ProcessExecutor, 2))
    finally:
        stop.set()
        faults.join()
    assert (result.exit_code, contents(result)) == (0, contents(expected))
    # a process cannot remove what it had begun from a read-only disk; the next build does, as after a kill
    Store.open(store).clear_abandoned()
    assert not list((store / "staging").iterdir())
