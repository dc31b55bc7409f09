"""Decide the number of jobs of a pool from demand and existing jobs; nothing is started here."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from infra.pool import Pool, seconds_of

#: Number of consecutive jobs without a worker after which the pool counts as unusable.
MAX_FAILED_STARTS = 3
#: Maximum pause after a job without a worker, in seconds.
MAX_PAUSE_S = 300.0
#: Seconds for which the driver's demand is valid; a driver that is busy elsewhere does not renew it.
ASKED_LATELY_S = 120.0


@dataclass(frozen=True)
class JobState:
    """State of one job.

    Parameters
    ----------
    id
        Its id.
    pending
        Whether it waits for a node.
        busy
            Whether one of its workers processes an item or holds a result that was not yet fetched.
    draining
        Whether its workers get no new items.
    idle_since
        Time at which it became idle, in seconds; None while it is busy or pending.
    ends_at
        Time at which its limit is reached, in seconds; None if unknown.
    """

    id: str
    pending: bool = False
    busy: bool = False
    draining: bool = False
    idle_since: float = math.inf
    ends_at: float | None = None


@dataclass(frozen=True)
class ScalingStep:
    """Number of jobs to submit, jobs to end now, and jobs to drain."""

    submit: int
    cancel: tuple[str, ...]
    drain: tuple[str, ...]


def decide(
    pool: Pool,
    wanted: int,
    wanted_lately: int,
    jobs: Sequence[JobState],
    now: float,
    may_submit: bool = True,
) -> ScalingStep:
    """Return the next scaling step of a pool.

    Parameters
    ----------
    wanted
        Number of items in flight or waiting.
    wanted_lately
        Maximum demand within the last ``pool.idle_s`` seconds, so that no job ends too early.
    jobs
        The waiting and running jobs in order of submission, without those being cancelled.
    now
        Current time, on the same clock as those of the jobs.
    may_submit
        False while jobs fail.
    """
    expiring = [
        job
        for job in jobs
        if not (job.draining or job.pending)
        and job.ends_at is not None
        and job.ends_at - now < seconds_of(pool.longest_item)
    ]
    draining = [job for job in jobs if job.draining] + expiring
    live = [job for job in jobs if job not in draining]
    ended = [job for job in draining if not job.busy]

    surplus = max(0, len(live) - needed_jobs(pool, max(wanted, wanted_lately)))
    waiting = [job for job in reversed(live) if job.pending][:surplus]
    idle = [job for job in live if now - job.idle_since >= pool.idle_s and not (job.busy or job.pending)]
    idle.sort(key=lambda job: job.idle_since)
    cancel = [*ended, *waiting, *idle[: surplus - len(waiting)]]

    remaining = [job for job in live if job not in cancel]
    free = pool.maximum - (len(jobs) - len(cancel))
    submit = max(0, min(needed_jobs(pool, wanted) - len(remaining), free)) if may_submit else 0
    return ScalingStep(submit, tuple(job.id for job in cancel), tuple(job.id for job in expiring))


def needed_jobs(pool: Pool, wanted: int) -> int:
    """Return the number of jobs that a pool needs for `wanted` items, within its bounds."""
    return min(pool.maximum, max(pool.minimum, math.ceil(wanted / pool.processes)))


class Demand:
    """The driver's demand on a pool, now and recently; thread-safe.

    Parameters
    ----------
    window_s
        Length of the window, in seconds.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._lock = threading.Lock()
        self._said: list[tuple[float, int]] = [(-math.inf, 0)]
        self._asked_at = -math.inf

    @property
    def wanted(self) -> int:
        """Current demand."""
        return self._said[-1][1]

    def say(self, wanted: int, now: float) -> bool:
        """Record the driver's demand; return whether it increased."""
        with self._lock:
            self._asked_at = now
            return self._note(wanted, now)

    def look(self, now: float, in_flight: int) -> tuple[int, int]:
        """Return the current demand and the maximum within the window.

        Parameters
        ----------
        in_flight
            Number of items that the workers have; replaces an outdated demand.
        """
        with self._lock:
            if now - self._asked_at > ASKED_LATELY_S:
                self._note(in_flight, now)
            # drop demands that ended before the window
            while len(self._said) > 1 and self._said[1][0] <= now - self._window_s:
                del self._said[0]
            return max(self._said[-1][1], in_flight), max(wanted for _, wanted in self._said)

    def _note(self, wanted: int, now: float) -> bool:
        before = self._said[-1][1]
        if wanted != before:
            self._said.append((now, wanted))
        return wanted > before


class Starts:
    """Tracks whether the jobs of a pool start: pauses between submissions grow while they do not.

    Parameters
    ----------
    pause_s
        First pause, in seconds; each further one is twice as long.
    """

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._failed = 0
        self._not_before = -math.inf

    def came_up(self) -> None:
        """Record that a job has a worker."""
        self._failed, self._not_before = 0, -math.inf

    def failed(self, now: float) -> None:
        """Record that a job ended, or was rejected, without ever having a worker."""
        self._failed += 1
        pause = min(self._pause_s * 2 ** (self._failed - 1), MAX_PAUSE_S)
        self._not_before = now + pause

    def may_submit(self, now: float) -> bool:
        """Return whether the pause is over."""
        return now >= self._not_before

    @property
    def hopeless(self) -> bool:
        """Whether enough jobs have failed in a row that further ones would fail too."""
        return self._failed >= MAX_FAILED_STARTS
