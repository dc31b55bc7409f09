"""Commands are called in this process, and so do their own work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from tests.slvmeval.cli.running import Printed, Run


@pytest.fixture(scope="session")
def _get_command() -> Callable[..., Any]:
    """Put the commands together once."""
    import typer.main

    return cache(typer.main.get_command)


@pytest.fixture(scope="module", autouse=True)
def _quick_commands(_get_command: Callable[..., Any]) -> Iterator[None]:
    """Let `--direct` work in this process: processes of its own, which take seconds, have their own tests."""
    import typer.main

    from flows.declaration import FlowDeclaration
    from flows.score.suite_run import SuiteFlow
    from infra.executor import InlineExecutor

    with pytest.MonkeyPatch.context() as patch:
        for flow in (FlowDeclaration, SuiteFlow):
            patch.setattr(flow, "processes", lambda *_: InlineExecutor())
        patch.setattr(typer.main, "get_command", _get_command)
        yield


@pytest.fixture
def no_more_figures(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Give a function after which figures are put together and not saved: a PDF with its fonts takes long."""
    return lambda: monkeypatch.setattr("tasks.report.figures._saved", lambda *_: b"<svg/>")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a function that runs a command, asserts its exit code, and returns what it printed."""
    from slvmeval.cli.main import main

    def run(*words: object, code: int | tuple[int, ...] = 0) -> Printed:
        capsys.readouterr()
        ended = main([str(word) for word in words])
        printed = Printed(*capsys.readouterr())
        assert ended in (code if isinstance(code, tuple) else (code,)), printed
        return printed

    return run
