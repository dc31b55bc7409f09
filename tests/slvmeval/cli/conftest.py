"""Commands are called in this process, and so do their own work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_commands() -> Iterator[None]:
    """Let `--direct` work in this process: processes of its own, which take seconds, have their own tests."""
    from flows.declaration import FlowDeclaration
    from flows.score.suite_run import SuiteFlow
    from infra.executor import InlineExecutor

    with pytest.MonkeyPatch.context() as patch:
        for flow in (FlowDeclaration, SuiteFlow):
            patch.setattr(flow, "processes", lambda *_: InlineExecutor())
        yield
