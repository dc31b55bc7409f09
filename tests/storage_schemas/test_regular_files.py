from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from storage_schemas.ids import digest_file
from storage_schemas.regular_files import open_regular, read_regular


def test_a_file_is_read_through_a_link_too(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"content")
    link.symlink_to(file)
    assert read_regular(file) == read_regular(link) == b"content"


def test_a_pipe_without_a_writer_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="named pipe, not a file"):
        open_regular(tmp_path / "pipe")
    with pytest.raises(OSError, match="named pipe"):
        digest_file(tmp_path / "pipe")


def test_a_socket_a_device_and_a_folder_are_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="a socket, not a file"):
            open_regular(tmp_path / "s")
    with pytest.raises(OSError, match="a device, not a file"):
        open_regular(Path("/dev/zero"))
    with pytest.raises(OSError, match="a folder, not a file"):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "missing")
