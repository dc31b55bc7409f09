from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from storage_schemas.ids import digest_file
from storage_schemas.regular_files import open_regular, path_problem, read_regular


def test_a_file_is_read_through_a_link_too(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"content")
    link.symlink_to(file)
    assert read_regular(file) == read_regular(link) == b"content"


def test_open_regular_names_what_is_not_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as held:
        held.bind("s")
    kinds = {"pipe": "named pipe", "s": "a socket", "/dev/zero": "a device", ".": "a folder"}
    for path, kind in kinds.items():
        with pytest.raises(OSError, match=f"{kind}, not a file"):
            open_regular(Path(path))
    with pytest.raises(OSError, match="named pipe"):
        digest_file(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "missing")


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EACCES, "{there} cannot be written (Permission denied): make it writable, or choose another"),
        (errno.EROFS, "{there} cannot be written (Read-only file system): make it writable, or choose"),
        (errno.ENOSPC, "no space is left for {there}/new/.x.csv: free some, and run the same command again"),
        (errno.EIO, ""),
    ],
)
def test_path_problem_names_the_folder_that_may_not_be_written(
    number: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = path_problem(OSError(number, os.strerror(number), "new/.x.csv"))
    assert message.startswith(says.format(there=tmp_path))
    assert bool(message) == bool(says)
    # such as a port that is taken
    assert path_problem(OSError(number, os.strerror(number))) == ""
