"""Rows of several writers in one folder: whole, once each, and whatever a kill or a full disk left."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from storage_schemas.errors import SetAside
from storage_schemas.json_lines import LinesFile, LinesFolder
from storage_schemas.model import Frozen


class Row(Frozen):
    key: str
    text: str = ""


def lines(folder: Path) -> LinesFolder[Row]:
    return LinesFolder(folder, Row, "it is made again")


def test_each_writer_sees_what_the_others_added(tmp_path: Path) -> None:
    one, other = lines(tmp_path / "rows"), lines(tmp_path / "rows")
    assert list(one.rows()) == []
    one.append(Row(key="a", text="x\ny"))
    other.append(Row(key="b"))
    assert {row.key for row in one.new_rows()} == {"a", "b"}
    assert list(one.new_rows()) == []
    other.append(Row(key="c"))
    assert [row.key for row in one.new_rows()] == ["c"]
    assert sorted(row.key for row in one.rows()) == ["a", "b", "c"]
    assert len(list((tmp_path / "rows").iterdir())) == 2


def test_what_a_kill_left_of_a_line_is_not_a_row(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = lines(tmp_path)
    one.append(Row(key="a"))
    (file,) = tmp_path.iterdir()
    with file.open("ab") as torn:
        torn.write(b'{"key": "b", "te')
    assert [row.key for row in lines(tmp_path).rows()] == ["a"]
    assert "it is made again" in caplog.text
    # while it may still be being written nothing is reported
    caplog.clear()
    assert [row.key for row in lines(tmp_path).new_rows()] == ["a"]
    assert not caplog.text


@pytest.mark.parametrize("kind", [LinesFolder, LinesFile])
def test_append_line_leaves_no_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    append = LinesFile(tmp_path, "task").add if kind is LinesFile else lines(tmp_path).append
    write = os.write
    append(Row(key="a"))
    full = True

    def half(handle: int, data: bytes) -> int:
        if not full:
            return write(handle, data)
        if len(data) > 5:
            return write(handle, data[:5])
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr("storage_schemas.json_lines.os.write", lambda handle, data: half(handle, bytes(data)))
    with pytest.raises(SetAside, match="no space left"):
        append(Row(key="bb"))
    full = False
    append(Row(key="c"))
    assert [row.key for row in lines(tmp_path).rows()] == ["a", "c"]


def test_a_folder_that_another_process_removes_holds_nothing(tmp_path: Path) -> None:
    one, other = lines(tmp_path / "rows"), lines(tmp_path / "rows")
    one.append(Row(key="a"))
    other.append(Row(key="b"))
    reading = one.rows()
    next(reading)
    shutil.rmtree(tmp_path / "rows")
    assert list(reading) == []
