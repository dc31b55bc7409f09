"""The embedded Prefect server that does not start or is left alone; tests of flows run one that serves."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from infra import embedded_server
from infra.prefect_server import _embedded_server, prefect_server
from storage_schemas.errors import PrerequisiteError


def test_a_server_that_ends_at_once_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    output = r"did not start \(it ended with code 1\): try again"
    with pytest.raises(PrerequisiteError, match=output), _embedded_server("a:b"):
        raise AssertionError("it started")


def test_a_server_whose_starter_is_gone_ends_while_it_starts() -> None:
    process = subprocess.Popen([sys.executable, "-P", embedded_server.__file__, "0"], stdin=subprocess.PIPE)
    process.communicate(timeout=60)
    assert process.returncode is not None


def test_a_server_of_the_user_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        # nobody listens there
        address = f"http://127.0.0.1:{held.getsockname()[1]}/api"
        monkeypatch.setenv("PREFECT_API_URL", address)
        with (
            temporary_settings({PREFECT_API_URL: address}),
            pytest.raises(PrerequisiteError, match=f"server at {address} does not answer"),
            prefect_server(),
        ):
            raise AssertionError("it runs")
