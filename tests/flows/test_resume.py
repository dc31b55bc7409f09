"""``kill -9`` anywhere, then again: same checksums, and nothing redone that was committed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]
import pytest

from flows.release.options import BuildOptions
from storage_schemas.commit import COMMIT_POINTS
from storage_schemas.release import Release
from storage_schemas.store import ANALYSIS, DEGRADED_CLIP, FRAMES, PAIR, TIMELINE, VERIFIED, Store
from tasks.pairs.verify import verify_deep
from tests.flows.build_in_pieces import build_until
from tests.flows.prefect_servers import ROOT, wait_for
from tests.flows.small_builds import AddFilm, changed, committed, only
from tests.inline import build_inline
from tests.small_films import FilmsOfModule

pytestmark = pytest.mark.slow

KINDS = (ANALYSIS, FRAMES, TIMELINE, DEGRADED_CLIP, PAIR, VERIFIED, "release")
#: A release is written in one piece.
POINTS = [f"{kind}:{step}" for kind in KINDS for step in COMMIT_POINTS]
POINTS.remove("release:payload_written")
#: How many builds are killed one after the other, wherever they are.
MOMENTS = 4
#: One aspect of each kind of operation: pixels, frame map, order.
THREE = ("aesthetics", "dynamics_degree", "temporal_flow")

#: A build in two processes: ``-c TEXT OPTIONS``.
IN_PROCESSES = """
import sys
from functools import partial
from flows.release.options import BuildOptions
from infra.executor import ProcessExecutor
from tests.flows.small_builds import build_with

if __name__ == "__main__":
    build_with(BuildOptions.model_validate_json(sys.argv[1]), partial(ProcessExecutor, 2))
"""

Start = Callable[..., tuple[ForkServerProcess, Connection]]


class Undisturbed(NamedTuple):
    """A build that nobody disturbed; it was busy from its first commit point on."""

    options: BuildOptions
    checksum: str
    busy_s: float
    points: list[str]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Start a build in a process that is forked from one that has all modules: to import takes long."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "spacy", "tests.flows.build_in_pieces"])

    def run(options: BuildOptions, *arguments: object) -> tuple[ForkServerProcess, Connection]:
        ours, theirs = context.Pipe()
        process = context.Process(target=build_until, args=(options, theirs, *arguments))
        process.start()
        theirs.close()
        return process, ours

    with pytest.MonkeyPatch.context() as patch:
        # the process that the others are forked from starts with the first of them
        patch.setenv("PYTHONPATH", str(ROOT))
        yield run


def sent(passed: Connection) -> list[str]:
    """Return all that a build sends until it ends."""
    result = []
    try:
        while True:
            result.append(passed.recv())
    except EOFError:
        return result


@pytest.fixture(scope="module")
def undisturbed(films_of_module: FilmsOfModule, start: Start) -> Undisturbed:
    options = only(films_of_module(1), *THREE)
    _, passed = start(options)
    first = passed.recv()
    began = time.monotonic()
    *points, last = sent(passed)
    checksum = last.removeprefix("checksum ")
    return Undisturbed(options, checksum, time.monotonic() - began, [first, *points])


def check_after(options: BuildOptions, checksum: str, before: dict[str, int]) -> None:
    """Build to the end: what was committed is not written again, and reads back."""
    release = build_inline(options).release
    assert release.manifest.content_checksum == checksum
    assert before.items() <= committed(Path(options.store)).items()
    store = Store.open(Path(options.store))
    assert not list(store.staging.iterdir())
    for record in Release.open(store).pairs():
        assert verify_deep(store, record) == []


def test_every_kind_passes_every_commit_point(undisturbed: Undisturbed) -> None:
    assert set(undisturbed.points) == set(POINTS)


def test_killed_at_each_commit_point(undisturbed: Undisturbed, start: Start, tmp_path: Path) -> None:
    """One build after the other is killed one point later, and finds what those before have left."""
    here = changed(undisturbed.options, store=str(tmp_path / "store"))
    before: dict[str, int] = {}
    for point in POINTS:
        kind, step = point.split(":")
        left = undisturbed.points.count(point) - sum(f"/{kind}/" in path for path in before)
        # the first time in the middle of its kind: those before it are committed
        died, passed = start(here, point, min(3, left) if step == COMMIT_POINTS[0] else 1)
        assert sent(passed)[-1] == point
        died.join(60)
        assert died.exitcode == -signal.SIGKILL
        assert before.items() <= committed(tmp_path / "store").items()
        before = committed(tmp_path / "store")
    check_after(here, undisturbed.checksum, before)


def test_killed_at_random_moments(undisturbed: Undisturbed, start: Start, tmp_path: Path) -> None:
    """Each build continues from what those before have left, and is killed after a while."""
    here = changed(undisturbed.options, store=str(tmp_path / "store"))
    before: dict[str, int] = {}
    chance = random.Random(1)
    killed = 0
    for _ in range(MOMENTS):
        process, passed = start(here)
        # before its first commit point nothing is written
        passed.recv()
        time.sleep(undisturbed.busy_s * chance.uniform(0.0, 0.5))
        process.kill()
        process.join()
        # a quick machine: it may have ended before
        killed += process.exitcode == -signal.SIGKILL
        assert before.items() <= committed(tmp_path / "store").items()
        before = committed(tmp_path / "store")
    assert killed
    check_after(here, undisturbed.checksum, before)


def alive(process: psutil.Process) -> bool:
    """Return whether it has not ended; nobody may have collected what is left of it."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_workers_end_when_the_main_process_is_killed(
    options: BuildOptions, video: Path, add_film: AddFilm, tmp_path: Path
) -> None:
    add_film(video.parent, 2)
    three, store = only(options, *THREE), tmp_path / "store"
    checksum = build_inline(changed(three, store=str(tmp_path / "calm"))).release.manifest.content_checksum
    command = [sys.executable, "-c", IN_PROCESSES, three.model_dump_json()]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        # both work: one of the films has all its frames, the other is not far behind
        wait_for(lambda: any(store.glob("artifacts/degraded_clip/*/*/manifest.json")), 120, "clip")
        workers = psutil.Process(process.pid).children(recursive=True)
        assert sum("spawn_main" in " ".join(worker.cmdline()) for worker in workers) == 2
        before = committed(store)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    wait_for(lambda: not any(map(alive, workers)), 60, "end of the workers")
    # what they committed until they ended counts too
    before |= committed(store)
    assert not any(name.startswith("releases/") for name in before), "it was killed too late"
    assert build_inline(three).release.manifest.content_checksum == checksum
    assert before.items() <= committed(store).items()
