"""Commands are called in this process, and so do their own work."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from tests.slvmeval.cli.running import Printed, Run


@pytest.fixture(scope="package", autouse=True)
def _quick_commands() -> Iterator[None]:
    """Let `--direct` work in this process, and put the commands together once.

    Processes of its own, which take seconds, have their own tests.
    """
    import typer.main

    from flows.declaration import FlowDeclaration
    from flows.score.suite_run import SuiteFlow
    from infra.executor import InlineExecutor

    with pytest.MonkeyPatch.context() as patch:
        for flow in (FlowDeclaration, SuiteFlow):
            patch.setattr(flow, "processes", lambda *_: InlineExecutor())
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


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
