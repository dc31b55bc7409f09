"""Checksums that outlive the process, and never a file's change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_schemas import checksum_cache
from storage_schemas.checksum_cache import remembered_digests, verified_folder
from storage_schemas.ids import digest_file


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the files that were read; the cache folder is an own one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names: list[str] = []

    def digest(path: Path) -> str:
        names.append(path.name)
        return digest_file(path)

    monkeypatch.setattr(checksum_cache, "digest_file", digest)
    return names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "weights"
    made.mkdir()
    for name in ("a.bin", "b.bin"):
        (made / name).write_bytes(name.encode())
    return made


@pytest.fixture
def another_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forgets what this process knows, and lets all files be old enough."""

    def forget() -> None:
        for name, value in {"_read_here": {}, "_memories": {}, "_SETTLED_NS": -1}.items():
            monkeypatch.setattr(checksum_cache, name, value)

    return forget


def memories() -> list[Path]:
    found = verified_folder()
    assert found is not None
    return sorted(found.iterdir()) if found.exists() else []


def test_file_is_read_once(folder: Path, read: list[str], another_process: Callable[[], None]) -> None:
    names = ["a.bin", "b.bin"]
    for _ in range(2):
        another_process()
        assert remembered_digests(folder, names) == {name: digest_file(folder / name) for name in names}
    assert read == ["a.bin", "b.bin"]
    assert len(memories()) == 1
    state = (folder / "b.bin").stat()
    (folder / "b.bin").write_bytes(b"B.BIN")
    # the same size, inode and time of change: the entry's own time tells
    os.utime(folder / "b.bin", ns=(state.st_atime_ns, state.st_mtime_ns))
    another_process()
    assert remembered_digests(folder, names)["b.bin"] == digest_file(folder / "b.bin")
    assert read == ["a.bin", "b.bin", "b.bin"]


def test_new_file_is_not_remembered(folder: Path, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    remembered_digests(folder, ["a.bin"])
    assert not memories()
    remembered_digests(folder, ["a.bin"])
    assert read == ["a.bin"]  # this process knows it all the same
    monkeypatch.setattr(checksum_cache, "_read_here", {})
    remembered_digests(folder, ["a.bin"])
    assert read == ["a.bin", "a.bin"]


@pytest.mark.parametrize(
    "damage", [b"", b"no json\n", b"[]\n3\n{}\nnull\n", b'["a.bin", 1]\n[1]\n', b"\xff\n"]
)
def test_a_damaged_memory_costs_only_time(
    folder: Path, read: list[str], another_process: Callable[[], None], damage: bytes
) -> None:
    another_process()
    first = remembered_digests(folder, ["a.bin"])
    (memory,) = memories()
    memory.write_bytes(damage)
    another_process()
    assert remembered_digests(folder, ["a.bin"]) == first
    assert read == ["a.bin", "a.bin"]


def test_lines_of_other_processes_are_read_on_and_old_ones_thrown_out(
    folder: Path, read: list[str], another_process: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    another_process()
    remembered_digests(folder, ["a.bin"])
    here = dict(checksum_cache._memories)
    another_process()
    remembered_digests(folder, ["b.bin"])
    (memory,) = memories()
    # torn by a kill in the middle of a line
    memory.write_bytes(memory.read_bytes() + b'["b.bin", 5, 1')
    monkeypatch.setattr(checksum_cache, "_memories", here)
    monkeypatch.setattr(checksum_cache, "_read_here", {})
    remembered_digests(folder, ["a.bin", "b.bin"])
    assert read == ["a.bin", "b.bin"]
    monkeypatch.setattr(checksum_cache, "_MAX_OLD", 3)
    for number in range(20):
        (folder / "b.bin").write_bytes(b"%d" % number)
        another_process()
        remembered_digests(folder, ["a.bin", "b.bin"])
    assert len(memory.read_bytes().splitlines()) < 8
    assert read.count("a.bin") == 1


def test_a_cache_folder_that_cannot_be_written_costs_only_time_and_a_missing_file_is_an_error(
    folder: Path, read: list[str], another_process: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "a.bin"))
    another_process()
    assert remembered_digests(folder, ["a.bin"]) == {"a.bin": digest_file(folder / "a.bin")}
    with pytest.raises(FileNotFoundError):
        remembered_digests(folder, ["c.bin"])
