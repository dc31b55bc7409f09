"""A Dask scheduler in this process with pools of workers in SLURM jobs, scaled by demand.

The jobs end with the run, or through a guard process if the run is killed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask.config
from distributed import Scheduler
from distributed.deploy.spec import SpecCluster

from infra.dask_cluster import LOOPBACK, close_pages, dask_settings
from infra.executor import WorkerLimits
from infra.exit_guard import ExitGuard
from infra.open_files import allow_workers
from infra.profile import Profile
from infra.scratch import ScratchFolder
from infra.slurm import commands
from infra.slurm.addresses import check_prefect_server, scheduler_options
from infra.slurm.commands import SlurmAway
from infra.slurm.job_script import job_name, job_script, log_path
from infra.slurm.pool_jobs import Member, Members, PoolJobs
from infra.slurm.run_folder import dead_runs, make_log_folder, remove_run_folder, run_folder, write_run_file
from infra.tls import new_credentials
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.store_wait import why_away

#: Maximum seconds that closing waits for the jobs to end.
CLOSE_S = 90.0

#: Ends the jobs of a run, twice because a submission may have been in progress; retries for an hour while
#: SLURM is unavailable, unless its configuration has disappeared.
_END_JOBS = """
import os, shutil, subprocess, sys, time
user, folder, *names = sys.argv[1:]
conf = os.environ.get("SLURM_CONF")
done = attempts = 0
while done < 2 and attempts < 720 and not (conf and not os.path.exists(conf)):
    calls = [subprocess.run(["scancel", "--quiet", "--user=" + user, "--name=" + name]) for name in names]
    done += all(call.returncode == 0 for call in calls)
    attempts += 1
    time.sleep(5)
shutil.rmtree(folder, ignore_errors=True)
"""


def guard_jobs(names: Sequence[str], folder: Path) -> ExitGuard:
    """Start a guard that ends these jobs and removes the run's folder after this process has ended."""
    return ExitGuard(_END_JOBS, str(commands.user()), str(folder), *names, environment=commands.environment())


def refuse_names_in_use(names: Sequence[str]) -> None:
    """Raise PrerequisiteError if jobs of these names exist: two runs would end each other's jobs."""
    left = [job.id for job in commands.jobs(names) if job.there]
    if left:
        raise PrerequisiteError(
            f"SLURM already has jobs of a run with this name: {', '.join(left)}. Give this run another name, "
            f"or end them with: scancel {' '.join(left)}"
        )


def end_jobs_of_dead_runs(store: Path, pools: Iterable[str]) -> None:
    """End the jobs left by killed runs of this store, and remove the runs' folders.

    A run's guard does so, unless it was killed too. Such jobs end by themselves when they lose their
    scheduler, but if SLURM's own process of a job was killed, SLURM considers it running until it is
    cancelled.
    """
    for run in dead_runs(store):
        log.info("ending any jobs that the killed run %s left in SLURM", run)
        commands.cancel_by_name([job_name(run, pool) for pool in pools])
        remove_run_folder(store, run)


async def end_jobs(names: Sequence[str]) -> bool:
    """End all jobs of these names and wait for them; return whether all have ended."""
    end, pause = time.monotonic() + CLOSE_S, 0.2
    while time.monotonic() < end:
        try:
            await asyncio.to_thread(commands.cancel_by_name, names)
            listed = await asyncio.to_thread(commands.jobs, names)
            if not any(job.there for job in listed):
                return True
        except SlurmAway as problem:
            log.warning("SLURM does not answer, retrying: %s", problem)
        await asyncio.sleep(pause)
        pause = min(2 * pause, 5.0)
    log.error("jobs have not ended; end them with: scancel --name=%s", ",".join(names))
    return False


log = logging.getLogger(__name__)

#: Seconds without a heartbeat after which Dask drops a worker; work may hold the GIL for long.
WORKER_TTL_S = 300
#: Minimum number of jobs that are submitted as an array, and the maximum of one: SLURM's MaxArraySize
#: is 1001 by default.
MIN_ARRAY, MAX_ARRAY = 5, 1000
#: Maximum seconds to wait for idle workers to retire, and at the end of a run for their jobs to complete.
RETIRE_S, COMPLETE_S = 10.0, 15.0
#: Minimum seconds between queries of SLURM.
SOONEST_S = 1.0


class SlurmCluster(SpecCluster):
    """A Dask cluster whose workers are SLURM jobs in pools, submitted and ended by this process.

    It has no worker specifications. Every ``profile.poll_s`` seconds it queries SLURM, and submits, drains
    and ends jobs of each pool according to the demand given to :meth:`room`.

    Parameters
    ----------
    profile
        The site, with its pools.
    store
        Folder of the existing store.
    name
        Unique name of the run; its jobs are named ``slvmeval-{name}-{pool}``.
    preload
        Modules that a worker imports before it gets work.

    Raises
    ------
    UserInputError
        If the profile has no pools, or a value that is invalid in a job script.
    PrerequisiteError
        If SLURM is not installed, or a run of that name has jobs.
    SlurmAway
        If SLURM does not answer.
    """

    def __init__(self, profile: Profile, store: Path, name: str, preload: Sequence[str] = ()) -> None:
        if not profile.pools:
            raise UserInputError("the profile has no pools: add a table [pools.cpu]")
        self.profile, self.store, self.run, self.preload = profile, store.resolve(), name, tuple(preload)
        self.members = Members(self._came)
        self._pools: dict[str, PoolJobs] = {
            pool_name: PoolJobs(
                job_name(name, pool_name),
                pool_name,
                pool,
                self.members,
                self._log_of(pool_name),
                profile.poll_s,
                profile.most_unfit_nodes,
            )
            for pool_name, pool in profile.pools.items()
        }
        self._index = 0
        self._stopping = False
        self._control: asyncio.Task[None] | None = None
        self._guard: ExitGuard | None = None
        for pool_name in profile.pools:
            # invalid values are reported now
            self._script(pool_name, "tls://scheduler:0")
        end_jobs_of_dead_runs(self.store, profile.pools)
        refuse_names_in_use(self._names)
        options = scheduler_options(profile, commands.nodes())
        check_prefect_server(profile, options)
        make_log_folder(profile, self.store)
        allow_workers(sum(pool.maximum * pool.processes for pool in profile.pools.values()))
        self._credentials = new_credentials()
        security = self._credentials.security()
        pages = profile.dashboard_port is not None
        self._scratch = ScratchFolder()
        settings = {
            **dask_settings(self._scratch.path, pages),
            "distributed.scheduler.idle-timeout": None,
            "distributed.scheduler.no-workers-timeout": None,
        }
        scheduler = {
            "cls": Scheduler,
            "options": {
                **options,
                "protocol": "tls://",
                "security": security,
                "allowed_failures": 0,
                "worker_ttl": f"{WORKER_TTL_S} s",
                "dashboard": pages,
                "dashboard_address": f"{LOOPBACK}:{profile.dashboard_port or 0}",
            },
        }
        try:
            with dask.config.set(settings):
                super().__init__(  # type: ignore[no-untyped-call]
                    workers={}, scheduler=scheduler, security=security, name=name
                )
        except BaseException:
            self._scratch.remove()
            raise
        try:
            self.sync(self._begin)  # type: ignore[no-untyped-call]
        except BaseException:
            self.close()
            raise

    def room(self, pool: str, wanted: int) -> int:
        """Record that `wanted` items of a pool are in flight or waiting; return how many may be in flight.

        That is one per worker that is up, fit and not draining, plus the current items of draining ones.

        Raises
        ------
        UserInputError
            If the profile has no such pool.
        PrerequisiteError
            If the pool is unusable: no node is fit, too many are unfit, or jobs in a row have no worker.
        """
        jobs = self._pool(pool)
        if self._control is not None and self._control.done() and not self._stopping:
            self._control.result()
        if jobs.problem is not None:
            raise PrerequisiteError(str(jobs.problem))
        if jobs.say(wanted) and self.loop is not None:
            self.loop.add_callback(self._wake.set)
        return jobs.room()

    def limits(self, pool: str) -> WorkerLimits:
        """Return the maximum number of workers of a pool, and how long an item may take."""
        return self._pool(pool).pool.limits

    def _pool(self, pool: str) -> PoolJobs:
        jobs = self._pools.get(pool)
        if jobs is None:
            raise UserInputError(
                f"the profile has no pool {pool!r}, but there is work for it: add a table [pools.{pool}], "
                "or place the work elsewhere with [placement]"
            )
        return jobs

    def state(self) -> dict[str, dict[str, Any]]:
        """Return, by pool, running and waiting jobs with reasons, workers, demand, and nodes left out."""
        return {pool: jobs.state() for pool, jobs in self._pools.items()}

    @property
    def _scheduler(self) -> Scheduler:
        assert isinstance(self.scheduler, Scheduler)
        return self.scheduler

    @property
    def _names(self) -> list[str]:
        return [jobs.name for jobs in self._pools.values()]

    def _log_of(self, pool_name: str) -> Callable[[str], Path]:
        name = job_name(self.run, pool_name)
        return lambda job: log_path(self.profile, self.store, name, job)

    def _script(self, pool_name: str, scheduler: str, tasks: int = 1) -> str:
        return job_script(
            self.profile,
            pool_name,
            run=self.run,
            index=self._index,
            scheduler=scheduler,
            store=self.store,
            preload=self.preload,
            exclude=self._pools[pool_name].unfit,
            tasks=tasks,
        )

    async def _begin(self) -> None:
        """Start managing the jobs."""
        self._wake = asyncio.Event()
        self._scheduler.add_plugin(self.members)
        if self.profile.dashboard_port is None:
            close_pages(self._scheduler)
        self._guard = guard_jobs(self._names, run_folder(self.store, self.run))
        self._credentials.write(run_folder(self.store, self.run))
        write_run_file(self.store, self.run, self._scheduler.address)
        self._control = asyncio.create_task(self._look_after_jobs())

    async def _look_after_jobs(self) -> None:
        while not self._stopping:
            began = time.monotonic()
            try:
                await self._look()
            except SlurmAway as problem:
                log.warning("SLURM does not answer, retrying: %s", problem)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self.profile.poll_s)
            self._wake.clear()
            if not self._stopping:
                soonest = min(self.profile.poll_s, SOONEST_S)
                await asyncio.sleep(max(0.0, soonest - (time.monotonic() - began)))

    async def _look(self) -> None:
        """Query SLURM, and submit, drain and end jobs as needed."""
        listed = await asyncio.to_thread(commands.jobs, self._names)
        away = await asyncio.to_thread(why_away, self.store) is not None
        for jobs in self._pools.values():
            jobs.update(listed, away)
        if any(jobs.nodes_to_judge() for jobs in self._pools.values()):
            nodes = await asyncio.to_thread(commands.nodes)
            for jobs in self._pools.values():
                if away:
                    jobs.overlook()
                elif jobs.nodes_to_judge():
                    jobs.judge(nodes)
        for jobs in self._pools.values():
            decision = jobs.decide()
            await self._end(jobs, (*decision.cancel, *jobs.hanging()))
            # a job could not write its log, and its worker would be unfit
            if not away and jobs.problem is None:
                await self._submit(jobs, decision.submit)

    async def _end(self, jobs: PoolJobs, ids: tuple[str, ...]) -> None:
        """End jobs: their workers retire, so that a job completes; one without workers is cancelled."""
        retiring = jobs.retirable(ids)
        await asyncio.to_thread(commands.cancel, [id_ for id_ in ids if id_ not in retiring])
        jobs.ended(ids)
        addresses = [address for workers in retiring.values() for address in workers]
        if addresses:
            with suppress(asyncio.TimeoutError):
                retired = self._scheduler.retire_workers(workers=addresses, close_workers=True)
                await asyncio.wait_for(retired, RETIRE_S)

    async def _submit(self, jobs: PoolJobs, number: int) -> None:
        """Submit jobs until SLURM rejects one; many in one call, as an array."""
        arrays = number >= MIN_ARRAY
        while number > 0 and not self._stopping:
            tasks = min(number, MAX_ARRAY) if arrays else 1
            script = self._script(jobs.pool_name, self._scheduler.address, tasks)
            self._index += 1
            try:
                job = await asyncio.to_thread(commands.submit, script)
            except PrerequisiteError as problem:
                if tasks == 1:
                    jobs.refused(problem, others=any(each.any_live() for each in self._pools.values()))
                    return
                # rejected as a whole, although some of its jobs might be accepted
                log.info(
                    "pool %s: SLURM rejects %d jobs submitted at once: %s", jobs.pool_name, tasks, problem
                )
                arrays = False
                continue
            for id_ in commands.array_tasks(job, tasks) if tasks > 1 else [job]:
                jobs.submitted(id_)
            number -= tasks

    async def _complete_jobs(self) -> None:
        """Let the jobs whose workers are idle end by themselves; the others are cancelled afterwards."""
        idle = self.members.idle_jobs()
        for address in (address for workers in idle.values() for address in workers):
            self._scheduler.close_worker(address)
        end = time.monotonic() + COMPLETE_S
        with suppress(SlurmAway):
            await asyncio.to_thread(commands.cancel_by_name, self._names, "PENDING")
            while idle and time.monotonic() < end:
                listed = await asyncio.to_thread(commands.jobs, self._names)
                if not any(job.running and job.id in idle for job in listed):
                    return
                await asyncio.sleep(0.5)

    def _came(self, member: Member) -> None:
        """Record a worker before it gets work."""
        jobs = self._pools.get(member.pool)
        if jobs is not None:
            jobs.worker_came(member)
            if member.problems:
                self._wake.set()

    async def _close(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            self._stopping = True
            self._wake.set()
            # let it finish its step, so that a job being submitted is recorded
            await asyncio.wait({control})
            if not control.cancelled() and control.exception() is not None:
                log.error("managing the jobs failed", exc_info=control.exception())
        if self._guard is not None:
            await self._complete_jobs()
        if self._guard is not None and await end_jobs(self._names):
            self._guard.dismiss()
            self._guard = None
            remove_run_folder(self.store, self.run)
        await super()._close()  # type: ignore[no-untyped-call]
        self._scratch.remove()
