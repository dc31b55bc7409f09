"""The embedded Prefect server that does not start; tests of flows run one that does."""

from __future__ import annotations

import shutil
import sys

import pytest

from infra.prefect_server import _embedded_server
from storage_schemas.errors import PrerequisiteError


def test_a_server_that_ends_at_once_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    output = r"did not start \(it ended with code 1\): try again"
    with pytest.raises(PrerequisiteError, match=output), _embedded_server("a:b"):
        raise AssertionError("it started")
