"""A file system that does not answer is asked again, and nothing is taken for damaged or absent meanwhile."""

from __future__ import annotations

import errno
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from storage_schemas import away, store_check
from storage_schemas.away import AWAY_ERRNOS, ask_again, is_away
from storage_schemas.commit import payload_files, sync_tree
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.frames import SHARD_FRAMES, ColorSpec, FrameReader, FrameWriter
from storage_schemas.ids import digest_file
from storage_schemas.parquet import read_column
from storage_schemas.regular_files import entries, read_regular
from storage_schemas.row_store import parts_of, read_part
from storage_schemas.store import FRAMES, PAIR, Store
from storage_schemas.store_check import artifact_problems, check_path, checked_paths
from storage_schemas.zip_store import ZipRanges, check_written
from tests.frame_arrays import write_frames

STALE = OSError(errno.ESTALE, "Stale file handle")
COLOR = ColorSpec("bt709", False)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "PAUSES_S", (0.0, 0.0))


class Failing:
    """Lets a function fail some times before it works."""

    def __init__(
        self, real: Callable[..., Any], times: int, when: Callable[..., bool] = lambda *_: True
    ) -> None:
        self.real, self.left, self.when = real, times, when

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.left and self.when(*arguments):
            self.left -= 1
            raise STALE
        return self.real(*arguments, **options)


def failing(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, times: int, below: Path | None = None
) -> None:
    def when(*arguments: Any) -> bool:
        return below is None or str(arguments[0]).startswith(str(below))

    monkeypatch.setattr(where, name, Failing(getattr(where, name), times, when))


def frames(path: Path, count: int = 3) -> Path:
    planes = [np.full((6, 4), n % 256, np.uint8) for n in range(count)]
    write_frames(path, planes, range(count), COLOR)
    return path


def with_a_shard(path: Path) -> FrameWriter:
    """Begin an array, of which a shard is written."""
    writer = FrameWriter(path, 4, 4, COLOR)
    for n in range(SHARD_FRAMES):
        writer.append(np.full((6, 4), n, np.uint8), n)
    return writer


def test_what_does_not_answer_is_asked_twice_more_other_errors_are_verdicts() -> None:
    answers: list[int | Exception] = [STALE, OSError(errno.EIO, "Input/output error"), 7]

    def read() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert ask_again(read) == 7
    answers[:] = [STALE] * 3
    with pytest.raises(OSError, match="Stale"):
        ask_again(read)
    assert answers == []
    answers[:] = [FileNotFoundError(errno.ENOENT, "none"), 1]
    with pytest.raises(FileNotFoundError):
        ask_again(read)
    assert answers == [1]


@pytest.mark.parametrize("number", sorted(AWAY_ERRNOS))
def test_is_away_counts_an_error_behind_another_unless_it_is_hidden(number: int) -> None:
    outer, hidden = StoreError("no array"), StoreError("raised again")
    assert not is_away(outer)
    outer.__cause__ = hidden.__context__ = OSError(number, os.strerror(number))
    hidden.__suppress_context__ = True
    assert is_away(outer) and not is_away(hidden)
    assert not is_away(OSError(errno.ENOSPC, "full"))
    assert not is_away(None)


@pytest.mark.parametrize("name", ["planes.zarr", "planes.zarr.zip"])
def test_frames_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = frames(tmp_path / name)
    reader = FrameReader(path)
    with monkeypatch.context() as patch:
        failing(patch, io, "open", 2, path)
        assert reader.check() == []
        assert FrameReader(path).count == 3
    failing(monkeypatch, io, "open", 99, path)
    with pytest.raises(OSError, match="Stale"):
        reader.read(0, 3)
    with pytest.raises(OSError, match=r"Stale|cannot be read"):
        FrameReader(path)


def test_zip_file_is_read_again_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = frames(tmp_path / "planes.zarr.zip")
    with monkeypatch.context() as patch:
        failing(patch, zipfile, "_EndRecData", 2)
        assert len(ZipRanges(path).ranges) > 3
    failing(monkeypatch, zipfile, "_EndRecData", 9)
    with pytest.raises(OSError, match="cannot be read"):
        ZipRanges(path)


def test_a_file_that_cannot_be_opened_is_not_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "planes.zarr.zip"
    writer = with_a_shard(path)
    kept = path.read_bytes()
    assert len(kept) > 1000
    writer.append(np.zeros((6, 4), np.uint8), SHARD_FRAMES)
    failing(monkeypatch, io, "open", 1, path)
    with pytest.raises(OSError, match="Stale"):
        writer.finish()
    assert path.read_bytes() == kept


@pytest.mark.parametrize("how", ["emptied", "cut", "flipped", "other"])
def test_what_was_lost_before_the_end_is_found_when_it_is_read_back(tmp_path: Path, how: str) -> None:
    path = tmp_path / "planes.zarr.zip"
    writer = with_a_shard(path)
    content = bytearray(path.read_bytes())
    if how == "emptied":
        content = bytearray()
    elif how == "cut":
        del content[-30:]
    elif how == "flipped":
        content[200] ^= 1
    else:
        content = bytearray(frames(tmp_path / "other.zarr.zip").read_bytes())
    path.write_bytes(content)
    with pytest.raises(OSError) as caught:
        writer.finish()
    assert is_away(caught.value)


def test_a_written_zip_file_is_read_back(tmp_path: Path) -> None:
    path = frames(tmp_path / "planes.zarr.zip")
    names = list(ZipRanges(path).ranges)
    check_written(path, names)
    for wrong in (names[:-1], [*names, "more"]):
        with pytest.raises(OSError, match=f"it has {len(names)} of the {len(wrong)} entries"):
            check_written(path, wrong)


def test_payload_files_leave_no_folder_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    for call in (payload_files, sync_tree):
        with monkeypatch.context() as patch:
            failing(patch, os, "scandir", 9, deep)
            with pytest.raises(OSError, match="Stale"):
                call(tmp_path)
    failing(monkeypatch, os, "scandir", 2, deep)
    assert list(payload_files(tmp_path)) == ["a/b/file"]
    assert [entry.name for entry in entries(tmp_path)] == ["a"]
    assert entries(tmp_path / "none") == entries(deep / "file") == []


def test_files_are_read_again(whole_store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = next(whole_store.root.glob("releases/*/versions/*/pairs.parquet"))
    reads: list[Callable[[], object]] = [
        lambda: digest_file(table),
        lambda: read_regular(table),
        lambda: read_column(table, "pair_id"),
        lambda: read_part(table),
        lambda: whole_store.has(PAIR, "0" * 64),
        lambda: parts_of(whole_store.failures),
        lambda: list(whole_store.manifests(PAIR)),
    ]
    whole_store.failures.mkdir()
    for read in reads:
        for times in (1, 99):
            with monkeypatch.context() as patch:
                for name in ("stat", "open", "scandir"):
                    failing(patch, os, name, times, whole_store.root)
                if times == 1:
                    assert read() is not None
                    continue
                with pytest.raises(OSError) as caught:
                    read()
                assert is_away(caught.value) and not isinstance(caught.value, IntegrityError)


def test_check_names_what_does_not_answer(whole_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (pair,) = whole_store.manifests(PAIR)
    folder = whole_store.artifact_path(PAIR, pair.id)
    everything = checked_paths(whole_store)
    failing(monkeypatch, os, "open", 99, folder)
    (damage,) = [one for place in everything for one in check_path(whole_store, place)]
    assert "cannot be read (Stale file handle): check its file system" in damage.problem
    assert damage.artifact is None and not damage.removable


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EACCES])
def test_check_excuses_errnos(whole_store: Store, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    (pair,) = whole_store.manifests(PAIR)
    monkeypatch.setattr(store_check, "file_problems", Mock(side_effect=OSError(number, "so", "file")))
    with pytest.raises(OSError, match="so"):
        artifact_problems(whole_store, PAIR, pair.id)
    damage = [one for place in checked_paths(whole_store) for one in check_path(whole_store, place)]
    assert damage and all(one.artifact is None and not one.removable for one in damage)


def test_frames_that_are_not_those_of_the_manifest_are_found_where_no_release_uses_them(store: Store) -> None:
    with store.stage(FRAMES, {"one": 1}) as staged:
        frames(staged.path / "planes.zarr")
        staged.content_checksum = "0" * 64
    (damage,) = [one for place in checked_paths(store) for one in check_path(store, place)]
    assert "has frames that differ from its manifest" in damage.problem
    assert damage.artifact is not None
