from __future__ import annotations

import io
import sys

import pytest

from infra.progress import BuildProgress


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
