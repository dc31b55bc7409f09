"""The public interface: what it imports, its names, and a release read through it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import slvmeval
from tests.storage_schemas.written_store import COUNT, picture, write_store

ROOT = Path(slvmeval.__file__).parents[1]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("api") / "store"
    write_store(root)
    return root


def test_importing_the_package_is_fast_and_imports_nothing_else() -> None:
    """Nor do its errors; it is CPU time, since on a busy machine the wall clock says nothing of imports."""
    heavy = "'numpy', 'zarr', 'pyarrow', 'pydantic', 'av', 'cv2', 'prefect'"
    program = (
        "import sys, time; t = time.process_time(); import slvmeval; t = time.process_time() - t\n"
        f"assert not {{{heavy}, 'tasks', 'storage_schemas'}} & set(sys.modules)\n"
        "slvmeval.SlvmevalError; assert not {'zarr', 'numpy'} & set(sys.modules); print(t)"
    )

    def took_s() -> float:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    assert any(took_s() < 0.2 for _ in range(3))


def test_every_public_name_is_there_and_no_other() -> None:
    for name in slvmeval.__all__:
        assert getattr(slvmeval, name) is not None
        assert name in dir(slvmeval)
    assert sorted(slvmeval.__all__) == list(slvmeval.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'open_piar'"):
        _ = slvmeval.open_piar


def test_a_release_is_opened_and_its_pairs_read(store: Path) -> None:
    release = slvmeval.open_release(str(store))
    assert (release.name, release.version) == ("main", 1)
    assert slvmeval.open_release(slvmeval.open_store(store), "main", 1).path == release.path
    (pair,) = slvmeval.iter_pairs(release)
    assert [one.id for one in slvmeval.iter_pairs(release, "aesthetics")] == [pair.id]
    assert list(slvmeval.iter_pairs(release, "color")) == []
    again = slvmeval.open_pair(release, pair.id[:8])
    assert (again.id, again.prompt, again.aspect) == (pair.id, "A cat sleeps.\nA dog runs.", "aesthetics")
    assert len(again.high) == len(again.low) == COUNT
    assert np.array_equal(again.high[5], picture(5))
    assert np.array_equal(again.low[5], 255 - picture(5))
    assert again.low_intervals == ((4.0, 9.0),)


def test_errors_are_those_of_the_project(store: Path, tmp_path: Path) -> None:
    with pytest.raises(slvmeval.StoreError, match="no store"):
        slvmeval.open_store(tmp_path)
    with pytest.raises(slvmeval.UserInputError, match="no release"):
        slvmeval.open_release(store, "other")
    with pytest.raises(slvmeval.SlvmevalError):
        slvmeval.open_pair(slvmeval.open_release(store), "xyz")
    with pytest.raises(slvmeval.UserInputError, match=r"none\.jsonl"):
        slvmeval.open_pairs_file(tmp_path / "none.jsonl")
    with pytest.raises(slvmeval.UserInputError, match="line 1"):
        (tmp_path / "pairs.jsonl").write_text("{")
        slvmeval.open_pairs_file(str(tmp_path / "pairs.jsonl"))
