"""Users without a name or a home folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import surroundings
from infra.executor import ProcessExecutor
from infra.profile import default_model_folder
from storage_schemas.errors import PrerequisiteError
from storage_schemas.user import user_name

ASK = """
from infra.surroundings import prepare_surroundings
prepare_surroundings()
import os, pathlib
from infra.profile import default_model_folder
print(os.environ.get("HOME"), os.environ.get("PREFECT_HOME"), default_model_folder())
"""


def _asked(tmp_path: Path, **environment: str) -> list[str]:
    """Return home, Prefect's home and model folder of a process; all are of `tmp_path`."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    kept = {"PATH": os.environ["PATH"], "TMPDIR": str(temporary), "PYTHONPATH": os.getcwd()}  # noqa: PTH109
    command = [sys.executable, "-c", ASK]
    ended = subprocess.run(
        command, env=kept | environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert not list(temporary.iterdir())
    return ended.stdout.split()


def test_a_home_that_does_not_exist_is_replaced(tmp_path: Path) -> None:
    home, prefect, models = _asked(tmp_path, HOME=str(tmp_path / "none"))
    assert Path(home).parent == tmp_path / "tmp"
    assert prefect == "None"
    # not where it ends with the process
    assert models == str(tmp_path / "slvmeval-models")


def test_a_job_does_not_use_the_temporary_home_of_another_machine(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    home, _, models = _asked(tmp_path, HOME=gone, SLVMEVAL_TEMPORARY_HOME=gone)
    assert Path(home).parent == tmp_path / "tmp"
    assert models == str(tmp_path / "slvmeval-models")


@pytest.mark.skipif(os.getuid() == 0, reason="root writes anywhere")
def test_a_home_that_is_read_only_stays_but_prefect_writes_elsewhere(tmp_path: Path) -> None:
    mine = tmp_path / "home"
    mine.mkdir(0o500)
    home, prefect, models = _asked(tmp_path, HOME=str(mine))
    assert home == str(mine)
    assert Path(prefect).parent.parent == tmp_path / "tmp"
    assert models == str(tmp_path / "slvmeval-models")


def test_models_of_a_cache_that_is_there_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_model_folder() == str(tmp_path / "slvmeval" / "models")
    Path(tmp_path, "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert default_model_folder() == str(Path("slvmeval-models").absolute())


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert user_name(4_123_456_789) == "uid 4123456789"
    monkeypatch.setattr("os.getuid", lambda: 4_123_456_789)
    assert user_name() == "uid 4123456789"


def test_without_shared_memory_the_reason_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("multiprocessing.context.BaseContext.Lock", refuse)
    with pytest.raises(PrerequisiteError, match=r"/dev/shm \(Read-only file system\)"):
        ProcessExecutor(1)


def test_too_little_address_space_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (3_000_000_000, -1))
    with pytest.raises(PrerequisiteError, match=r"`ulimit -v` allows 3\.0 GB .* at least 5 GB"):
        ProcessExecutor(1)


def test_a_system_that_shows_no_processes_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(surroundings, "PROCESSES", tmp_path)
    with pytest.raises(PrerequisiteError, match=rf"there is no {tmp_path}, where libraries look up"):
        surroundings.prepare_surroundings()
