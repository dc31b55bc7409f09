"""The jobs of one pool in one run, the workers that have registered, and the next scaling step."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import WorkerState

from infra.pool import Pool, resource_of
from infra.slurm.commands import Job, Node
from infra.slurm.job_script import DEATH_TIMEOUT_S
from infra.slurm.scaling import Demand, JobState, ScalingStep, Starts, decide, needed_jobs
from infra.slurm.waiting import is_unknown, lasting_wait
from infra.slurm.worker_setup import REPORT
from storage_schemas.errors import PrerequisiteError


@dataclass(eq=False)
class Member:
    """One registered worker process."""

    state: WorkerState
    pool: str
    job: str
    node: str
    problems: tuple[str, ...]
    draining: bool = False

    @property
    def working(self) -> bool:
        """Whether it has an item."""
        return bool(self.state.processing)

    @property
    def busy(self) -> bool:
        """Whether it is working, or holds a result that would be lost."""
        return self.working or bool(self.state.has_what)


class Members(SchedulerPlugin):
    """Keeps the list of workers; its methods except `room` run on the scheduler's event loop.

    Parameters
    ----------
    came
        Called with each new worker.
    """

    name = "slvmeval-members"

    def __init__(self, came: Callable[[Member], None]) -> None:
        self._came = came
        self._by_address: dict[str, Member] = {}
        self._scheduler: Scheduler | None = None

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Register a worker before it gets work."""
        state = scheduler.workers[worker]
        report: dict[str, Any] | None = state.extra.get(REPORT)
        if report is None:
            # not started by us, so it has none of our resources
            return
        member = Member(
            state,
            str(report.get("pool", "")),
            str(report.get("job", "")),
            str(report.get("node", state.host)),
            tuple(report["problems"]),
        )
        self._scheduler = scheduler
        self._by_address[worker] = member
        self._came(member)

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Unregister a worker."""
        self._by_address.pop(worker, None)

    def of_job(self, job: str) -> list[Member]:
        """Return the workers of a job."""
        return [member for member in self._all() if member.job == job]

    def of_pool(self, pool: str) -> list[Member]:
        """Return the workers of a pool."""
        return [member for member in self._all() if member.pool == pool]

    def _all(self) -> Iterable[Member]:
        return tuple(self._by_address.values())

    def idle_jobs(self) -> dict[str, list[str]]:
        """Return the workers' addresses of each job whose workers have no items."""
        jobs: dict[str, list[Member]] = {}
        for member in self._all():
            jobs.setdefault(member.job, []).append(member)
        return {
            job: [member.state.address for member in members]
            for job, members in jobs.items()
            if not any(member.working for member in members)
        }

    def drain(self, job: str) -> None:
        """Stop giving new items to the workers of a job; they finish their current ones."""
        for member in self.of_job(job):
            member.draining = True
            for supplied in self._scheduler.resources.values() if self._scheduler is not None else ():
                if member.state.address in supplied:
                    supplied[member.state.address] = 0.0

    def room(self, pool: str) -> int:
        """Return how many items may be in flight in a pool: one per worker, plus those being drained."""
        fit = [member for member in self.of_pool(pool) if not member.problems]
        return sum(member.working if member.draining else 1 for member in fit)

    def in_flight(self, pool: str) -> int:
        """Return the number of items that the scheduler has for a pool."""
        waiting = 0
        if self._scheduler is not None:
            for task in self._scheduler.unrunnable:
                waiting += resource_of(pool) in (task.resource_restrictions or {})
        return waiting + sum(len(member.state.processing) for member in self.of_pool(pool))


log = logging.getLogger(__name__)

#: Number of log lines in an error message.
TAIL_LINES = 15
#: Seconds after which a running job without a worker counts as failed.
WITHOUT_WORKER_S = DEATH_TIMEOUT_S + 120.0
#: Seconds after which a job that was asked to end but is still running is cancelled.
ENDING_S = 30.0
#: Seconds that a pool's jobs may wait for resources that such jobs can never get.
LASTING_S = 60.0

#: Number of jobs that end on a node without a worker before it counts as unfit.
FAILED_ON_NODE = 2

#: States of jobs ended by a user or because of their node: not failures of the job.
_NOT_ITS_FAULT = frozenset({"CANCELLED", "PREEMPTED", "NODE_FAIL"})


@dataclass(eq=False)
class _Known:
    """A job that appeared in the queue."""

    job: Job
    had_worker: bool = False
    draining: bool = False
    ended_at: float | None = None
    idle_since: float = math.inf
    alone_since: float | None = None


class PoolJobs:
    """The jobs of one pool.

    Parameters
    ----------
    name
        Name of the jobs.
    pool_name, pool
        The pool.
    members
        The workers of all pools.
    log_of
        Returns where a job writes its log.
    poll_s
        Interval between updates, in seconds; also the pause after the first failed job.
    most_unfit
        Number of unfit nodes with which the pool is still usable.
    """

    def __init__(
        self,
        name: str,
        pool_name: str,
        pool: Pool,
        members: Members,
        log_of: Callable[[str], Path],
        poll_s: float,
        most_unfit: int = 0,
    ) -> None:
        self.name, self.pool_name, self.pool = name, pool_name, pool
        self.log_of = log_of
        self.demand = Demand(pool.idle_s)
        self.starts = Starts(poll_s)
        #: Set when the pool is unusable.
        self.problem: PrerequisiteError | None = None
        self._members, self._poll_s = members, poll_s
        self._known: dict[str, _Known] = {}
        #: Why nodes are left out, by their names.
        self.unfit: dict[str, str] = {}
        self._most_unfit = most_unfit
        self._found_unfit: dict[str, str] = {}
        self._failed_on: Counter[str] = Counter()
        self._stuck_since: float | None = None
        #: Since when all jobs wait for something unknown; infinite once that was reported.
        self._unknown_since: float | None = None

    def say(self, wanted: int) -> bool:
        """Record the driver's demand; return whether it needs more jobs than exist."""
        more = self.demand.say(wanted, time.time())
        return more and needed_jobs(self.pool, wanted) > len(self._known)

    def worker_came(self, member: Member) -> None:
        """Record that a job has a worker, which may be unfit."""
        record = self._known.setdefault(member.job, _Known(Job(member.job, self.name, "RUNNING")))
        record.had_worker = True
        if member.problems:
            # other workers of the job finish their items
            record.draining = True
            self._found_unfit[member.node] = (
                f"the worker {member.state.name} on node {member.node} (job {member.job}) is unfit: "
                f"{'; '.join(member.problems)}. Its log: {self.log_of(member.job)}"
            )
        else:
            self.starts.came_up()
            self._failed_on[member.node] = 0
        if record.draining:
            self._members.drain(member.job)

    def nodes_to_judge(self) -> bool:
        """Return whether a node was found unfit since the last :meth:`judge`."""
        return bool(self._found_unfit)

    def judge(self, nodes: Iterable[Node]) -> None:
        """Exclude the nodes found unfit from further jobs; if no other is left, the pool is unusable.

        Parameters
        ----------
        nodes
            All nodes of the cluster.
        """
        found, self._found_unfit = self._found_unfit, {}
        for node, why in found.items():
            if node not in self.unfit:
                log.warning("pool %s: node %s is left out of further jobs: %s", self.pool_name, node, why)
        self.unfit |= found
        partitions = set(self.pool.partitions)
        names = {node.name for node in nodes if partitions & set(node.partitions)}
        if len(self.unfit) > self._most_unfit:
            why = f"{len(self.unfit)} nodes are unfit, more than most_unfit_nodes = {self._most_unfit} allows"
        elif names and names <= self.unfit.keys():
            why = "none of its nodes is fit"
        else:
            return
        self.problem = PrerequisiteError("\n".join([f"pool {self.pool_name}: {why}", *self.unfit.values()]))

    def overlook(self) -> None:
        """Forget the nodes found unfit, because the store is unavailable to the driver too."""
        for node in self._found_unfit:
            log.warning("pool %s: node %s cannot work while the store is unavailable", self.pool_name, node)
        self._found_unfit = {}

    def update(self, listed: list[Job], store_away: bool = False) -> None:
        """Update the jobs from squeue's output; while the store is unavailable, no job can start."""
        here = {job.id: job for job in listed if job.name == self.name}
        for job in here.values():
            if job.id in self._known:
                self._known[job.id].job = job
            elif job.pending or job.running:
                # submitted, but sbatch's answer was lost
                self._known[job.id] = _Known(job)
        for id_, record in list(self._known.items()):
            ended = here.get(id_)
            if ended is None or not ended.there:
                del self._known[id_]
                if store_away or record.had_worker or record.ended_at is not None:
                    continue
                if self._is_failure(ended, record.job):
                    self._failed(record.job, record.job.state if ended is None else ended.state)
        self._judge_waiting(time.time())

    def _judge_waiting(self, now: float) -> None:
        """Mark the pool unusable if all its jobs wait for resources that such jobs can never get."""
        jobs = [record.job for record in self._known.values()]
        self._tell_unknown(jobs, now)
        waits = [lasting_wait(job.reason) if job.pending else None for job in jobs]
        ours = [wait for wait in waits if wait is not None and wait.ours]
        if not jobs or len(ours) < len(jobs):
            self._stuck_since = None
            return
        self._stuck_since = self._stuck_since or now
        if now - self._stuck_since >= LASTING_S:
            keys = ", ".join(f"pools.{self.pool_name}.{key}" for key in ours[0].keys)
            self.problem = PrerequisiteError(
                f"pool {self.pool_name}: its jobs would never start by themselves ({jobs[0].reason}): "
                f"{ours[0].remedy}; look at {keys} in the profile"
            )

    def _tell_unknown(self, jobs: list[Job], now: float) -> None:
        """Report once that all jobs wait, perhaps indefinitely."""
        if not jobs or not all(job.pending and is_unknown(job.reason) for job in jobs):
            self._unknown_since = None
            return
        self._unknown_since = self._unknown_since or now
        if now - self._unknown_since >= LASTING_S:
            self._unknown_since = math.inf
            log.warning(
                "pool %s: its jobs are waiting, and SLURM says: %s. If that does not end by itself, "
                "end the build and change pools.%s in the profile",
                self.pool_name,
                jobs[0].reason,
                self.pool_name,
            )

    def _failed(self, job: Job, how: str) -> None:
        """Record a failed job; after several in a row the pool counts as unusable."""
        self.starts.failed(time.time())
        path = self.log_of(job.id)
        where = f"{how} on {job.node or 'its node'}"
        log.warning("pool %s: job %s failed (%s), see %s", self.pool_name, job.id, where, path)
        self._failed_on[job.node] += 1
        if job.node and self._failed_on[job.node] >= FAILED_ON_NODE:
            self._found_unfit[job.node] = f"job {job.id} ended without a worker ({where}). {_tail(path)}"
        if self.starts.hopeless and not self._members.of_pool(self.pool_name):
            self.problem = PrerequisiteError(
                f"pool {self.pool_name}: several jobs in a row ended without a worker, the last one was "
                f"{job.id} ({where}). {_tail(path)}"
            )

    def refused(self, problem: PrerequisiteError, others: bool) -> None:
        """Record that SLURM rejected a job; while `others` exist, a quota may be exhausted for now."""
        self.starts.failed(time.time())
        if others:
            log.warning("pool %s: %s; retrying", self.pool_name, problem)
        else:
            self.problem = PrerequisiteError(
                f"SLURM rejects jobs of the pool {self.pool_name}: {problem}. `slvmeval doctor --script "
                f"--pool {self.pool_name}` prints the job script, `slvmeval doctor` checks the profile"
            )

    def _is_failure(self, ended: Job | None, before: Job) -> bool:
        """Return whether a job without a worker failed, rather than being cancelled.

        `ended` is the job in squeue after its end (None if no longer listed), `before` its earlier state.
        """
        if ended is None:
            return not before.pending or self.log_of(before.id).exists()
        return ended.state not in _NOT_ITS_FAULT

    def decide(self) -> ScalingStep:
        """Return the next scaling step; workers of jobs to be ended get no more work."""
        now = time.time()
        wanted, lately = self.demand.look(now, self._members.in_flight(self.pool_name))
        jobs = [self._seen(record, now) for record in self._known.values() if not _is_ending(record, now)]
        decision = decide(self.pool, wanted, lately, jobs, now, self.starts.may_submit(now))
        for id_ in (*decision.drain, *decision.cancel):
            self._known[id_].draining = True
            self._members.drain(id_)
        return decision

    def _seen(self, record: _Known, now: float) -> JobState:
        """Return the current state of a job."""
        job = record.job
        workers = self._members.of_job(job.id)
        busy = any(member.busy for member in workers)
        record.idle_since = math.inf if job.pending or busy else min(record.idle_since, now)
        record.alone_since = None if job.pending or workers else record.alone_since or now
        # the next update may be too late
        ends_at = None if job.pending or job.ends_at is None else job.ends_at - self._poll_s
        return JobState(job.id, job.pending, busy, record.draining, record.idle_since, ends_at)

    def hanging(self) -> tuple[str, ...]:
        """Return the jobs that have run too long without a worker and should be ended."""
        now = time.time()
        jobs = [
            record
            for record in self._known.values()
            if record.alone_since is not None
            and now - record.alone_since > WITHOUT_WORKER_S
            and not _is_ending(record, now)
        ]
        for record in jobs:
            if not record.had_worker:
                self._failed(record.job, "none of its workers registered")
        return tuple(record.job.id for record in jobs)

    def submitted(self, id_: str) -> None:
        """Record a new job."""
        self._known.setdefault(id_, _Known(Job(id_, self.name, "PENDING")))

    def ended(self, ids: tuple[str, ...]) -> None:
        """Record that jobs were asked to end."""
        for id_ in ids:
            if id_ in self._known:
                self._known[id_].ended_at = time.time()

    def retirable(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """Return the worker addresses of jobs that can be asked to end and have not been asked before."""
        found = {}
        for id_ in ids:
            record, workers = self._known.get(id_), self._members.of_job(id_)
            if record is not None and record.ended_at is None and workers:
                found[id_] = [member.state.address for member in workers]
        return found

    def any_live(self) -> bool:
        """Return whether any job is waiting or has a worker."""
        waits = any(record.job.pending for record in self._known.values())
        return waits or bool(self._members.of_pool(self.pool_name))

    def room(self) -> int:
        """Return the number of items that may be in flight now."""
        return self._members.room(self.pool_name)

    def state(self) -> dict[str, Any]:
        """Return the number of jobs and workers, and the reasons why jobs wait."""
        records = tuple(self._known.values())
        waiting = [each.job for each in records if each.job.pending]
        reasons = sorted({job.reason for job in waiting if job.reason})
        return {
            "jobs": sum(each.job.running for each in records),
            "pending": len(waiting),
            "reason": ", ".join(reasons),
            "workers": len(self._members.of_pool(self.pool_name)),
            "draining": sum(each.draining and each.job.running for each in records),
            "wanted": self.demand.wanted,
            "unfit": dict(self.unfit),
        }


def _is_ending(record: _Known, now: float) -> bool:
    """Return whether a job was asked to end recently."""
    if record.job.state == "COMPLETING":
        return True
    return record.ended_at is not None and now - record.ended_at <= ENDING_S


def _tail(path: Path) -> str:
    """Return the end of a job's log."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return (
            f"It has no log {path}: can the nodes see that folder? job_logs in the profile sets another one"
        )
    return f"The end of its log {path}:\n" + "\n".join(lines[-TAIL_LINES:])
