from __future__ import annotations

import io
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import progress as progress_module
from infra.progress import BuildProgress, read_runs
from slvmeval.cli.store.build_states import runs_view
from tests.own_time import own_time


class Terminal(io.StringIO):
    """Standard error that says it is a terminal, so that bars are drawn."""

    def isatty(self) -> bool:
        return True


def test_a_title_that_looks_like_markup_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    for title in ("[/b]", "[bold]film", ":smile:"):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        with BuildProgress() as progress:
            progress.expect("ingest", 2)
            progress.done("ingest", title)
            progress.say(f"said of {title}")
        assert f"said of {title}" in terminal.getvalue()
        assert terminal.getvalue().count(title) > 1, "in the bar too"


def test_a_title_cannot_turn_or_break_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with BuildProgress(quiet=True) as progress:
        progress.expect("ingest", 1)
        progress.done("ingest", "a\u202e4pm.b\nc")
    assert caplog.messages == ["ingest 1/1: a\\u202e4pm.b\\nc"]


def test_silence_in_a_log_is_broken_by_what_is_under_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(progress_module, "LOG_EVERY_S", 0.05)

    def says(beginning: str) -> bool:
        return any(message.startswith(beginning) for message in caplog.messages)

    with BuildProgress() as progress:
        wait_until(lambda: says("still at build: "))
        progress.working_on("degrade A film\n", others=2)
        wait_until(lambda: says("still at degrade A film\\n (and 2 others): "))
        caplog.clear()
        progress.working_on()
        wait_until(lambda: says("still at build: "))
    caplog.clear()
    with BuildProgress(quiet=True):
        time.sleep(0.2)
    assert caplog.messages == []


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_what_another_progress_of_the_process_counted_stays(tmp_path: Path) -> None:
    rows = [{"aspect": "color", "planned": 2, "built": 1, "set_aside": 1, "reasons": {"WHY": 1}}]
    with BuildProgress(tmp_path, quiet=True):
        (run,) = read_runs(tmp_path)
        assert (run["status"], run["stages"]) == ("running", {})
        with BuildProgress(tmp_path, quiet=True) as inner:
            inner.expect("verify", 2)
            inner.done("verify", "one")
            inner.note_summary(rows)
    (run,) = read_runs(tmp_path)
    assert (run["status"], run["stages"]["verify"]["done"], run["summary"]) == ("ended", 1, rows)
    with pytest.raises(ValueError, match="x"), BuildProgress(tmp_path, quiet=True):
        raise ValueError("x")
    (run,) = read_runs(tmp_path)
    assert (run["status"], run["stages"]) == ("failed", {})


def test_a_store_that_cannot_be_written_is_warned_of_once_and_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tmp_path / "cache"
    cache.write_text("in place of the folder")
    with BuildProgress(cache, quiet=True) as progress:
        progress.expect("verify", 1)
        progress.done("verify", "one")
        assert [record.message for record in caplog.records if "progress cannot be written" in record.message]
        assert sum(record.levelno >= logging.WARNING for record in caplog.records) == 1
        cache.unlink()
    (run,) = read_runs(cache)
    assert (run["status"], run["stages"]["verify"]["done"]) == ("ended", 1)


def test_nodes_that_were_left_out_are_reported_at_the_end_and_kept(tmp_path: Path) -> None:
    with BuildProgress(tmp_path, quiet=True) as progress:
        progress.note_pools({"cpu": POOL})
        assert progress.unfit_in_words() == ""
        progress.note_pools(
            {"cpu": POOL | {"unfit": {"n1": "broken"}}, "h100": POOL | {"unfit": {"n2": "no GPU"}}}
        )
        progress.note_pools({})
        says = progress.unfit_in_words()
    assert "2 nodes were unfit and left out: n1 (pool cpu), n2 (pool h100)" in says
    (run,) = read_runs(tmp_path)
    assert run["unfit"] == {"cpu": {"n1": "broken"}, "h100": {"n2": "no GPU"}}
    lines = [part for part in runs_view([run]) if isinstance(part, str)]
    assert "  node n2 is left out of pool h100: no GPU" in lines


POOL = {"jobs": 1, "pending": 2, "reason": "Priority", "workers": 4, "draining": 0, "wanted": 9}


def test_pools_are_kept_while_it_runs_and_logged_where_jobs_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with BuildProgress(tmp_path, quiet=True) as progress:
        for wanted in (9, 8, 7):
            progress.note_pools({"cpu": POOL | {"wanted": wanted}})
        assert progress.state("running")["pools"]["cpu"]["wanted"] == 7
        assert caplog.messages == ["pool cpu: 1 jobs running, 2 waiting (Priority)"]
        progress.note_pools({"cpu": POOL | {"jobs": 3, "pending": 0, "reason": ""}})
        assert caplog.messages[1:] == ["pool cpu: 3 jobs running, 0 waiting"]
    (run,) = read_runs(tmp_path)
    assert run["pools"] == {}


def test_a_log_has_a_line_now_and_then_and_one_of_what_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    own_time(monkeypatch, progress_module, monotonic=lambda: now[0])
    caplog.set_level(logging.INFO)
    with BuildProgress(quiet=True) as progress:
        progress.expect("ingest", 50)
        for number in range(1, 51):
            progress.done("ingest", f"film{number}", set_aside=int(number == 20))
            now[0] += 0.4
    # 25 items in ten seconds
    assert caplog.messages == [
        "ingest 1/50: film1",
        "ingest 20/50: film20 (1 set aside)",
        "ingest 45/50: film45",
        "ingest 50/50: film50",
    ]


def test_the_file_of_an_older_version_is_read(tmp_path: Path) -> None:
    run = {"status": "ended", "host": "h", "pid": 1, "started_at": "a", "updated_at": "b", "stages": {}}
    (tmp_path / "run-h-1.json").write_text(json.dumps(run), encoding="utf-8")
    (read,) = read_runs(tmp_path)
    assert (read["pools"], read["summary"]) == ({}, [])
