"""Many concurrent workers, against a server in a separate process."""

from __future__ import annotations

import math
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from slvmeval.web.annotation.serve import Serving
from storage_schemas.votes import Vote
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import installation_key
from tasks.annotation.pair_task import PromptClip
from tests.slvmeval.web.annotation.pieces import BEGAN_VARIABLE, NAME, Browser, fast_clock, pair, put_up

ROOT = Path(__file__).parents[4]
#: Seconds that a film of 30 seconds takes on the fast clock, with a margin.
_FILM_S = 0.02
#: Seconds that a busy machine may need to start a server.
_PATIENCE_S = 180
#: Leases that do not expire on the fast clock.
_LEASE_MINUTES = 1e7


@dataclass
class Ran:
    """The result of many workers.

    Ratings by the id of each acknowledged vote, when they were, and times of requests after the first task.
    """

    acknowledged: dict[str, str] = field(default_factory=dict)
    took: list[tuple[str, float]] = field(default_factory=list)
    wall_s: float = 0.0
    voted_at: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def seconds(self, kind: str | None = None) -> list[float]:
        """Return the sorted durations of requests of a kind; of all by default."""
        return sorted(took for name, took in self.took if kind in (None, name))


def campaign_for(
    root: Path, workers: int, tasks: int, database: str | None = None, video: int = 50_000, prompt: int = 500
) -> tuple[Serving, list[str]]:
    """Publish enough pairs for `tasks` tasks of each of `workers`; return server settings and tokens."""
    # a new clock for each measurement, shared by its processes
    os.environ[BEGAN_VARIABLE] = str(time.time())
    count = max(tasks + 2, -(-workers * tasks * 3 // 10))
    words = "A red ball rolls over the lawn while a man in a blue coat looks on. "
    times = [at / 4 for at in range(prompt // len(words * 7) + 1)]
    clips = [PromptClip(start_s=at, end_s=at + 0.25, caption=words * 7) for at in times]
    size = {"high_bytes": video, "low_bytes": video - 999}
    pairs = [pair(number, prompt_clips=clips, **size) for number in range(count)]
    return put_up(root, pairs, workers, database, lease_minutes=_LEASE_MINUTES)


class Server:
    """A server in a separate process that can be killed and restarted at the same address."""

    def __init__(self, serving: Serving, processes: int = 1) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.serving = serving.at(port=free.getsockname()[1])
        self.processes = processes
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The address of the server."""
        return self.serving.address

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.serving.to_environment()
        command = [sys.executable, "-m", "tests.slvmeval.web.annotation.fast_app", str(self.processes)]
        self._process = subprocess.Popen(command, cwd=ROOT)
        ends = time.monotonic() + _PATIENCE_S
        while time.monotonic() < ends and self._process.poll() is None:
            with suppress(httpx.TransportError):
                httpx.get(f"{self.address}/health", timeout=20)
                return
            time.sleep(0.05)
        self.kill()
        raise AssertionError("the server does not answer")

    def _all(self) -> list[psutil.Process]:
        assert self._process is not None
        first = psutil.Process(self._process.pid)
        return [first, *first.children(recursive=True)]

    def cpu_s(self) -> float:
        """Return the CPU time so far, including child processes."""
        times = [one.cpu_times() for one in self._all()]
        return sum(one.user + one.system for one in times)

    def kill(self) -> None:
        """Kill the server, as a power failure would."""
        assert self._process is not None
        for one in self._all() if self._process.poll() is None else ():
            one.kill()
        self._process.wait()

    def stop(self) -> int:
        """Terminate the server normally, and return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(_PATIENCE_S)


def crowd(
    address: str,
    tokens: list[str],
    tasks: int,
    pause_s: float = 0.0,
    voted: Callable[[int], None] | None = None,
    seconds: float = math.inf,
) -> Ran:
    """Let a worker for each token do a number of tasks, all concurrently.

    They wait `pause_s` on average between tasks, and begin none after `seconds`; `voted` is called with the
    number of acknowledged votes after each.
    """
    ran, lock = Ran(), threading.Lock()

    def work(number: int, token: str) -> None:
        draw = random.Random(number)
        try:
            with Browser(address, token, patience_s=_PATIENCE_S) as browser:
                browser.enter()
                browser.took.clear()
                for done in range(tasks):
                    if done == 1:
                        browser.took.clear()
                    time.sleep(draw.expovariate(1 / pause_s) if pause_s else 0)
                    if time.perf_counter() - began > seconds:
                        break
                    rating = draw.choice("ABC")
                    vote = str(browser.answer(_watch, rating)["vote"])
                    with lock:
                        ran.acknowledged[vote] = rating
                        ran.voted_at.append(time.perf_counter() - began)
                        count = len(ran.acknowledged)
                    if voted is not None:
                        voted(count)
                with lock:
                    ran.took += browser.took
        except (AssertionError, KeyError, httpx.HTTPError) as problem:
            with lock:
                ran.problems.append(f"worker {number}: {problem!r}")

    threads = [threading.Thread(target=work, args=one) for one in enumerate(tokens)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ran.wall_s = time.perf_counter() - began
    return ran


def _watch(_: float) -> None:
    time.sleep(_FILM_S)


def stored(serving: Serving) -> list[Vote]:
    """Return the votes in the database, once the server is gone."""
    with Desk.open(serving.database, installation_key(serving.root), fast_clock) as desk:
        return [vote for _, vote in desk.votes.read(NAME)]


def check_nothing_lost(ran: Ran, votes: list[Vote]) -> None:
    """Assert that every acknowledged vote is stored exactly once, and that the rules hold."""
    assert not ran.problems, ran.problems[:3]
    stored = {vote.vote_id: vote.rating for vote in votes}
    assert len(stored) == len(votes)
    lost = {id_: rating for id_, rating in ran.acknowledged.items() if stored.get(id_) != rating}
    assert not lost, f"{len(lost)} acknowledged votes are lost"
    seen = [(vote.worker, vote.pair_id) for vote in votes]
    assert len(set(seen)) == len(seen), "a worker voted twice on a pair"
    on_pair = [pair_id for _, pair_id in seen]
    assert max(map(on_pair.count, set(on_pair)), default=0) <= 5
