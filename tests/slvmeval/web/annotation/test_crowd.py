"""Many concurrent workers, and a server that is killed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_a_killed_server_loses_no_acknowledged_vote(tmp_path: Path, database: str | None) -> None:
    serving, tokens = campaign_for(tmp_path / "store", workers=10, tasks=4, database=database)
    server = Server(serving)
    server.start()
    go = {12: threading.Event(), 25: threading.Event()}

    def voted(count: int) -> None:
        if count in go:
            go[count].set()

    def killer() -> None:
        for event in go.values():
            assert event.wait(300)
            server.kill()
            server.start()

    killing = threading.Thread(target=killer)
    killing.start()
    try:
        ran = crowd(server.address, tokens, tasks=4, voted=voted)
        killing.join(300)
    finally:
        server.stop()
    assert not killing.is_alive()
    assert all(event.is_set() for event in go.values())
    votes = stored(serving)
    check_nothing_lost(ran, votes)
    assert len(ran.acknowledged) == len(votes) == 40


def test_a_server_that_is_told_to_end_does_so_and_goes_on_where_it_was(tmp_path: Path) -> None:
    serving, tokens = campaign_for(tmp_path / "store", workers=4, tasks=4)
    server = Server(serving)
    server.start()
    half = threading.Event()
    codes: list[int] = []

    def restart() -> None:
        assert half.wait(300)
        codes.append(server.stop())
        server.start()

    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        ran = crowd(server.address, tokens, tasks=4, voted=lambda count: half.set() if count == 8 else None)
        restarting.join(300)
    finally:
        server.stop()
    # a shell's exit code for a process that SIGTERM ended, or Python's
    assert codes in ([-15], [143], [0])
    check_nothing_lost(ran, stored(serving))
    assert len(ran.acknowledged) == 16
