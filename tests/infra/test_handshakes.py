"""Strangers who connect to a Dask server and say nothing neither stop it nor fill its log."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import dask.config
import pytest
from distributed import Scheduler

from infra import handshakes
from infra.handshakes import RepeatedMessages, bound_handshakes
from infra.tls import new_credentials
from tests.infra.strangers import answers
from tests.own_time import own_time


def idle(address: str, number: int) -> Iterator[socket.socket]:
    place = urlsplit(address)
    for _ in range(number):
        yield socket.create_connection((place.hostname, place.port))


def ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(("most", "longest_s", "left"), [(20, 60.0, 20), (1000, 0.5, 0)])
def test_idle_connections_are_few_and_short(
    most: int,
    longest_s: float,
    left: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(handshakes, "MAX_UNFINISHED", most)
    monkeypatch.setattr(handshakes, "MAX_HANDSHAKE_S", longest_s)
    bound_handshakes()
    ours = new_credentials().security()

    async def flooded() -> None:
        async with Scheduler(
            host="127.0.0.1", protocol="tls://", security=ours, dashboard_address="127.0.0.1:0"
        ) as scheduler:
            strangers = list(idle(scheduler.address, 200))
            try:
                end = time.monotonic() + 20
                # a stranger may see the end before the scheduler has left the handshake
                while (sum(not ended(one) for one in strangers), len(handshakes._unfinished)) != (left, left):
                    assert time.monotonic() < end
                    await asyncio.sleep(0.05)
                assert await answers(scheduler.address, ours)
            finally:
                for stranger in strangers:
                    stranger.close()
            while handshakes._unfinished:
                await asyncio.sleep(0.05)

    # else its lock files stay in the system's temporary folder
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        asyncio.run(flooded())
    assert len([record for record in caplog.records if "handshake failed" in record.message]) <= 1


def test_a_repeated_error_is_logged_once_a_minute_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    own_time(monkeypatch, handshakes, monotonic=lambda: now[0])
    filter_ = RepeatedMessages()

    def said(message: str, *arguments: object, error: Exception | None = None, level: int = 40) -> str | None:
        info = None if error is None else (type(error), error, None)
        record = logging.LogRecord("asyncio", level, "", 0, message, arguments, info)
        return record.getMessage() if filter_.filter(record) else None

    full = OSError(errno.EMFILE, "Too many open files")
    assert said("callback 7", error=full) == "callback 7"
    assert [said(f"callback {n}", error=full) for n in range(5)] == [None] * 5
    assert said("callback 7", error=OSError(errno.EPIPE, "x")) == "callback 7", "another error"
    assert said("failed with %s", "a") == "failed with a"
    assert said("failed with %s", "b") is None
    assert said("failed with %s", "c", level=logging.INFO) == "failed with c"
    now[0] += handshakes.REPEAT_S
    assert said("callback 9", error=full) == "callback 9 (5 more like this in the last 60 s)"
    assert said("callback 9", error=full) is None
