"""The embedded Prefect server that does not start or is left alone; tests of flows run one that serves."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from infra import embedded_server
from infra.prefect_server import _embedded_server
from storage_schemas.errors import PrerequisiteError


def test_a_server_that_ends_at_once_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    output = r"did not start \(it ended with code 1\): try again"
    with pytest.raises(PrerequisiteError, match=output), _embedded_server():
        raise AssertionError("it started")


def test_a_server_whose_starter_is_gone_ends_while_it_starts() -> None:
    process = subprocess.Popen([sys.executable, "-P", embedded_server.__file__, "0"], stdin=subprocess.PIPE)
    process.communicate(timeout=60)
    assert process.returncode is not None
