"""The flow on a real Prefect server and a real Dask cluster, against the same work without them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flows.release.options import BuildOptions
from tests.flows.prefect_servers import ROOT, START_S, recorded_and_result, start_on_server, wait_for
from tests.flows.small_builds import AddFilm, changed, committed, only
from tests.inline import build_inline

pytestmark = pytest.mark.slow


@pytest.fixture
def direct(options: BuildOptions, video: Path, add_film: AddFilm, tmp_path: Path) -> str:
    """The checksum of the release that two films give without any orchestrator."""
    add_film(video.parent, 2)
    elsewhere = changed(options, store=str(tmp_path / "direct"))
    return build_inline(elsewhere).release.manifest.content_checksum


def in_the_middle(
    options: BuildOptions, folder: Path, workers: int
) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Start a build, wait until it has frames, and return it with the processes that it started."""
    process = start_on_server(options, folder, workers)
    frames = "artifacts/timeline/*/*/manifest.json"
    wait_for(lambda: process.poll() is not None or list(Path(options.store).glob(frames)), START_S, "frames")
    assert process.poll() is None, "no frames came"
    return process, psutil.Process(process.pid).children(recursive=True)


def test_the_flow_makes_the_same_and_shows_it_though_a_worker_is_killed(
    options: BuildOptions, direct: str, tmp_path: Path
) -> None:
    process, others = in_the_middle(options, tmp_path, workers=2)
    workers = [other for other in others if "multiprocessing.spawn" in " ".join(other.cmdline())]
    assert workers, "no worker process was found"
    os.kill(workers[-1].pid, signal.SIGKILL)
    before = committed(tmp_path / "store")
    recorded, checksum = recorded_and_result(process)
    assert checksum == direct
    assert before.items() <= committed(tmp_path / "store").items()
    assert recorded["states"] == ["Completed"]
    assert recorded["names"] == [f"main · 2 sources · {options.recipe.name}"]
    assert recorded["tags"] == ["recipe:small", "release:main", "site:default"]
    stages = ("inspect", "ingest", "degrade", "verify")
    assert set(recorded["tasks"]) == {f"{stage} film{n}" for stage in stages for n in (1, 2)}
    assert recorded["task_tags"] == []
    wanted = {"summary-main", "result-main", "release-main", *(f"progress-{stage}" for stage in stages)}
    wanted |= {f"sheet-main-{aspect.replace('_', '-')}" for aspect in options.recipe.aspects}
    assert wanted <= recorded["artifacts"].keys()
    assert recorded["strangers"] == {"status": [401, 401], "shown": False}
    # Dask's pages ask nobody for a password
    assert "dask" not in recorded["artifacts"]


def test_flow_starts_no_server_where_nothing_is_new(
    simple: BuildOptions, video: Path, tmp_path: Path
) -> None:
    checksum = build_inline(simple).release.manifest.content_checksum
    script = (
        "import sys; from flows.release.options import BuildOptions; from infra.profile import Profile\n"
        "from flows.release.flow import BUILD; from flows.command_runs import run_flow\n"
        "options = BuildOptions.model_validate_json(sys.stdin.read())\n"
        "result = run_flow(BUILD, options, Profile(workers=2), direct=False, quiet=True)\n"
        "assert 'prefect' not in sys.modules and 'distributed' not in sys.modules\n"
        "print(result.new, result.release.manifest.content_checksum)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": str(tmp_path / "prefect")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, input=simple.model_dump_json(), capture_output=True, text=True, env=environment, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", checksum]


@pytest.mark.parametrize(
    ("kill", "how"),
    [(os.kill, signal.SIGKILL), (os.killpg, signal.SIGTERM)],
    ids=["the driver", "everything at once"],
)
def test_a_flow_that_is_ended_leaves_no_process_behind(
    kill: Callable[[int, int], None], how: signal.Signals, options: BuildOptions, video: Path, tmp_path: Path
) -> None:
    """Server, cluster and workers end by themselves, and the next build continues."""
    few = only(options, "aesthetics", "temporal_flow")
    process, others = in_the_middle(few, tmp_path, workers=1)
    assert any("embedded_server" in " ".join(other.cmdline()) for other in others)
    kill(process.pid, how)
    process.communicate(timeout=60)
    _, left = psutil.wait_procs(others, timeout=60)
    assert [other.cmdline() for other in left if other.status() != psutil.STATUS_ZOMBIE] == []
    before = committed(tmp_path / "store")
    assert build_inline(few).exit_code == 0
    assert before.items() <= committed(tmp_path / "store").items()
