"""Votes per second of many concurrent workers: ``python -m bench.annotating``.

The server runs in its own process, on SQLite and then on PostgreSQL; its clock is 2,000 times as fast, so
that no worker waits for a film to play. Each vote takes eleven requests: the page (with a prompt of the
paper's mean length), both videos, four playback reports, the preference, two confirmed intervals, the rating.
Without pauses this measures the server's maximum; with pauses between tasks it measures response times at a
pace beyond that of any campaign.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tests.flows.postgres import postgres_programs, running_postgres
from tests.slvmeval.web.annotation.crowd import Ran, Server, campaign_for, check_nothing_lost, crowd, stored

#: Mean number of characters of a prompt (SLVMEval, section 3).
PROMPT = 57_884
#: Bytes of each fake video; the paper's have 40 MB on average, loaded while workers watch.
VIDEO = 1_000_000


@contextmanager
def database(kind: str) -> Iterator[str | None]:
    """Yield the address of an empty database; None means SQLite in the store."""
    programs = postgres_programs()
    if kind == "sqlite":
        yield None
        return
    assert programs is not None, "no PostgreSQL here: apt-get install postgresql"
    with running_postgres(programs, "desk", "secret", "desk", fsync=True) as port:
        yield f"postgresql+psycopg://desk:secret@127.0.0.1:{port}/desk"


def measure(
    kind: str, workers: int, tasks: int, pause_s: float, processes: int, seconds: float = math.inf
) -> dict[str, Any]:
    """Return votes per second, times and the server's CPU for one database.

    Parameters
    ----------
    seconds
        No task begins later than this; votes per second are counted after the first quarter of this time.
    """
    with TemporaryDirectory() as folder, database(kind) as address:
        serving, tokens = campaign_for(Path(folder) / "store", workers, tasks, address, VIDEO, PROMPT)
        server = Server(serving, processes)
        server.start()
        try:
            before = server.cpu_s()
            ran = crowd(server.address, tokens, tasks, pause_s, seconds=seconds)
            cpu_s = server.cpu_s() - before
        finally:
            server.stop()
        check_nothing_lost(ran, stored(serving))
    return {
        "database": kind,
        "workers": workers,
        "pause_s": pause_s,
        "processes": processes,
        **figures(ran, cpu_s, seconds),
    }


def figures(ran: Ran, cpu_s: float, seconds: float = math.inf) -> dict[str, Any]:
    """Return the figures of one run; times in ms."""
    votes = len(ran.acknowledged)
    first, last = (seconds / 4, seconds) if seconds < math.inf else (0.0, ran.wall_s)
    steady = sum(first <= at < last for at in ran.voted_at)
    return {
        "votes": votes,
        "lost": 0,
        "votes_a_second": round(steady / (last - first), 2),
        "requests_a_second": round(len(ran.took) / ran.wall_s, 1),
        "rate_ms": quantiles(ran.seconds("rate")),
        "all_ms": quantiles(ran.seconds()),
        "server_cpu_ms_a_vote": round(1000 * cpu_s / votes, 1),
    }


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Return median, 95th percentile and maximum of sorted times, in ms."""
    shares = {"median": 0.5, "p95": 0.95, "most": 1.0}
    last = len(seconds) - 1
    return {name: round(1000 * seconds[round(share * last)], 1) for name, share in shares.items()}


def main() -> None:
    """Measure each run and print it as a line of JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--pause", type=float, default=10.0, help="mean seconds between a worker's tasks")
    parser.add_argument("--seconds", type=float, default=math.inf, help="last start of a task")
    parser.add_argument("--processes", type=int, default=2, help="number of server processes, on PostgreSQL")
    arguments = parser.parse_args()
    print(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()[0], "psutil": psutil.__version__}))
    for kind in arguments.database or ("sqlite", "postgresql"):
        processes = arguments.processes if kind == "postgresql" else 1
        # with a fixed time, an always busy server shows nothing
        for pause_s in (arguments.pause,) if arguments.seconds < math.inf else (0.0, arguments.pause):
            measured = measure(
                kind, arguments.workers, arguments.tasks, pause_s, processes, arguments.seconds
            )
            print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main()
