"""Worker pools on a real Slurm: they come with the work, survive what happens to jobs, and leave nothing."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from dask.base import annotate
from distributed import Client, Future, KilledWorker, wait

from infra.pool import Pool, resource_of
from infra.profile import Profile
from infra.slurm import commands
from infra.slurm.cluster import SlurmCluster
from infra.slurm.run_folder import run_folder
from infra.tls import credential_files, new_credentials
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.provenance import provenance
from storage_schemas.store import Store
from tests.infra.strangers import refused
from tests.planted_files import STRANGER, plant, shared_folder
from tests.slurm.conftest import Slurm

pytestmark = pytest.mark.slurm

cloudpickle.register_pickle_by_value(sys.modules[__name__])

POLL_S = 0.3
WORKER_LIMIT_S = 60.0
GPUS = "0, GPU-aaaa, NVIDIA H100 94GB\\n1, GPU-bbbb, NVIDIA H100 94GB"


def pool(partition: str = "cpu", **fields: Any) -> Pool:
    given = {
        "partition": partition,
        "cores": 1,
        "memory": "500MiB",
        "walltime": "00:10:00",
        "longest_item": "00:02:00",
        "idle_s": 1.0,
    }
    return Pool.model_validate(given | fields)


class Driver:
    """What a flow does with a cluster."""

    def __init__(self, cluster: SlurmCluster, client: Client) -> None:
        self.cluster, self.client = cluster, client

    def wait_for_room(self, name: str, wanted: int, room: int, limit_s: float = WORKER_LIMIT_S) -> float:
        """Wait until that number of items may be in flight; return how long it took, seconds."""
        began = time.monotonic()
        while self.cluster.room(name, wanted) < room:
            assert time.monotonic() - began < limit_s, (self.cluster.state(), commands.jobs(self.names))
            time.sleep(0.05)
        return time.monotonic() - began

    def wait_for_state(self, name: str, limit_s: float = 30.0, **state: int | str) -> None:
        """Wait until a pool's state is so."""
        end = time.monotonic() + limit_s
        while not state.items() <= self.cluster.state()[name].items():
            assert time.monotonic() < end, (state, self.cluster.state())
            time.sleep(0.05)

    def submit(self, name: str, function: Callable[..., Any], *arguments: Any) -> Future:
        with annotate(resources={resource_of(name): 1}):
            # workers know nothing of this module: what is nameless travels whole
            return self.client.submit(lambda: function(*arguments), pure=False)

    @property
    def names(self) -> list[str]:
        return [f"slvmeval-{self.cluster.run}-{name}" for name in self.cluster.profile.pools]


@contextmanager
def driver(store: Path, pools: dict[str, Pool], run: str = "test", **fields: Any) -> Iterator[Driver]:
    profile = Profile.model_validate({"store": str(store), "pools": pools, "poll_s": POLL_S, **fields})
    with SlurmCluster(profile, store, run) as cluster, Client(cluster) as client:
        yield Driver(cluster, client)


@pytest.fixture
def store(slurm: Slurm, tmp_path: Path) -> Path:
    return Store.create(tmp_path / "store").root


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    logging.getLogger("distributed").setLevel(logging.ERROR)


def tool(folder: Path, lines: str) -> str:
    """Return a line of `setup` after which nvidia-smi is a script of these lines."""
    folder.mkdir()
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
    (folder / "nvidia-smi").chmod(0o755)
    return f'export PATH="{folder}:$PATH"'


def test_work_runs_in_its_pool_and_idle_pools_have_no_jobs(
    store: Path, slurm: Slurm, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    pools = {
        "cpu": pool(cores=2),
        "h100": pool("h100", cores=2, gpus=2, setup=(tool(tmp_path / "bin", f"printf '{GPUS}\\n'"),)),
    }
    with driver(store, pools) as flow:
        first_s = flow.wait_for_room("cpu", 2, 1)
        flow.wait_for_room("cpu", 2, 2)
        rate = tasks_a_second(flow, "cpu", 500)
        record_property("first_worker_s", first_s)
        record_property("tasks_a_second", rate)
        print(f"first worker after {first_s:.1f} s; {rate:.0f} tasks a second, two in flight")
        flow.wait_for_room("h100", 2, 2)
        # others on this machine can neither connect to the scheduler or a worker nor read the run's key
        for address in (flow.cluster.scheduler_address, *flow.client.scheduler_info()["workers"]):
            assert address.startswith("tls://")
            assert not refused(address, flow.cluster.security)
            assert refused(address.replace("tls://", "tcp://"))
            assert refused(address, new_credentials().security())
        folder = run_folder(store, "test")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert Path(credential_files(folder).key).stat().st_mode & 0o777 == 0o600
        both = [("h100" if n % 2 else "cpu") for n in range(16)]
        made = [flow.submit(name, provenance_after, 0.05) for name in both]
        places = [future.result() for future in made]
        assert [place["partition"] for place in places] == both
        assert {place["node"][0] for place in places[::2]} == {"c"}
        assert {place["device"] for place in places[::2]} == {"CPU"}
        # one job, a process a GPU, and each process sees one of them
        of_h100 = {(place["job"], place["pid"], place["device"]) for place in places[1::2]}
        assert len({job for job, _, _ in of_h100}) == 1
        assert sorted(device for _, _, device in of_h100) == [
            "GPU 0 (NVIDIA H100 94GB)",
            "GPU 1 (NVIDIA H100 94GB)",
        ]
        del made
        began = time.monotonic()
        flow.cluster.room("cpu", 0)
        flow.cluster.room("h100", 0)
        slurm.wait(lambda: not slurm.squeue())
        assert time.monotonic() - began >= 1.0  # idle_s
        # and they come again
        flow.wait_for_room("cpu", 1, 1)
    assert slurm.squeue() == []
    # what a run leaves is its logs
    assert [path.name for path in (store / "cache").rglob("*.json")] == []


def pyav() -> tuple[str, list[str], str]:
    """Return where PyAV comes from, where Python looks for modules, and where temporary files are."""
    import tempfile

    import av

    return av.__file__, sys.path, tempfile.gettempdir()


@pytest.mark.parametrize("where", ["TMPDIR", "scratch"])
def test_what_a_stranger_planted_for_dask_is_not_used_in_a_job(
    where: str, store: Path, slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "thesis.txt"
    victim.write_text("years of work", encoding="utf-8")
    with shared_folder() as shared:
        planted = plant(shared / "dask-scratch-space", victim)
        if where == "TMPDIR":
            # sbatch gives a job the variables of the one who submits it
            monkeypatch.setenv("TMPDIR", str(shared))
            monkeypatch.setattr(tempfile, "tempdir", None)
        scratch = str(shared) if where == "scratch" else None
        with driver(store, {"cpu": pool(scratch=scratch)}) as flow:
            flow.wait_for_room("cpu", 1, 1)
            module, paths, temporary = flow.submit("cpu", pyav).result(60)
            assert Path(temporary).parent == shared
            assert Path(temporary).stat().st_mode & 0o777 == 0o700
        slurm.wait(lambda: not slurm.squeue())
        # the script's last act
        slurm.wait(lambda: [path.name for path in shared.iterdir()] == ["dask-scratch-space"])
    assert not planted.has_run()
    assert "site-packages" in module
    assert [path for path in (*paths, *sys.path) if path.startswith(str(shared))] == []
    assert victim.read_text(encoding="utf-8") == "years of work"


def test_a_folder_that_another_user_made_is_refused_with_a_reason(store: Path, slurm: Slurm) -> None:
    with shared_folder() as shared:
        theirs = shared / "guessed"
        theirs.mkdir()
        theirs.chmod(0o777)
        os.chown(theirs, STRANGER, STRANGER)
        with (
            driver(store, {"cpu": pool(scratch=str(theirs))}) as flow,
            pytest.raises(PrerequisiteError, match=r"guessed belongs to .*: set pools\.cpu\.scratch"),
        ):
            flow.wait_for_room("cpu", 1, 1)
        slurm.wait(lambda: list(theirs.iterdir()) == [])


def provenance_after(seconds: float) -> dict[str, Any]:
    time.sleep(seconds)
    return {**provenance(time.monotonic()), "pid": os.getpid()}


def settings() -> tuple[str | None, str, bool, bool, bool]:
    """Return what a worker process runs with."""
    import sys

    import dask.config

    return (
        os.environ.get("MALLOC_TRIM_THRESHOLD_"),
        os.environ["OPENBLAS_NUM_THREADS"],
        sys.flags.safe_path,
        dask.config.get("distributed.worker.memory.pause"),
        dask.config.get("distributed.worker.profile.enabled"),
    )


def tasks_a_second(flow: Driver, name: str, count: int) -> float:
    """Run tasks that do nothing, no more in flight than there is room for."""
    began, waiting, running = time.monotonic(), deque(range(count)), set[Future]()
    room = flow.cluster.room(name, count)
    while waiting or running:
        while waiting and len(running) < room:
            running.add(flow.submit(name, abs, waiting.popleft()))
        running -= wait(running, return_when="FIRST_COMPLETED").done
    return count / (time.monotonic() - began)


def test_cancelled_jobs_are_replaced_running_and_pending(store: Path, slurm: Slurm) -> None:
    # a node has four cores: the third job has to wait
    with driver(store, {"cpu": pool(cores=4, workers=1, maximum=3)}) as flow:
        flow.wait_for_room("cpu", 3, 2)
        flow.wait_for_state("cpu", jobs=2, pending=1, reason="Resources", workers=2, wanted=3)
        before = {job["state"]: job["id"] for job in slurm.squeue()}
        slurm.cancel(before["PENDING"])
        slurm.wait(
            lambda: any(j["state"] == "PENDING" and j["id"] != before["PENDING"] for j in slurm.squeue())
        )
        items = [flow.submit("cpu", time.sleep, 30) for _ in range(2)]
        slurm.wait(lambda: all(worker["executing"] for worker in executing(flow)))
        slurm.cancel(before["RUNNING"])
        lost = wait(items, return_when="FIRST_COMPLETED").done.pop()
        with pytest.raises(KilledWorker):
            lost.result()
        # the job that waited takes its place, and another one waits
        flow.wait_for_room("cpu", 3, 2)
        flow.wait_for_state("cpu", jobs=2, pending=1)
        assert not {before["PENDING"], before["RUNNING"]} & {job["id"] for job in slurm.squeue()}
        assert flow.submit("cpu", abs, -1).result(timeout=30) == 1
    assert slurm.squeue() == []


def executing(flow: Driver) -> list[dict[str, int]]:
    workers = flow.client.scheduler_info(n_workers=-1)["workers"].values()
    return [{"executing": worker["metrics"]["task_counts"].get("executing", 0)} for worker in workers]


def test_a_killed_worker_costs_its_item_only_and_is_back(store: Path) -> None:
    with driver(store, {"cpu": pool()}) as flow:
        flow.wait_for_room("cpu", 1, 1)
        assert flow.submit("cpu", settings).result() == (None, "1", True, False, False)
        before = flow.submit("cpu", provenance_after, 0).result()
        with pytest.raises(KilledWorker):
            flow.submit("cpu", lambda: os.kill(os.getpid(), signal.SIGKILL)).result(timeout=30)
        flow.wait_for_room("cpu", 1, 1)
        after = flow.submit("cpu", provenance_after, 0).result(timeout=30)
        assert after["job"] == before["job"]
        assert after["pid"] != before["pid"]


def test_a_store_that_no_node_sees_is_reported_for_each(store: Path, tmp_path: Path) -> None:
    with driver(store, {"cpu": pool(setup=(f"export SLVMEVAL_WORKER_STORE={tmp_path}/none",))}) as flow:
        with pytest.raises(PrerequisiteError, match="pool cpu: none of its nodes is fit") as problem:
            flow.wait_for_room("cpu", 1, 1)
        for node in ("c1", "c2"):
            output = f"on node {node} (job 1) is unfit: the store {tmp_path}/none is not visible here"
            assert output in re.sub(r"job \d+", "job 1", str(problem.value))
        # it is given no work
        item = flow.submit("cpu", abs, 1)
        time.sleep(1)
        assert not item.done()


def test_a_node_without_a_gpu_is_reported_unless_models_may_run_on_the_cpu(
    store: Path, tmp_path: Path
) -> None:
    broken = tool(tmp_path / "bin", "echo 'NVIDIA-SMI has failed'; exit 9")
    pools = {"cpu": pool(), "h100": pool("h100", gpus=1, setup=(broken,))}
    with (
        driver(store, pools) as flow,
        pytest.raises(PrerequisiteError, match="SLURM assigned the GPU 0, which does not"),
    ):
        flow.wait_for_room("h100", 1, 1)
    with driver(store, pools, allow_cpu_models=True) as flow:
        flow.wait_for_room("h100", 1, 1)
        assert flow.submit("h100", provenance_after, 0).result()["device"] == "GPU 0 (none visible)"


def test_jobs_that_never_have_a_worker_are_a_problem(store: Path, slurm: Slurm) -> None:
    with driver(store, {"cpu": pool(setup=("echo no such module; exit 7",))}) as flow:
        with pytest.raises(PrerequisiteError, match=r"without a worker.*\n.*no such module"):
            flow.wait_for_room("cpu", 1, 1)
        with pytest.raises(UserInputError, match=r"\[pools\.h100\]"):
            flow.cluster.room("h100", 1)
        logs = list((store / "cache" / "slurm-logs").iterdir())
        assert len(logs) == 3


def test_what_slurm_refuses_is_reported_with_its_words(store: Path) -> None:
    pools = {"cpu": pool("nope")}
    with (
        driver(store, pools) as flow,
        pytest.raises(PrerequisiteError, match="invalid partition specified: nope"),
    ):
        flow.wait_for_room("cpu", 1, 1)


def test_a_name_in_use_is_refused(store: Path, slurm: Slurm) -> None:
    job = slurm.sbatch("--job-name=slvmeval-twice-cpu", "-o", "/dev/null", wrap="sleep 60")
    with pytest.raises(PrerequisiteError, match=f"scancel {job}"), driver(store, {"cpu": pool()}, "twice"):
        pass
    assert [result["id"] for result in slurm.squeue()] == [str(job)]


def test_a_controller_that_is_away_for_a_while_costs_nothing(
    store: Path, slurm: Slurm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(commands, "TIMEOUT_S", 1.0)
    controller = json.loads((slurm.folder / "daemons.json").read_text())["slurmctld"]
    with driver(store, {"cpu": pool(maximum=2)}) as flow:
        flow.wait_for_room("cpu", 1, 1)
        os.kill(controller, signal.SIGSTOP)
        try:
            end = time.monotonic() + 20
            while "SLURM does not answer" not in caplog.text and time.monotonic() < end:
                assert flow.cluster.room("cpu", 2) == 1
                time.sleep(0.1)
            assert "SLURM does not answer" in caplog.text
            assert flow.submit("cpu", abs, -1).result(timeout=30) == 1
        finally:
            os.kill(controller, signal.SIGCONT)
        flow.wait_for_room("cpu", 2, 2)
    assert slurm.squeue() == []


def test_jobs_end_with_a_driver_that_was_killed(store: Path, slurm: Slurm, tmp_path: Path) -> None:
    script = f"""
        import os, signal, sys, time
        from pathlib import Path
        from infra.pool import Pool
        from infra.profile import Profile
        from infra.slurm.cluster import SlurmCluster

        # the third job waits for a node
        pool = Pool(partition="cpu", cores=4, workers=1, memory="500MiB", walltime="01:00:00", maximum=3)
        cluster = SlurmCluster(Profile(pools={{"cpu": pool}}, poll_s=0.3), Path({str(store)!r}), "killed")
        while cluster.room("cpu", 3) < 2:
            time.sleep(0.05)
        while not cluster.state()["cpu"]["pending"]:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=120, check=False)
    began = time.monotonic()
    assert ran.returncode == -signal.SIGKILL
    slurm.wait(lambda: not slurm.squeue(), limit_s=30)
    print(f"the jobs of a killed driver were gone after {time.monotonic() - began:.1f} s")
    states = {slurm.job(path.stem.split("-")[-1])["JobState"] for path in (store / "cache").rglob("*.log")}
    assert states <= {"CANCELLED", "COMPLETED"}
    # what it had left in the store goes too
    slurm.wait(lambda: not list((store / "cache").rglob("run.json")))


def test_jobs_drain_before_their_time_and_are_replaced(store: Path, slurm: Slurm) -> None:
    # the shortest walltime of SLURM is a minute: half of it is left when nothing new may begin
    pools = {"cpu": pool(walltime="00:01:00", longest_item="00:00:30", maximum=2)}
    with driver(store, pools) as flow:
        flow.wait_for_room("cpu", 1, 1)
        done: list[dict[str, Any]] = []
        drained = False
        item: Future | None = None
        while len({place["job"] for place in done}) < 2:
            if item is None and flow.cluster.room("cpu", 1) > 0:
                item = flow.submit("cpu", provenance_after, 1.0)
            if item is not None and item.done():
                done.append(item.result())
                item.release()
                item = None
            drained = drained or flow.cluster.state()["cpu"]["draining"] == 1
            time.sleep(0.02)
        first = done[0]["job"]
        assert drained
        slurm.wait(lambda: slurm.job(first)["JobState"] != "RUNNING")
        # it was ended by us, half a minute before SLURM would have done so
        assert slurm.job(first)["JobState"] in ("CANCELLED", "COMPLETING", "COMPLETED")
        assert len(done) > 10
