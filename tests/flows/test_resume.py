"""``kill -9`` anywhere, then again: same checksums, and nothing redone that was committed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.options import BuildOptions, SourceRoot
from storage_schemas.commit import COMMIT_POINTS
from storage_schemas.release import Release
from storage_schemas.store import ANALYSIS, DEGRADED_CLIP, FRAMES, PAIR, TIMELINE, VERIFIED, Store
from tasks.pairs.verify import verify_deep
from tasks.recipe import Recipe

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "flows" / "build_in_pieces.py"
KINDS = (ANALYSIS, FRAMES, TIMELINE, DEGRADED_CLIP, PAIR, VERIFIED, "release")

AddFilm = Callable[[Path, int], Path]


def start(options: BuildOptions, *arguments: str) -> subprocess.Popen[str]:
    path = Path(options.store).parent / f"{Path(options.store).name}.json"
    path.write_text(options.model_dump_json())
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(SCRIPT), str(path), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def committed(store: Path) -> dict[str, int]:
    """Every committed artifact and when its manifest was written."""
    found = list(store.glob("artifacts/*/*/*/manifest.json")) + list(store.glob("releases/**/manifest.json"))
    return {str(path.relative_to(store)): path.stat().st_mtime_ns for path in found}


def finish(options: BuildOptions) -> str:
    output, _ = start(options).communicate(timeout=300)
    return next(line.removeprefix("checksum ") for line in output.splitlines() if line.startswith("checksum"))


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, add_film: AddFilm, small_recipe: Recipe
) -> tuple[BuildOptions, str, float, list[str]]:
    """A build that nobody disturbed: its options, checksum, duration in seconds, and commit points."""
    folder = tmp_path_factory.mktemp("undisturbed")
    add_film(folder / "videos", 1)
    # one aspect of each kind of operation: pixels, frame map, order
    aspects = {
        name: small_recipe.aspects[name] for name in ("aesthetics", "dynamics_degree", "temporal_flow")
    }
    options = BuildOptions(
        store=str(folder / "store"),
        sources=(SourceRoot(path=str(folder / "videos")),),
        recipe=small_recipe.model_copy(update={"aspects": aspects}),
    )
    began = time.monotonic()
    output, _ = start(options).communicate(timeout=300)
    seconds = time.monotonic() - began
    lines = output.splitlines()
    points = [line.removeprefix("point ") for line in lines if line.startswith("point ")]
    return options, lines[-1].removeprefix("checksum "), seconds, points


def in_store(options: BuildOptions, store: Path) -> BuildOptions:
    return options.model_copy(update={"store": str(store)})


def check_after(options: BuildOptions, checksum: str, before: dict[str, int]) -> None:
    assert finish(options) == checksum
    after = committed(Path(options.store))
    assert before.items() <= after.items(), "something that was committed was written again"
    store = Store.open(Path(options.store))
    assert not list(store.staging.iterdir())


def test_every_kind_passes_every_commit_point(
    undisturbed: tuple[BuildOptions, str, float, list[str]],
) -> None:
    points = set(undisturbed[3])
    assert points == {f"{kind}:{step}" for kind in KINDS for step in COMMIT_POINTS} - {
        "release:payload_written"
    }


@pytest.mark.parametrize("step", COMMIT_POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_a_commit_point(
    kind: str, step: str, undisturbed: tuple[BuildOptions, str, float, list[str]], tmp_path: Path
) -> None:
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
def test_killed_at_a_random_moment(
    moment: int, undisturbed: tuple[BuildOptions, str, float, list[str]], tmp_path: Path
) -> None:
    options, checksum, seconds, _ = undisturbed
    here = in_store(options, tmp_path / "store")
    process = start(here)
    # most of a build's time is start-up: half of the moments lie in its busy end
    share = random.Random(moment).uniform(0.0 if moment % 2 else 0.5, 1.0)
    try:
        process.communicate(timeout=seconds * share)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    check_after(here, checksum, committed(tmp_path / "store"))


def test_what_a_kill_leaves_behind_reads_back(
    undisturbed: tuple[BuildOptions, str, float, list[str]], tmp_path: Path
) -> None:
    options, checksum, _, _ = undisturbed
    here = in_store(options, tmp_path / "store")
    start(here, f"{DEGRADED_CLIP}:renamed", "4").communicate(timeout=300)
    assert finish(here) == checksum
    store = Store.open(tmp_path / "store")
    for record in Release.open(store).pairs():
        assert verify_deep(store, record) == []
