from __future__ import annotations

import resource

import pytest

from infra.open_files import FILES_A_WORKER, FILES_BESIDES, allow_workers


def test_allow_workers_raises_the_limit_and_warns_where_that_does_not_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [(100, 1000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    workers = (1000 - FILES_BESIDES) // FILES_A_WORKER
    assert allow_workers(workers) == 1000
    assert (limits[-1], caplog.messages) == ((1000, 1000), [])
    assert allow_workers(workers + 1) == 1000
    assert "may open 1000 files, but the" in caplog.text
