"""`status`: builds that run, ended or died, here and elsewhere."""

from __future__ import annotations

import json
import os
import socket
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from infra.progress import BuildProgress
from slvmeval.cli.store.status import _redirection
from storage_schemas.store import Store
from tests.slvmeval.cli.running import NO_PROCESS, Run, lacks


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


@pytest.fixture
def status(store: Store, run: Run) -> Run:
    """Give the command on the store."""
    return lambda *words, **more: run("status", "--store", store.root, *words, **more)


def write_state(
    store: Store, status: str, pid: int, started_at: str = "then", host: str = socket.gethostname()
) -> Path:
    store.cache.mkdir(exist_ok=True)
    stages = {"ingest": {"done": 1, "total": 3, "set_aside": 1}}
    state = {"status": status, "host": host, "pid": pid, "started_at": started_at, "updated_at": "later"}
    path = store.cache / f"run-{host}-{pid}.json"
    path.write_text(json.dumps(state | {"stages": stages}), encoding="utf-8")
    return path


def test_no_build_a_running_one_and_one_whose_process_is_gone(store: Store, status: Run) -> None:
    assert "has no builds" in status().out
    store.cache.mkdir()
    damaged = store.cache / "run-here-1.json"
    damaged.write_text("{", encoding="utf-8")
    assert "has no builds" in status().out
    damaged.unlink()
    write_state(store, "running", os.getpid())
    assert f"build: running (process {os.getpid()} on " in status().out
    write_state(store, "ended", os.getpid(), "before")
    write_state(store, "running", NO_PROCESS)
    text = status().out
    assert not lacks(text, "died", "the same build command resumes", "1/3, 1 set aside")
    # watching ends with the build
    write_state(store, "ended", NO_PROCESS)
    assert "last build: ended" in status("--watch").out


def test_store_of_a_project_is_found_by_the_project_folder(tmp_path: Path, run: Run) -> None:
    Store.create(tmp_path / "store")
    assert "no build" in run("status", "--store", tmp_path).out


def test_the_end_of_one_build_says_nothing_of_another(store: Store, status: Run, run: Run) -> None:
    other = write_state(store, "running", os.getppid(), "2020-01-01")
    with BuildProgress(store.cache, quiet=True):
        assert status().out.count("build: running") == 2
    text = status().out
    assert f"running (process {os.getppid()}" in text
    assert "ended" not in text
    refusal = run("gc", "--store", store.root, code=1).err
    assert f"process {os.getppid()} on {socket.gethostname()}" in refusal
    other.unlink()
    assert "last build: ended" in status().out


def test_a_build_of_another_machine_is_taken_at_its_word(store: Store, status: Run, run: Run) -> None:
    path = write_state(store, "running", NO_PROCESS, host="elsewhere")
    assert "on elsewhere)" in status().out
    refusal = run("gc", "--store", store.root, code=1).err
    assert f"if that process no longer exists, remove {path}" in refusal


def test_the_newest_build_comes_first_and_old_ones_are_forgotten(store: Store, status: Run) -> None:
    for day in range(1, 10):
        write_state(store, "failed" if day % 2 else "ended", 10_000_000 + day, f"2020-01-0{day}")
    running = write_state(store, "running", os.getppid(), "2019-01-01")
    runs = status("--format", "json").json["runs"]
    assert [one["started_at"][-2:] for one in runs] == ["01", *(f"0{day}" for day in range(9, 0, -1))]
    with BuildProgress(store.cache, quiet=True):
        pass
    left = sorted(path.stem[-1] for path in store.cache.glob("run-*-1000000*.json"))
    assert left == list("56789")
    assert running.exists()


def test_status_of_another_run_is_not_that_of_the_build(store: Store, status: Run, run: Run) -> None:
    with BuildProgress(store.cache, quiet=True):
        pass
    with pytest.raises(ValueError, match="x"), BuildProgress(store.cache, quiet=True, what="prompts"):
        assert f"prompts: running (process {os.getpid()}" in status().out
        raise ValueError("x")
    write_state(store, "ended", NO_PROCESS, "before")
    assert "last build: ended" in status().out
    assert "last build: ended" in run("--store", store.root).out


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


def test_what_progress_writes_is_read_and_pools_and_aspects_are_tables(store: Store, status: Run) -> None:
    with BuildProgress(store.cache, quiet=True) as progress:
        progress.expect("degrade", 2)
        progress.done("degrade", "one", set_aside=1)
        progress.note_pools(POOLS)
        progress.note_summary(SUMMARY)
        assert status("--format", "json").json["run"]["status"] == "running"
        text = status().out
        assert cells(text, "cpu") == ["cpu", "2", "0", "8", "1", "30"]
        assert cells(text, "h100") == ["h100", "0", "3", "0", "0", "7", "Resources"]
        assert cells(text, "color") == ["color", "9", "7", "2", "TOO_DARK", "2"]
    # the jobs are gone with the build; the results by aspect remain
    text = status().out
    assert "h100" not in text
    assert cells(text, "color") == ["color", "9", "7", "2", "TOO_DARK", "2"]
    run = status("--format", "json").json["run"]
    assert (run["status"], run["pools"], run["summary"]) == ("ended", {}, SUMMARY)
    assert run["stages"]["degrade"] == {"done": 1, "total": 2, "set_aside": 1}


def test_watching_shows_pools_to_the_end(store: Store, status: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_state(store, "running", os.getpid())
    state = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(state | {"pools": POOLS, "summary": SUMMARY}), encoding="utf-8")
    # a terminal in which each state is drawn
    out = StringIO()
    monkeypatch.setattr("slvmeval.cli.terminal.console", lambda: Console(file=out, force_terminal=True))

    def sleep(_s: float) -> None:
        assert "Resources" in out.getvalue()
        assert "last build" not in out.getvalue()
        path.write_text(json.dumps(state | {"status": "ended", "summary": SUMMARY}), encoding="utf-8")

    monkeypatch.setattr("slvmeval.cli.store.status.time", SimpleNamespace(sleep=sleep))
    status("--watch")
    assert "last build: ended" in out.getvalue()


def test_status_leaves_the_variable_of_the_annotation_database_alone(
    store: Store, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLVMEVAL_ANNOTATION_DATABASE", "postgresql://db.example.org/desk")
    run("status", "--store", store.root)
    said = run("status", "--store", store.root, "--database", "sqlite:///other.sqlite", code=2)
    assert "--database: only with --open" in said.err


def test_the_browser_gets_a_page_that_leads_to_the_address(tmp_path: Path) -> None:
    """The address, which is the page's key, is not on the command line of the browser."""
    page = _redirection(tmp_path, 'http://127.0.0.1:1/?key=a&b="c"')
    assert "127.0.0.1" not in page.as_uri()
    assert 'content="0; url=http://127.0.0.1:1/?key=a&amp;b=&quot;c&quot;"' in page.read_text()
