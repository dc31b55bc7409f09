"""A model server is announced while it answers, and goes with its job."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from infra.serving import ServerFile, forget_server, main, read_server, server_path, write_server
from tests.flows.prefect_servers import wait_for

SERVER = [sys.executable, str(Path(__file__).parent / "small_model_server.py"), "serve", "weights"]
NAME = "caption-analysis"


def words(store: Path, *more: str, seconds: float = 30) -> list[str]:
    """Return the arguments for a server, and what it is started with."""
    wanted = ["--store", str(store), "--name", NAME, "--model", "small", "--host", "127.0.0.1"]
    return [*wanted, "--start-seconds", str(seconds), "--", *more]


def start(store: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "infra.serving", *words(store, *SERVER, *more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def asked(server: ServerFile, key: str) -> int:
    request = urllib.request.Request(f"{server.url}/models", headers={"Authorization": f"Bearer {key}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        problem.close()
        return problem.code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_is_announced_while_it_answers(tmp_path: Path, number: signal.Signals) -> None:
    running = start(tmp_path, "--slow", "0.3")
    lines: list[str] = []
    try:
        assert running.stdout is not None
        # the server is announced before its log says that it answers
        for line in iter(running.stdout.readline, ""):
            lines.append(line)
            if "answers at http://127.0.0.1:" in line:
                break
        server = read_server(tmp_path, NAME)
        assert server is not None
        assert server.model == "small"
        assert server.process == running.pid
        path = server_path(tmp_path, NAME)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert asked(server, server.key) == 200
        assert asked(server, "another") == 401
        # other users can read command lines
        parts = psutil.Process(running.pid)
        for process in (parts, *parts.children(recursive=True)):
            assert server.key not in " ".join(process.cmdline())
    finally:
        running.send_signal(number)
        output, _ = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    # its key stands in no line that others can read
    assert server.key not in "".join(lines) + output
    assert read_server(tmp_path, NAME) is None
    with pytest.raises(OSError, match="refused"):
        asked(server, server.key)


def test_the_workers_of_a_server_that_crashed_are_ended(tmp_path: Path) -> None:
    running = start(tmp_path, "--crash", str(tmp_path / "worker"))
    running.communicate(timeout=60)
    assert running.returncode == 9
    assert read_server(tmp_path, NAME) is None
    worker = Path("/proc", (tmp_path / "worker").read_text())
    # nobody may have collected it yet
    wait_for(lambda: not worker.exists() or " Z " in (worker / "stat").read_text(), 60, "its end")


@pytest.mark.parametrize(
    ("program", "seconds", "message"),
    [
        ([*SERVER, "--fail"], 30.0, "ended with status 7 before it answered"),
        ([*SERVER, "--slow", "60"], 1.0, "did not answer within 1 s"),
        (["no-such-program"], 30.0, "no-such-program cannot be started"),
    ],
    ids=["fails", "slow", "none"],
)
def test_a_server_that_does_not_come_up(
    tmp_path: Path, program: list[str], seconds: float, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words(tmp_path, *program, seconds=seconds)) == 1
    assert message in capfd.readouterr().err
    assert read_server(tmp_path, NAME) is None


def test_the_group_of_a_shared_store_can_read_an_announcement(tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    server = ServerFile(
        url="http://127.0.0.1:1/v1", model="m", key="k", host="h", process=1, since="2026-01-01"
    )
    write_server(tmp_path, NAME, server)
    path = server_path(tmp_path, NAME)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o2770


def test_only_its_own_announcement_is_taken_back(tmp_path: Path) -> None:
    here = {"host": socket.gethostname(), "process": os.getpid(), "since": "2026-01-01"}
    ours = ServerFile.model_validate({"url": "http://127.0.0.1:1/v1", "model": "m", "key": "k", **here})
    write_server(tmp_path, NAME, ours.model_copy(update={"process": 1}))
    forget_server(tmp_path, NAME)
    assert read_server(tmp_path, NAME) is not None
    write_server(tmp_path, NAME, ours)
    forget_server(tmp_path, NAME)
    assert read_server(tmp_path, NAME) is None
    server_path(tmp_path, NAME).write_text("{torn")
    assert read_server(tmp_path, NAME) is None
