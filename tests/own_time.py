"""A clock for one module: one changed in `time` would be changed for servers in other threads, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def own_time(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **functions: Callable[..., Any]) -> None:
    """Replace functions of `time`, as ``sleep``, in one module that imports it whole."""
    assert module.time is time, f"{module.__name__} has a time of its own already"
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), **functions}))
