from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.progress import BuildProgress
from slvmeval.cli.main import main
from storage_schemas.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def write_state(
    store: Store, status: str, pid: int, started_at: str = "then", host: str = socket.gethostname()
) -> Path:
    store.cache.mkdir(exist_ok=True)
    stages = {"ingest": {"done": 1, "total": 3, "set_aside": 1}}
    state = {"status": status, "host": host, "pid": pid, "started_at": started_at, "updated_at": "later"}
    path = store.cache / f"run-{host}-{pid}.json"
    path.write_text(json.dumps(state | {"stages": stages}), encoding="utf-8")
    return path


def status(store: Store, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["status", "--store", str(store.root)]) == 0
    return capsys.readouterr().out


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_store_without_a_build(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has no builds" in status(store, capsys)


def test_a_running_build_and_one_whose_process_is_gone(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(store, "running", os.getpid())
    assert f"build: running (process {os.getpid()} on " in status(store, capsys)
    write_state(store, "ended", os.getpid(), "before")
    write_state(store, "running", dead_pid())
    text = status(store, capsys)
    assert "died" in text
    assert "the same build command resumes" in text
    assert "1/3, 1 set aside" in text


def test_what_progress_writes_is_read(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with BuildProgress(store.cache, quiet=True) as progress:
        progress.expect("degrade", 2)
        progress.done("degrade", "one", set_aside=1)
        assert main(["status", "--store", str(store.root), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["run"]["status"] == "running"
    assert main(["status", "--store", str(store.root), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)["run"]
    assert run["status"] == "ended"
    assert run["stages"]["degrade"] == {"done": 1, "total": 2, "set_aside": 1}


def test_a_damaged_state_is_no_state(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.cache.mkdir()
    (store.cache / "run-here-1.json").write_text("{", encoding="utf-8")
    assert "has no builds" in status(store, capsys)


def test_watching_ends_with_the_build(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    write_state(store, "ended", dead_pid())
    assert main(["status", "--store", str(store.root), "--watch"]) == 0
    assert "last build: ended" in capsys.readouterr().out


def test_the_end_of_one_build_says_nothing_of_another(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_state(store, "running", os.getppid(), "2020-01-01")
    with BuildProgress(store.cache, quiet=True):
        assert status(store, capsys).count("build: running") == 2
    text = status(store, capsys)
    assert f"running (process {os.getppid()}" in text
    assert "ended" not in text
    assert main(["gc", "--store", str(store.root)]) == 1
    assert f"process {os.getppid()} on {socket.gethostname()}" in capsys.readouterr().err
    other.unlink()
    assert "last build: ended" in status(store, capsys)


def test_a_build_of_another_machine_is_taken_at_its_word(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_state(store, "running", dead_pid(), host="elsewhere")
    assert "on elsewhere)" in status(store, capsys)
    assert main(["gc", "--store", str(store.root)]) == 1
    assert f"if that process no longer exists, remove {path}" in capsys.readouterr().err


def test_the_newest_build_comes_first_and_old_ones_are_forgotten(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in range(1, 10):
        write_state(store, "failed" if day % 2 else "ended", 10_000_000 + day, f"2020-01-0{day}")
    running = write_state(store, "running", os.getppid(), "2019-01-01")
    assert main(["status", "--store", str(store.root), "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["started_at"][-2:] for run in runs] == ["01", *(f"0{day}" for day in range(9, 0, -1))]
    with BuildProgress(store.cache, quiet=True):
        pass
    left = sorted(path.stem[-1] for path in store.cache.glob("run-*-1000000*.json"))
    assert left == list("56789")
    assert running.exists()


POOLS = {
    "cpu": {"jobs": 2, "pending": 0, "reason": "", "workers": 8, "draining": 1, "wanted": 30},
    "h100": {"jobs": 0, "pending": 3, "reason": "Resources", "workers": 0, "draining": 0, "wanted": 7},
}
SUMMARY = [
    {"aspect": "color", "planned": 9, "built": 7, "set_aside": 2, "reasons": {"TOO_DARK": 2}},
    {"aspect": "aesthetics", "planned": 4, "built": 4, "set_aside": 0, "reasons": {}},
]


def cells(text: str, first: str) -> list[str]:
    """Return the cells of a table's line by its first cell."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{first} ")]
    return line.split()


def test_pools_and_aspects_of_a_running_build_are_tables(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with BuildProgress(store.cache, quiet=True) as progress:
        progress.note_pools(POOLS)
        progress.note_summary(SUMMARY)
        text = status(store, capsys)
        assert cells(text, "cpu") == ["cpu", "2", "0", "8", "1", "30"]
        assert cells(text, "h100") == ["h100", "0", "3", "0", "0", "7", "Resources"]
        assert cells(text, "color") == ["color", "9", "7", "2", "TOO_DARK", "2"]
    # the jobs are gone with the build; the results by aspect remain
    text = status(store, capsys)
    assert "h100" not in text
    assert cells(text, "color") == ["color", "9", "7", "2", "TOO_DARK", "2"]
    assert main(["status", "--store", str(store.root), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)["run"]
    assert (run["pools"], run["summary"]) == ({}, SUMMARY)


@pytest.mark.skipif(shutil.which("script") is None, reason="no `script`, which gives it a terminal")
def test_watching_shows_the_pools_until_the_build_ends(store: Store, tmp_path: Path) -> None:
    path = write_state(store, "running", os.getpid())
    state = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(state | {"pools": POOLS, "summary": SUMMARY}), encoding="utf-8")
    out = tmp_path / "out"
    # a terminal in which each state is drawn
    command = [
        "script",
        "-qec",
        f"{sys.executable} -m slvmeval status --watch --store {store.root}",
        "/dev/null",
    ]
    with out.open("wb") as file, subprocess.Popen(command, stdout=file, stdin=subprocess.DEVNULL) as watching:
        wait_for(lambda: b"Resources" in out.read_bytes())
        path.write_text(json.dumps(state | {"status": "ended", "summary": SUMMARY}), encoding="utf-8")
        assert watching.wait(timeout=30) == 0
    assert b"last build: ended" in out.read_bytes()


def wait_for(reached: Callable[[], bool], limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.1)
