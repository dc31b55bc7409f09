"""``kill -9`` anywhere, then again: same checksums, and nothing redone that was committed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]
import pytest

from flows.build.options import BuildOptions, SourceRoot
from storage_schemas.commit import COMMIT_POINTS
from storage_schemas.release import Release
from storage_schemas.store import ANALYSIS, DEGRADED_CLIP, FRAMES, PAIR, TIMELINE, VERIFIED, Store
from tasks.pairs.verify import verify_deep
from tasks.recipe import Recipe
from tests.inline import build_inline

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "flows" / "build_in_pieces.py"
KINDS = (ANALYSIS, FRAMES, TIMELINE, DEGRADED_CLIP, PAIR, VERIFIED, "release")

#: A build in two processes: ``-c TEXT OPTIONS``.
IN_PROCESSES = """
import sys
from functools import partial
from pathlib import Path
from flows.build.run import Build
from tests.inline import build_inline
from flows.build.options import BuildOptions
from infra.executor import ProcessExecutor
from infra.progress import BuildProgress

with BuildProgress(quiet=True) as progress:
    build = Build(BuildOptions.model_validate_json(Path(sys.argv[1]).read_text()), progress)
    build.prepare()
    build.run(partial(ProcessExecutor, 2))
"""

AddFilm = Callable[[Path, int], Path]


class Undisturbed(NamedTuple):
    """A build that nobody disturbed: its options, its checksum, and its commit points.

    `busy_s` is the time in seconds from its first commit point to its end.
    """

    options: BuildOptions
    checksum: str
    busy_s: float
    points: list[str]


def start(options: BuildOptions, *arguments: str, code: str = "") -> subprocess.Popen[str]:
    path = Path(options.store).parent / f"{Path(options.store).name}.json"
    path.write_text(options.model_dump_json())
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *(("-c", code) if code else (str(SCRIPT),)), str(path), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def first_point(process: subprocess.Popen[str]) -> str:
    """Wait until a build begins to write, and return the line that says so."""
    assert process.stdout is not None
    return next(line for line in process.stdout if line.startswith("point "))


def committed(store: Path) -> dict[str, int]:
    """Every committed artifact and when its manifest was written."""
    result = list(store.glob("artifacts/*/*/*/manifest.json")) + list(store.glob("releases/**/manifest.json"))
    return {str(path.relative_to(store)): path.stat().st_mtime_ns for path in result}


def finish(options: BuildOptions) -> str:
    """Build to the end, in this process to save its start-up, and return the checksum."""
    return build_inline(options).release.manifest.content_checksum


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, add_film: AddFilm, small_recipe: Recipe
) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    add_film(folder / "videos", 1)
    options = small_build(folder, small_recipe)
    process = start(options)
    first = first_point(process)
    began = time.monotonic()
    output, _ = process.communicate(timeout=300)
    seconds = time.monotonic() - began
    lines = [first.rstrip("\n"), *output.splitlines()]
    points = [line.removeprefix("point ") for line in lines if line.startswith("point ")]
    return Undisturbed(options, lines[-1].removeprefix("checksum "), seconds, points)


def small_build(folder: Path, recipe: Recipe) -> BuildOptions:
    """A build of folder/videos with one aspect of each kind of operation: pixels, frame map, order."""
    aspects = {name: recipe.aspects[name] for name in ("aesthetics", "dynamics_degree", "temporal_flow")}
    return BuildOptions(
        store=str(folder / "store"),
        sources=(SourceRoot(path=str(folder / "videos")),),
        recipe=recipe.model_copy(update={"aspects": aspects}),
    )


def in_store(options: BuildOptions, store: Path) -> BuildOptions:
    return options.model_copy(update={"store": str(store)})


def check_after(options: BuildOptions, checksum: str, before: dict[str, int]) -> None:
    assert finish(options) == checksum
    after = committed(Path(options.store))
    assert before.items() <= after.items(), "something that was committed was written again"
    store = Store.open(Path(options.store))
    assert not list(store.staging.iterdir())


def test_every_kind_passes_every_commit_point(undisturbed: Undisturbed) -> None:
    points = set(undisturbed.points)
    assert points == {f"{kind}:{step}" for kind in KINDS for step in COMMIT_POINTS} - {
        "release:payload_written"
    }


@pytest.mark.parametrize("step", COMMIT_POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_a_commit_point(kind: str, step: str, undisturbed: Undisturbed, tmp_path: Path) -> None:
    options, checksum, _, points = undisturbed
    point = f"{kind}:{step}"
    if point not in points:
        pytest.skip("a release is written in one piece")
    here = in_store(options, tmp_path / "store")
    nth = min(3, points.count(point))
    died = start(here, point, str(nth))
    died.communicate(timeout=300)
    assert died.returncode == -signal.SIGKILL
    check_after(here, checksum, committed(tmp_path / "store"))


@pytest.mark.parametrize("moment", range(20))
def test_killed_at_a_random_moment(moment: int, undisturbed: Undisturbed, tmp_path: Path) -> None:
    options, checksum, seconds, _ = undisturbed
    share = random.Random(moment).uniform(0.0, 0.9)
    for attempt in range(5):
        here = in_store(options, tmp_path / f"store{attempt}")
        process = start(here)
        # most of a build's time is start-up, in which nothing is written: count from the first commit point
        first_point(process)
        time.sleep(seconds * share)
        process.kill()
        process.communicate()
        if process.returncode == -signal.SIGKILL:
            break
        # a quick machine: it had ended before
        share *= 0.7
    assert process.returncode == -signal.SIGKILL, "every build had ended before it was killed"
    check_after(here, checksum, committed(Path(here.store)))


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.01)


def alive(processes: list[psutil.Process]) -> Iterator[psutil.Process]:
    for process in processes:
        # nobody may have collected what is left of it, but it has ended
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            yield process


def test_workers_end_when_the_main_process_is_killed(
    undisturbed: Undisturbed, add_film: AddFilm, small_recipe: Recipe, tmp_path: Path
) -> None:
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    options = small_build(tmp_path, small_recipe)
    checksum = finish(in_store(options, tmp_path / "calm"))
    process = start(options, code=IN_PROCESSES)
    store = Path(options.store)
    try:
        # both work: one of the films has all its frames, the other is not far behind
        wait_for(lambda: any(store.glob("artifacts/degraded_clip/*/*/manifest.json")))
        workers = psutil.Process(process.pid).children(recursive=True)
        assert sum("spawn_main" in " ".join(worker.cmdline()) for worker in workers) == 2
        before = committed(store)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    wait_for(lambda: not list(alive(workers)))
    # what they committed until they ended counts too
    before |= committed(store)
    assert not any(name.startswith("releases/") for name in before), "it was killed too late"
    assert finish(options) == checksum
    assert before.items() <= committed(store).items()


def test_what_a_kill_leaves_behind_reads_back(undisturbed: Undisturbed, tmp_path: Path) -> None:
    options, checksum, _, _ = undisturbed
    here = in_store(options, tmp_path / "store")
    start(here, f"{DEGRADED_CLIP}:renamed", "4").communicate(timeout=300)
    assert finish(here) == checksum
    store = Store.open(tmp_path / "store")
    for record in Release.open(store).pairs():
        assert verify_deep(store, record) == []
