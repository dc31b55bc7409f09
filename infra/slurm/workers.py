"""The workers that have reported to the scheduler: where they run, whether they are fit, what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import WorkerState

from infra.pool import RESOURCES
from infra.slurm.worker_setup import REPORT


@dataclass(eq=False)
class Member:
    """One worker process, as it reported itself."""

    state: WorkerState
    pool: str
    job: str
    node: str
    problems: tuple[str, ...]
    draining: bool = False

    @property
    def working(self) -> bool:
        """Whether it has an item to work on."""
        return bool(self.state.processing)

    @property
    def busy(self) -> bool:
        """Whether it works, or holds a result that would be lost with it."""
        return self.working or bool(self.state.has_what)


class Members(SchedulerPlugin):
    """Keeps the list of workers; its methods run on the scheduler's event loop, but for `room`.

    Parameters
    ----------
    came
        Called with each worker as it comes.
    """

    name = "slvmeval-members"

    def __init__(self, came: Callable[[Member], None]) -> None:
        self._came = came
        self._by_address: dict[str, Member] = {}
        self._scheduler: Scheduler | None = None

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Take a worker in, before it is given work."""
        state = scheduler.workers[worker]
        report: dict[str, Any] | None = state.extra.get(REPORT)
        if report is None:
            # not one of ours, so it has none of our resources
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
        """Let a worker go."""
        self._by_address.pop(worker, None)

    def of_job(self, job: str) -> list[Member]:
        """Return the workers of a job."""
        return [member for member in self._all() if member.job == job]

    def of_pool(self, pool: str) -> list[Member]:
        """Return the workers of a pool."""
        return [member for member in self._all() if member.pool == pool]

    def _all(self) -> Iterable[Member]:
        return tuple(self._by_address.values())

    def drain(self, job: str) -> None:
        """Give the workers of a job nothing new; what they work on they finish."""
        for member in self.of_job(job):
            member.draining = True
            for supplied in self._scheduler.resources.values() if self._scheduler is not None else ():
                if member.state.address in supplied:
                    supplied[member.state.address] = 0.0

    def room(self, pool: str) -> int:
        """Return how many items may be in flight in a pool: one a worker; those that drain finish theirs."""
        fit = [member for member in self.of_pool(pool) if not member.problems]
        return sum(member.working if member.draining else 1 for member in fit)

    def in_flight(self, pool: str) -> int:
        """Return how many items the scheduler has for a pool."""
        waiting = 0
        if self._scheduler is not None:
            for task in self._scheduler.unrunnable:
                waiting += RESOURCES[pool] in (task.resource_restrictions or {})
        return waiting + sum(len(member.state.processing) for member in self.of_pool(pool))
