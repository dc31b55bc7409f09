"""Temporary files are where no other user can put theirs first, and nothing is imported from there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra import scratch
from infra.scratch import ScratchFolder, unsafe_folder, why_not_private
from storage_schemas.errors import PrerequisiteError
from tests.flows.prefect_servers import wait_for
from tests.planted_files import STRANGER, needs_root, plant, shared_folder

#: A driver whose worker imports PyAV, as a build does; it prints where from, and the paths of both.
DRIVER = """
import json, sys, tempfile
from distributed import Client
from infra.dask_cluster import local_cluster

def look():
    import av, sys, tempfile
    return av.__file__, sys.path, tempfile.gettempdir()

if __name__ == "__main__":
    with local_cluster(1) as cluster, Client(cluster) as client:
        worker = client.submit(look).result(60)
        import av
        print(json.dumps([*worker, av.__file__, sys.path]))
"""


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    with shared_folder() as folder:
        yield folder


def drive(shared: Path, tmp_path: Path) -> list[Any]:
    program = tmp_path / "driver.py"
    program.write_text(DRIVER, encoding="utf-8")
    variables = {**os.environ, "TMPDIR": str(shared)}
    command = [sys.executable, str(program)]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "Failed to remove" not in ran.stderr, ran.stderr
    answer: list[Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def test_a_run_keeps_its_files_in_its_own_folder_and_uses_nothing_that_a_stranger_planted(
    shared: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "thesis.txt"
    victim.write_text("years of work", encoding="utf-8")
    # only root can act as another user
    planted = plant(shared / "dask-scratch-space", victim) if os.getuid() == 0 else None
    before = list(shared.iterdir())
    av, paths, temporary, driver_av, driver_paths = drive(shared, tmp_path)
    assert "site-packages" in av and "site-packages" in driver_av
    # the worker's other temporary files are in it too
    assert Path(temporary).parent == shared.resolve()
    assert [path for path in (*paths, *driver_paths) if path.startswith(str(shared))] == []
    assert list(shared.iterdir()) == before
    assert planted is None or not planted.has_run()
    assert victim.read_text(encoding="utf-8") == "years of work"


def test_a_killed_run_leaves_nothing(shared: Path) -> None:
    code = "from infra.scratch import ScratchFolder; import time; f = ScratchFolder(); "
    variables = {**os.environ, "TMPDIR": str(shared)}
    with subprocess.Popen(
        [sys.executable, "-c", code + "print(f.path, flush=True); (f.path / 'x').touch(); time.sleep(100)"],
        stdout=subprocess.PIPE,
        text=True,
        env=variables,
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.stat().st_mode & 0o777 == 0o700
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: not folder.exists(), 60, "end of the folder")


def test_a_folder_of_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(open_to_all))
    with pytest.raises(PrerequisiteError, match=r"open can be written by other users\. Set TMPDIR"):
        ScratchFolder()
    open_to_all.chmod(0o1777)
    with ScratchFolder() as made:
        assert why_not_private(str(made.path)) is None
        made.path.chmod(0o750)
        assert why_not_private(str(made.path)) == f"{made.path} is open to other users"
        made.path.chmod(0o700)
        open_to_all.chmod(0o777)
        assert why_not_private(str(made.path)) == f"{open_to_all} can be written by other users"
        open_to_all.chmod(0o1777)
        link = open_to_all / "link"
        link.symlink_to(made.path)
        assert why_not_private(str(link)) == f"{link} is a link or a file, not a folder"
    assert [path.name for path in open_to_all.iterdir()] == ["link"]
    assert "does not exist" in str(why_not_private(""))


def test_own_links_are_followed_and_circles_end(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b/../b")
    assert unsafe_folder(str(tmp_path / "link")) is None
    (tmp_path / "a").chmod(0o777)
    assert unsafe_folder(str(tmp_path / "link")) == f"{tmp_path}/a can be written by other users"
    (tmp_path / "circle").symlink_to("circle")
    assert unsafe_folder(str(tmp_path / "circle")) == f"{tmp_path}/circle is a circular link"


@needs_root
def test_what_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to("ours")
    (tmp_path / "ours").mkdir()
    for theirs in (folder, link):
        os.lchown(theirs, STRANGER, STRANGER)
        assert str(unsafe_folder(str(theirs))).startswith(f"{theirs} belongs to ")
