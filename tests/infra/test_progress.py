from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from infra.progress import BuildProgress, read_runs


class Terminal(io.StringIO):
    """Standard error that says it is a terminal, so that bars are drawn."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("title", ["[/b]", "[bold]film", ":smile:"])
def test_a_title_that_looks_like_markup_is_shown_as_it_is(
    title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", terminal)
    with BuildProgress() as progress:
        progress.expect("ingest", 2)
        progress.done("ingest", title)
        progress.say(f"said of {title}")
    shown = terminal.getvalue()
    assert f"said of {title}" in shown
    assert shown.count(title) > 1, "in the bar too"


def test_what_another_progress_of_the_process_counted_stays(tmp_path: Path) -> None:
    with BuildProgress(tmp_path, quiet=True):
        (run,) = read_runs(tmp_path)
        assert (run["status"], run["stages"]) == ("running", {})
        with BuildProgress(tmp_path, quiet=True) as inner:
            inner.expect("verify", 2)
            inner.done("verify", "one")
    (run,) = read_runs(tmp_path)
    assert (run["status"], run["stages"]["verify"]["done"]) == ("ended", 1)
    with pytest.raises(ValueError, match="x"), BuildProgress(tmp_path, quiet=True):
        raise ValueError("x")
    (run,) = read_runs(tmp_path)
    assert (run["status"], run["stages"]) == ("failed", {})
