"""What becomes of jobs that fail, hang, are refused or are ended by somebody else."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace as Plain
from typing import Any

import pytest

from infra.pool import Pool
from infra.slurm import pool_jobs
from infra.slurm.commands import Job, Node
from infra.slurm.pool_jobs import Members, PoolJobs
from storage_schemas.errors import PrerequisiteError
from tests.own_time import own_time

NAME = "slvmeval-run-cpu"
POOL = Pool(partition="cpu", cores=2, memory="1GiB", walltime="02:00:00", maximum=4, idle_s=0.0)


class Cluster:
    """One pool whose scheduler is a plain object."""

    def __init__(self, logs: Path) -> None:
        self.scheduler: Any = Plain(workers={}, resources={"pool-cpu": {}}, unrunnable=[])
        self.members = Members(lambda member: self.jobs.worker_came(member))
        self.logs = logs
        self.jobs = PoolJobs(
            NAME, "cpu", POOL, self.members, lambda job: logs / f"{job}.log", poll_s=0.0, most_unfit=2
        )

    def worker(self, job: str, *problems: str, node: str = "n1") -> Any:
        """A worker of a job reports."""
        address = f"tcp://{node}/{job}-{len(self.scheduler.workers)}"
        report = {"pool": "cpu", "job": job, "node": node, "problems": list(problems)}
        state = Plain(address=address, name="cpu-0", host=node, extra={"slvmeval": report})
        state.processing, state.has_what = set(), set()
        self.scheduler.workers[address] = state
        self.scheduler.resources["pool-cpu"][address] = 1.0
        self.members.add_worker(self.scheduler, address)
        return state

    def gone(self, worker: Any) -> None:
        """A worker is lost."""
        self.members.remove_worker(self.scheduler, worker.address, stimulus_id="x")

    def fail(self, *ids: str, state: str = "FAILED") -> None:
        """Jobs are submitted and end, one after another."""
        for id_ in ids:
            self.jobs.submitted(id_)
            self.jobs.update([job(id_, state)])


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def job(id_: str, state: str = "RUNNING", node: str = "n1", ends_in_s: float = 7200.0) -> Job:
    return Job(id_, NAME, state, "", node, time.time(), time.time() + ends_in_s)


def test_three_jobs_in_a_row_without_a_worker_are_a_problem_with_the_log(cluster: Cluster) -> None:
    (cluster.logs / "3.log").write_text("\n".join(f"line {n}" for n in range(40)) + "\nno module infra\n")
    cluster.fail("1", "2")
    assert cluster.jobs.problem is None
    cluster.fail("3", state="TIMEOUT")
    text = str(cluster.jobs.problem)
    assert "the last one was 3 (TIMEOUT on " in text
    assert text.endswith("no module infra")
    assert ("line 39" in text, "line 20" in text) == (True, False)


def test_no_log_means_that_the_folder_may_not_be_seen(cluster: Cluster) -> None:
    cluster.fail("1", "2", "3")
    assert "It has no log" in str(cluster.jobs.problem)
    assert "job_logs" in str(cluster.jobs.problem)


def test_a_worker_in_between_ends_the_row_and_while_there_is_one_the_pool_continues(cluster: Cluster) -> None:
    cluster.fail("1", "2")
    cluster.jobs.submitted("3")
    worker = cluster.worker("3")
    cluster.fail("4")
    cluster.gone(worker)
    cluster.fail("5")
    assert cluster.jobs.problem is None
    cluster.jobs.update([job("9")])
    cluster.worker("9")
    for id_ in ("6", "7", "8"):
        cluster.jobs.submitted(id_)
        cluster.jobs.update([job("9"), job(id_, "FAILED")])
    assert cluster.jobs.problem is None
    assert cluster.jobs.room() == 1


@pytest.mark.parametrize("state", ["CANCELLED", "PREEMPTED", "NODE_FAIL", "ended by us"])
def test_jobs_that_somebody_ended_are_not_failures(cluster: Cluster, state: str) -> None:
    for id_ in "1234":
        if state == "ended by us":
            cluster.jobs.update([job(id_)])
            cluster.jobs.ended((id_,))
            cluster.jobs.update([job(id_, "FAILED")])
        else:
            cluster.fail(id_, state=state)
    assert cluster.jobs.problem is None
    assert cluster.jobs.starts.may_submit(time.time())


def test_a_job_that_vanished_failed_if_it_had_begun(cluster: Cluster) -> None:
    for id_ in "123":
        cluster.jobs.submitted(id_)
        cluster.jobs.update([])  # pending, never seen again, no log
    assert cluster.jobs.problem is None
    for id_ in "456":
        cluster.jobs.submitted(id_)
        (cluster.logs / f"{id_}.log").write_text("oh\n")
        cluster.jobs.update([])
    assert str(cluster.jobs.problem).endswith("oh")


def test_a_job_whose_submission_was_never_answered_is_ours(cluster: Cluster) -> None:
    cluster.jobs.update([job("7", "PENDING", "")])
    assert cluster.jobs.state()["pending"] == 1
    cluster.jobs.update([job("7"), Job("8", "another", "RUNNING")])
    assert (cluster.jobs.state()["jobs"], cluster.jobs.state()["pending"]) == (1, 0)


def nodes(*names: str, partition: str = "cpu") -> list[Node]:
    return [Node(name, name, name, "idle", 4, 8000, "", (), (partition,)) for name in names]


FOUR = [*nodes("n1", "n2", "n3", "n4"), *nodes("g1", partition="gpu")]


def test_the_node_of_an_unfit_worker_is_left_out_and_its_job_ends_when_its_other_workers_are_done(
    cluster: Cluster,
) -> None:
    cluster.jobs.say(2)
    cluster.jobs.update([job("7", node="n13")])
    fit = cluster.worker("7", node="n13")
    fit.processing.add("item")
    cluster.worker("7", "it has no GPU: check gres", node="n13")
    assert cluster.jobs.nodes_to_judge()
    cluster.jobs.judge(FOUR)
    assert not cluster.jobs.nodes_to_judge()
    text = cluster.jobs.state()["unfit"]["n13"]
    assert "on node n13 (job 7) is unfit: it has no GPU: check gres" in text
    assert str(cluster.logs / "7.log") in text
    assert cluster.jobs.problem is None
    assert cluster.jobs.room() == 1
    decision = cluster.jobs.decide()
    assert (decision.cancel, decision.submit) == ((), 1)
    fit.processing.clear()
    assert cluster.jobs.room() == 0
    assert cluster.jobs.decide().cancel == ("7",)


def test_too_many_unfit_nodes_or_no_other_are_a_problem_with_each_reason(cluster: Cluster) -> None:
    for number, node in enumerate(("n1", "n2", "n1")):
        cluster.worker(str(number), f"broken {number}", node=node)
        cluster.jobs.judge(FOUR)
    assert cluster.jobs.problem is None
    cluster.worker("4", "broken 4", node="n3")
    cluster.jobs.judge(FOUR)
    text = str(cluster.jobs.problem)
    assert "3 nodes are unfit, more than most_unfit_nodes = 2 allows" in text
    assert all(f"broken {number}" in text for number in (1, 2, 4))


def test_a_pool_without_a_fit_node_is_a_problem_at_once(cluster: Cluster) -> None:
    cluster.worker("1", "broken")
    cluster.jobs.judge([*nodes("n1"), *nodes("g1", partition="gpu")])
    assert "pool cpu: none of its nodes is fit\nthe worker cpu-0 on node n1" in str(cluster.jobs.problem)


def test_a_node_that_swallows_jobs_is_left_out(cluster: Cluster) -> None:
    cluster.jobs.submitted("9")
    cluster.worker("9", node="n2")
    for id_ in "12":
        assert not cluster.jobs.nodes_to_judge()
        cluster.jobs.submitted(id_)
        cluster.jobs.update([job("9"), job(id_, "FAILED", node="n1")])
    cluster.jobs.judge(FOUR)
    assert "job 2 ended without a worker (FAILED on n1)" in cluster.jobs.unfit["n1"]
    assert cluster.jobs.problem is None


def test_while_the_store_is_away_no_node_is_at_fault(cluster: Cluster) -> None:
    for id_ in "1234":
        cluster.jobs.submitted(id_)
        cluster.jobs.update([job(id_, "FAILED")], store_away=True)
    cluster.worker("5", "the store cannot be written here")
    cluster.jobs.overlook()
    assert not cluster.jobs.nodes_to_judge()
    assert (cluster.jobs.problem, cluster.jobs.unfit) == (None, {})
    assert cluster.jobs.starts.may_submit(time.time())


def test_a_refusal_is_a_problem_unless_other_jobs_may_use_up_the_share(cluster: Cluster) -> None:
    refusal = PrerequisiteError("sbatch failed: invalid account")
    cluster.jobs.refused(refusal, others=True)
    assert cluster.jobs.problem is None
    cluster.jobs.refused(refusal, others=False)
    assert "rejects jobs of the pool cpu: sbatch failed: invalid account" in str(cluster.jobs.problem)


def test_a_draining_job_finishes_what_it_has(cluster: Cluster) -> None:
    cluster.jobs.say(4)
    listed = [job("1", ends_in_s=60.0), job("2")]
    cluster.jobs.update(listed)
    late, other = cluster.worker("1"), cluster.worker("2")
    late.processing.add("item")
    assert cluster.jobs.room() == 2
    decision = cluster.jobs.decide()
    assert decision.drain == ("1",)
    assert decision.cancel == ()
    assert decision.submit == 1
    # nothing new for the one, which still counts while it works
    assert cluster.scheduler.resources["pool-cpu"] == {late.address: 0.0, other.address: 1.0}
    assert cluster.jobs.room() == 2
    assert cluster.jobs.state()["draining"] == 1
    late.processing.clear()
    late.has_what.add("its result")
    assert cluster.jobs.room() == 1
    assert cluster.jobs.decide().cancel == ()
    late.has_what.clear()
    assert cluster.jobs.decide().cancel == ("1",)
    # a process of it that comes back is given nothing either
    again = cluster.worker("1")
    assert cluster.scheduler.resources["pool-cpu"][again.address] == 0.0
    assert cluster.jobs.room() == 1


def test_an_idle_job_is_given_nothing_from_the_moment_that_it_is_to_end(cluster: Cluster) -> None:
    cluster.jobs.update([job("1")])
    worker = cluster.worker("1")
    assert cluster.jobs.decide().cancel == ("1",)
    assert cluster.scheduler.resources["pool-cpu"][worker.address] == 0.0
    cluster.jobs.ended(("1",))
    # it is not ended twice while it ends
    assert cluster.jobs.decide().cancel == ()


def test_a_job_is_asked_to_end_once_and_only_if_it_has_workers(cluster: Cluster) -> None:
    cluster.jobs.update([job("1_0"), job("1_1"), job("1_2", "PENDING")])
    worker = cluster.worker("1_0")
    assert cluster.jobs.retirable(["1_0", "1_1", "1_2", "9"]) == {"1_0": [worker.address]}
    assert cluster.members.idle_jobs() == {"1_0": [worker.address]}
    cluster.jobs.ended(("1_0",))
    assert cluster.jobs.retirable(["1_0"]) == {}
    worker.processing.add("item")
    assert cluster.members.idle_jobs() == {}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which the test sets."""
    result = [1000.0]
    own_time(monkeypatch, pool_jobs, time=lambda: result[0])
    return result


def test_a_job_that_runs_without_a_worker_is_given_up(cluster: Cluster, now: list[float]) -> None:
    cluster.jobs.say(8)
    cluster.jobs.update([job("1"), job("2")])
    worker = cluster.worker("2")
    cluster.jobs.decide()
    assert cluster.jobs.hanging() == ()
    now[0] += pool_jobs.WITHOUT_WORKER_S + 1
    assert cluster.jobs.hanging() == ("1",)
    # the same holds for one that has lost its workers
    cluster.gone(worker)
    cluster.jobs.decide()
    now[0] += pool_jobs.WITHOUT_WORKER_S + 1
    assert cluster.jobs.hanging() == ("1", "2")
    cluster.jobs.ended(("1", "2"))
    assert cluster.jobs.hanging() == ()


def test_items_that_wait_for_a_worker_are_wanted_too(cluster: Cluster) -> None:
    for asked in ({"pool-cpu": 1}, {"pool-h100": 1}, None):
        cluster.scheduler.unrunnable.append(Plain(resource_restrictions=asked))
    cluster.jobs.update([job("1")])
    worker = cluster.worker("1")
    worker.processing.update({"a", "b"})
    assert cluster.members.in_flight("cpu") == 3


def test_jobs_that_would_wait_forever_are_a_problem_after_a_while(cluster: Cluster, now: list[float]) -> None:
    def wait(reason: str, more_s: float) -> None:
        now[0] += more_s
        cluster.jobs.update([Job("1", NAME, "PENDING", reason), Job("2", NAME, "PENDING", reason)])

    # a wait that somebody else ends is not a problem
    for reason in ("Resources", "PartitionDown", "ReqNodeNotAvail, May be reserved"):
        for _ in range(5):
            wait(reason, 1000)
    lasting = "QOSMaxCpuPerJobLimit"
    for other, more_s in ((lasting, 0), ("Priority", 50), (lasting, 50), (lasting, 59)):
        wait(other, more_s)
    assert cluster.jobs.problem is None
    wait(lasting, 2)
    text = str(cluster.jobs.problem)
    assert "would never start by themselves (QOSMaxCpuPerJobLimit)" in text
    assert "pools.cpu.cores, pools.cpu.qos in the profile" in text


def test_a_wait_for_something_unknown_is_reported_once(
    cluster: Cluster, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        now[0] += 100
        cluster.jobs.update([Job("1", NAME, "PENDING", "The licence server says no")])
    assert cluster.jobs.problem is None
    (said,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "SLURM says: The licence server says no. If that does not end by itself" in said
