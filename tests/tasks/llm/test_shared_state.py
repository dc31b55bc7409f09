"""A small file that processes change in turn: what becomes of it where there is no space."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NoReturn

import pytest

from storage_schemas.errors import Reason, SetAside
from tasks.llm.shared_state import SharedState


def full(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedState(tmp_path / "state.json")
    with shared.change() as state:
        state["asked"] = 1
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with (
            pytest.raises(SetAside, match=f"no space left below.*{tmp_path}") as problem,
            shared.change() as state,
        ):
            state["asked"] = 2
    assert problem.value.reason is Reason.OUT_OF_SPACE
    assert shared.read() == {"asked": 1}
    with shared.change() as state:
        state["asked"] += 1
    assert shared.read() == {"asked": 2}
    # what happens between is not laid at its door
    with pytest.raises(OSError, match="No space left on device"), shared.change():
        full()
