"""What failed because the store was away is repeated when it is back; nothing else is."""

from __future__ import annotations

import errno
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from storage_schemas import store_wait
from storage_schemas.commit import write_atomic
from storage_schemas.errors import SetAside, StoreError
from storage_schemas.store import Store
from storage_schemas.store_wait import MAX_REPEATS, StoreWait, why_away


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_wait, "LOOK_EVERY_S", 0.01)


def waiting(store: Path, limit_s: float = 20.0) -> StoreWait:
    return StoreWait(store=str(store), limit_s=limit_s)


def back_soon(back: Callable[[], object]) -> None:
    threading.Timer(0.05, back).start()


def mount(folder: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(folder)], check=True)


def test_a_read_only_store_is_waited_for(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    Store.create(small_disk)
    mount(small_disk, "ro")
    assert why_away(small_disk) == "Read-only file system"
    back_soon(lambda: mount(small_disk, "rw"))
    waiting(small_disk).until_done(lambda: write_atomic(small_disk / "x", b"1"))
    assert (small_disk / "x").read_bytes() == b"1"
    begun, ended = [record.message for record in caplog.records]
    assert "is unavailable (Read-only file system): waiting up to 20 s" in begun
    assert "is available again after" in ended


def test_a_store_that_stays_away_is_an_error_that_says_what_to_do(small_disk: Path) -> None:
    Store.create(small_disk)
    mount(small_disk, "ro")
    with pytest.raises(StoreError, match=r"Read-only file system.*run the same command again.*store_wait_s"):
        waiting(small_disk, 0.05).until_done(lambda: write_atomic(small_disk / "x", b"1"))
    with pytest.raises(SetAside, match="cannot be written"):
        waiting(small_disk, 0.0).until_done(lambda: write_atomic(small_disk / "x", b"1"))


def test_an_empty_folder_in_place_of_the_store_is_not_taken_for_it(store: Store, tmp_path: Path) -> None:
    """A file system that is not mounted: what reads there finds nothing, and does not fail."""
    elsewhere = tmp_path / "elsewhere"
    store.failures.mkdir()
    store.root.rename(elsewhere)
    store.root.mkdir()

    def mounted() -> None:
        store.root.rmdir()
        elsewhere.rename(store.root)

    back_soon(mounted)
    assert waiting(store.root).until_done(lambda: [path.name for path in store.root.iterdir()])
    assert why_away(store.root) is None


def test_a_store_that_was_away_for_a_moment_is_tried_again_other_errors_are_not(store: Store) -> None:
    stale = OSError(errno.ESTALE, "Stale file handle", str(store.root / "x"))
    call = Mock(side_effect=[stale] * MAX_REPEATS + ["done"])
    assert waiting(store.root).until_done(call) == "done"
    call = Mock(side_effect=StoreError("damaged"))
    with pytest.raises(StoreError, match="damaged"):
        waiting(store.root).until_done(call)
    assert call.call_count == 1
