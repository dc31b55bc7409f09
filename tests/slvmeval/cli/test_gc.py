"""`gc`: what goes only when asked, what killed runs left, and what is never taken from a running build."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.leftovers import clear_cache
from infra.progress import BuildProgress
from infra.slurm.run_folder import RunFile
from storage_schemas.errors import UserInputError
from storage_schemas.gc import kind_sizes
from storage_schemas.store import ANALYSIS, DEGRADED_CLIP, ENCODED, FRAMES, PAIR, TIMELINE, VERIFIED, Store
from tests.slvmeval.cli.running import NO_PROCESS, Run

SIZE = 1000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store of which no release uses anything."""
    store = Store.create(tmp_path / "store")
    made: dict[str, dict[str, object]] = {
        kind: {"source": 1} for kind in (FRAMES, TIMELINE, ANALYSIS, DEGRADED_CLIP, PAIR)
    }
    for kind, consumes in {**made, ENCODED: {"frames": "gone"}, VERIFIED: {"pair": "gone"}}.items():
        with store.stage(kind, consumes) as staged:
            (staged.path / "payload").write_bytes(b"x" * SIZE)
    return store


def kinds(store: Store) -> set[str]:
    return {size.kind for size in kind_sizes(store) if size.count}


def test_gc_takes_artifacts_only_when_asked(store: Store, run: Run) -> None:
    gc = ("gc", "--store", store.root)
    before = kinds(store)
    assert "0 B freed" in run(*gc).out
    assert "would be freed" in run(*gc, "frames", "--dry-run").out
    (store.features / "key" / "family").mkdir(parents=True)
    (store.features / "key" / "family" / "rows.parquet").write_bytes(b"x" * SIZE)
    assert f"{SIZE / 1000:.1f} kB would be freed" in run(*gc, "features", "--dry-run").out
    assert store.features.is_dir()
    assert f"{6 * SIZE / 1000:.1f} kB would be freed" in run(*gc, "unreferenced", "--dry-run").out
    assert kinds(store) == before
    run(*gc, "features")
    assert not store.features.exists()
    assert store.cache.is_dir()
    assert kinds(store) == before
    run(*gc, "frames")
    assert kinds(store) == before - {FRAMES}
    run(*gc, "encoded")
    assert kinds(store) == before - {FRAMES, ENCODED}
    run(*gc, "unreferenced")
    assert kinds(store) == {ANALYSIS}


def test_gc_clears_what_a_killed_process_left(store: Store, run: Run) -> None:
    half = store.staging / f"frames.{socket.gethostname().replace('.', '_')}.{NO_PROCESS}.a" / "half"
    half.parent.mkdir()
    half.write_bytes(b"x" * SIZE)
    assert "1.0 kB freed" in run("gc", "--store", store.root).out
    assert not list(store.staging.iterdir())


def test_gc_takes_leftovers_of_killed_runs(store: Store, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.leftovers.LEFT_AFTER_S", 0.0)
    monkeypatch.setattr("infra.leftovers.TRANSFER_LEFT_AFTER_S", 0.0)

    def write(name: str, text: str = "x" * 1000, age_s: float = 0.0) -> str:
        path = store.cache / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (time.time() - age_s,) * 2)
        return name

    def run_file(pid: int, status: str, started: int, host: str = socket.gethostname()) -> str:
        times = {"started_at": str(started), "updated_at": str(started)}
        state = {"status": status, "host": host, "pid": pid, "stages": {}, **times}
        return write(f"run-{host}-{pid}{started}.json", json.dumps(state))

    def driver(name: str, pid: int, host: str = socket.gethostname()) -> str:
        file = RunFile(scheduler="tls://1", host=host, pid=pid, versions={})
        return write(f"slurm/{name}/run.json", file.model_dump_json())

    left = {
        run_file(NO_PROCESS, "running", 1),
        driver("dead", NO_PROCESS),
        write(f".run-x.json.{'a' * 32}"),
        write(f"features/key/.{'b' * 32}"),
        write("rates/.x.json.draft"),
        write("suites/0123456789ab.json"),
        write("exports/demo-1/videos/high.mp4"),
        write("pulled/abc/store/release.tar"),
    }
    stays = {
        run_file(NO_PROCESS, "running", 3),
        run_file(NO_PROCESS, "ended", 2),
        driver("here", os.getpid()),
        driver("elsewhere", NO_PROCESS, "another"),
        write(f".content.json.{'c' * 32}", age_s=-1000),
        write("suites/0123456789abcdef.held"),
        write("content-hashes.json"),
        write("pulled/def/store/packed.json", age_s=-1000),
    }

    def files() -> set[str]:
        return {str(path.relative_to(store.cache)) for path in store.cache.rglob("*") if path.is_file()}

    run("gc", "--store", store.root, "--dry-run")
    assert files() == left | stays
    assert "cache:" in run("gc", "--store", store.root).out
    assert files() == stays
    draft = write(f".run-x.json.{'a' * 32}")
    with BuildProgress(store.cache, quiet=True):
        assert clear_cache(store).count == 0, "it may be the live run's"
    assert clear_cache(store).count == 1
    assert draft not in files()


def test_gc_takes_nothing_from_under_a_running_build(store: Store, run: Run) -> None:
    gc = ("gc", "--store", store.root, "frames")
    # reported from the start, because reading the sources alone can take hours
    with BuildProgress(store.cache, quiet=True):
        assert "a build is running" in run(*gc, code=1).err
        run(*gc, "--dry-run")
        repair = run("verify", "--repair", "--store", store.root, code=1).err
        assert "verify --repair would remove data" in repair
    assert FRAMES in kinds(store)
    run(*gc)


@pytest.mark.parametrize("more", [["--direct"], []])
def test_gc_takes_nothing_while_the_sources_are_read(
    more: list[str], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    seen = []

    def scan(_: object) -> Iterator[object]:
        run("gc", "--store", store.root, "frames", code=1)
        seen.append("refused")
        raise UserInputError("enough seen")

    monkeypatch.setattr("tasks.sources.folder.FolderAdapter.scan", scan)
    (tmp_path / "videos").mkdir()
    # without the aspects that need weights
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('name = "small"\n[aspects.aesthetics]\noperation = "ffmpeg-eq"\nstrength = "paper"\n')
    words = ("build", "--store", store.root, "--sources", tmp_path / "videos", "--quiet")
    run(*words, *more, "--recipe", recipe, code=1)
    assert seen == ["refused"]
    assert json.loads(next(store.cache.glob("run-*.json")).read_text())["status"] == "failed"
