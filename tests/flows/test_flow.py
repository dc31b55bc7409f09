"""The flow on a real Prefect server and a real Dask cluster, against the same work without them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flows.build.options import BuildOptions
from tests.flows.prefect_servers import prefect_home
from tests.flows.test_resume import committed
from tests.inline import build_inline

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

AddFilm = Callable[[Path, int], Path]


def start_flow(options: BuildOptions, folder: Path) -> subprocess.Popen[str]:
    (folder / "options.json").write_text(options.model_dump_json())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": prefect_home(folder)}
    environment.pop("PREFECT_API_URL", None)
    command = [sys.executable, str(ROOT / "tests/flows/flow_on_server.py"), str(folder / "options.json")]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def answers(output: str) -> dict[str, str]:
    words = (line.split(" ", 1) for line in output.splitlines() if " " in line)
    return {word: rest for word, rest in words if word in ("RECORDED", "CHECKSUM")}


@pytest.fixture
def direct(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> str:
    """The checksum of the release that two films give without any orchestrator."""
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    elsewhere = options.model_copy(update={"store": str(tmp_path / "direct")})
    return build_inline(elsewhere).release.manifest.content_checksum


def test_the_flow_makes_the_same_and_shows_it(options: BuildOptions, direct: str, tmp_path: Path) -> None:
    process = start_flow(options, tmp_path)
    output, _ = process.communicate(timeout=400)
    text = answers(output)
    assert text["CHECKSUM"] == direct
    recorded = json.loads(text["RECORDED"])
    assert recorded["states"] == ["Completed"]
    assert recorded["names"] == [f"main · 2 sources · {options.recipe.name}"]
    assert recorded["tags"] == ["recipe:small", "release:main", "site:default"]
    stages = ("inspect", "ingest", "degrade", "verify")
    assert recorded["tasks"] == sorted(f"{stage} film{n}" for stage in stages for n in (1, 2))
    assert recorded["task_tags"] == []
    aspects = [aspect.replace("_", "-") for aspect in options.recipe.aspects]
    wanted = {
        "summary-main",
        "result-main",
        "release-main",
        *(f"progress-{stage}" for stage in stages),
    }
    wanted |= {f"sheet-main-{aspect}" for aspect in aspects}
    assert wanted <= set(recorded["artifacts"])
    assert recorded["strangers"] == {"status": [401, 401], "shown": False}
    # Dask's pages ask nobody for a password
    assert "dask" not in recorded["artifacts"]


def test_where_nothing_is_new_no_server_is_started(
    options: BuildOptions, direct: str, tmp_path: Path
) -> None:
    again = options.model_copy(update={"store": str(tmp_path / "direct")})
    script = (
        "import sys; from flows.build.options import BuildOptions; from infra.profile import Profile\n"
        "from flows.build.flow import BUILD; from flows.command_runs import run_flow\n"
        "options = BuildOptions.model_validate_json(sys.stdin.read())\n"
        "result = run_flow(BUILD, options, Profile(workers=2), direct=False, quiet=True)\n"
        "assert 'prefect' not in sys.modules and 'distributed' not in sys.modules\n"
        "print(result.new, result.release.manifest.content_checksum)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=again.model_dump_json(),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": str(tmp_path / "prefect")},
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", direct]


@pytest.mark.parametrize(
    ("kill", "how"),
    [(os.kill, signal.SIGKILL), (os.killpg, signal.SIGTERM)],
    ids=["the driver", "everything at once"],
)
def test_a_flow_that_is_ended_leaves_no_process_behind(
    kill: Callable[[int, int], None],
    how: signal.Signals,
    options: BuildOptions,
    add_film: AddFilm,
    tmp_path: Path,
) -> None:
    """Server, cluster and workers end by themselves, and the next build goes on."""
    add_film(tmp_path / "videos", 1)
    process = start_flow(options, tmp_path)
    store = tmp_path / "store"
    deadline = time.monotonic() + 300
    while not list(store.glob("artifacts/timeline/*/*/manifest.json")):
        assert time.monotonic() < deadline, "no frames came"
        assert process.poll() is None, "no frames came"
        time.sleep(0.05)
    others = psutil.Process(process.pid).children(recursive=True)
    assert any("embedded_server" in " ".join(other.cmdline()) for other in others)
    kill(process.pid, how)
    process.communicate(timeout=60)
    _, left = psutil.wait_procs(others, timeout=60)
    assert [other.cmdline() for other in left if other.status() != psutil.STATUS_ZOMBIE] == []
    before = committed(store)
    assert build_inline(options).exit_code == 0
    assert before.items() <= committed(store).items()


def test_a_killed_worker_costs_nothing_but_time(options: BuildOptions, direct: str, tmp_path: Path) -> None:
    process = start_flow(options, tmp_path)
    store = tmp_path / "store"
    deadline = time.monotonic() + 300
    while not list(store.glob("artifacts/timeline/*/*/manifest.json")):
        assert time.monotonic() < deadline, "no frames came"
        assert process.poll() is None, "no frames came"
        time.sleep(0.05)
    workers = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if "multiprocessing.spawn" in " ".join(child.cmdline())
    ]
    assert workers, "no worker process was found"
    os.kill(workers[-1].pid, signal.SIGKILL)
    before = committed(store)
    output, _ = process.communicate(timeout=400)
    assert answers(output)["CHECKSUM"] == direct
    assert before.items() <= committed(store).items()
