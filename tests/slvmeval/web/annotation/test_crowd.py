"""Many concurrent workers, and a server that is killed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slvmeval.web.annotation.serve import Serving
from tests.flows.postgres import postgres_programs, running_postgres
from tests.slvmeval.web.annotation.crowd import Server, campaign_for, check_nothing_lost, crowd, stored

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Address of an empty database; None is SQLite in the store."""
    if request.param == "sqlite":
        yield None
        return
    programs = postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    with running_postgres(programs, "desk", "secret", "desk") as port:
        yield f"postgresql+psycopg://desk:secret@127.0.0.1:{port}/desk"


def test_fifty_workers_at_once_lose_no_vote(tmp_path: Path, database: str | None) -> None:
    serving, tokens = campaign_for(tmp_path / "store", workers=50, tasks=2, database=database)
    server = Server(serving, processes=2 if database else 1)
    server.start()
    try:
        ran = crowd(server.address, tokens, tasks=2)
    finally:
        server.stop()
    votes = stored(serving)
    check_nothing_lost(ran, votes)
    assert len(ran.acknowledged) == len(votes) == 100


def interrupted(
    serving: Serving, tokens: list[str], counts: list[int], end: Callable[[Server], None]
) -> None:
    """Let workers do four tasks each while the server ends and starts again at some numbers of votes."""
    server = Server(serving)
    server.start()
    reached = {count: threading.Event() for count in counts}

    def restart() -> None:
        for event in reached.values():
            assert event.wait(300)
            end(server)
            server.start()

    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        ran = crowd(
            server.address, tokens, 4, voted=lambda count: reached[count].set() if count in reached else None
        )
        restarting.join(300)
    finally:
        server.stop()
    assert not restarting.is_alive()
    assert all(event.is_set() for event in reached.values())
    votes = stored(serving)
    check_nothing_lost(ran, votes)
    assert len(ran.acknowledged) == len(votes) == 4 * len(tokens)


def test_a_killed_server_loses_no_acknowledged_vote(tmp_path: Path, database: str | None) -> None:
    serving, tokens = campaign_for(tmp_path / "store", workers=10, tasks=4, database=database)
    interrupted(serving, tokens, [12, 25], Server.kill)


def test_a_server_that_is_told_to_end_does_so_and_resumes(tmp_path: Path) -> None:
    serving, tokens = campaign_for(tmp_path / "store", workers=4, tasks=4)
    codes: list[int] = []
    interrupted(serving, tokens, [8], lambda server: codes.append(server.stop()))
    # a shell's exit code for a process that SIGTERM ended, or Python's
    assert codes in ([-15], [143], [0])
