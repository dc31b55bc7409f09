from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.progress import BuildProgress
from slvmeval.cli import main
from storage_schemas.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def write_state(store: Store, status: str, pid: int) -> None:
    store.cache.mkdir(exist_ok=True)
    stages = {"ingest": {"done": 1, "total": 3, "set_aside": 1}}
    state = {"status": status, "pid": pid, "started_at": "then", "updated_at": "later", "stages": stages}
    (store.cache / "run.json").write_text(json.dumps(state), encoding="utf-8")


def status(store: Store, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["status", "--store", str(store.root)]) == 0
    return capsys.readouterr().out


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_store_without_a_build(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no build is known" in status(store, capsys)


def test_a_running_build_and_one_whose_process_is_gone(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(store, "running", os.getpid())
    assert f"running (process {os.getpid()})" in status(store, capsys)
    write_state(store, "running", dead_pid())
    shown = status(store, capsys)
    assert "died" in shown and "the same build command goes on" in shown
    assert "1/3, 1 set aside" in shown


def test_what_progress_writes_is_read(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with BuildProgress(store.cache / "run.json", quiet=True) as progress:
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
    (store.cache / "run.json").write_text("{", encoding="utf-8")
    assert "no build is known" in status(store, capsys)


def test_watching_ends_with_the_build(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    write_state(store, "ended", dead_pid())
    assert main(["status", "--store", str(store.root), "--watch"]) == 0
    assert "last build: ended" in capsys.readouterr().out
