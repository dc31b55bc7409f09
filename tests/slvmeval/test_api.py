"""The public interface: what it imports, its names, and a release read through it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import slvmeval
from tests.storage_schemas.written_store import COUNT, picture, write_store
from tests.tasks.publish.conftest import Small

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


def test_views_for_notebooks_show_what_was_opened(store: Path) -> None:
    release = slvmeval.open_release(store)
    (pair,) = slvmeval.iter_pairs(release)
    assert repr(release) == "<Release main, version 1: 1 pairs>"
    assert repr(pair) == f"<Pair {pair.id[:12]}, aesthetics: {COUNT} and {COUNT} frames>"
    assert repr(pair.low[4:9]).startswith("<Side: 5 frames of ")
    assert "<th>aesthetics</th><td>1</td><td>1</td>" in release._repr_html_()
    # of each side the damaged seconds 4 to 9
    shown = pair._repr_html_()
    assert shown.count('<img src="data:image/jpeg;base64,') == 10
    assert shown.count("5 frames of") == 2
    assert "A cat sleeps. A dog runs." in shown
    assert "<img" not in pair.low[0:0]._repr_html_()


def test_judging_in_python_gives_the_tables_of_the_commands(
    build_small: Callable[[Path], Small], tmp_path: Path
) -> None:
    release = slvmeval.open_release(build_small(tmp_path / "small").store)
    assert slvmeval.judgements(release).num_rows == 0
    rows = slvmeval.evaluate(release, ["duration", "coin?label=dice"], repeats=2)
    assert set(rows["evaluator"].to_pylist()) == {"duration", "dice"}
    # in both orders; what answers the same again is asked once
    assert slvmeval.judgements(release, ["dice"]).num_rows == 2 * len(release.pairs())
    assert slvmeval.evaluate(release, ["duration"], repeats=2)["at"].to_pylist() == [
        row["at"] for row in rows.to_pylist() if row["evaluator"] == "duration"
    ]
    page = slvmeval.report(release, tmp_path / "report")
    assert "dice" in page.read_text(encoding="utf-8")
    compared = slvmeval.compare(release, "duration", "dice").to_pylist()
    assert [row["aspect"] for row in compared][-1] == "all"
    assert compared[-1]["pairs"] == len(release.pairs())
    with pytest.raises(slvmeval.UserInputError, match="evaluate: "):
        slvmeval.evaluate(release, ["coin"], repeats=0)
    with pytest.raises(slvmeval.UserInputError, match="no evaluator"):
        slvmeval.evaluate(release, [])
