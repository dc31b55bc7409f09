from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.leftovers import clear_cache
from infra.progress import BuildProgress
from infra.slurm.run_folder import RunFile
from slvmeval.cli.main import main
from storage_schemas.errors import UserInputError
from storage_schemas.gc import kind_sizes
from storage_schemas.store import ANALYSIS, DEGRADED_CLIP, ENCODED, FRAMES, PAIR, TIMELINE, VERIFIED, Store

SIZE = 1000


def add(store: Store, kind: str, consumes: dict[str, object]) -> None:
    with store.stage(kind, consumes) as staged:
        (staged.path / "payload").write_bytes(b"x" * SIZE)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store of which no release uses anything."""
    store = Store.create(tmp_path / "store")
    for kind in (FRAMES, TIMELINE, ANALYSIS, DEGRADED_CLIP, PAIR):
        add(store, kind, {"source": 1})
    add(store, ENCODED, {"frames": "gone"})
    add(store, VERIFIED, {"pair": "gone"})
    return store


def kinds(store: Store) -> set[str]:
    return {size.kind for size in kind_sizes(store) if size.count}


def run(store: Store, *words: str) -> int:
    return main(["gc", "--store", str(store.root), *words])


def test_without_an_option_artifacts_stay(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    before = kinds(store)
    assert run(store) == 0
    assert kinds(store) == before
    assert "0 B freed" in capsys.readouterr().out


def test_frames_and_encoded_go_when_asked(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    before = kinds(store)
    assert run(store, "--frames", "--dry-run") == 0
    assert kinds(store) == before
    assert "would be freed" in capsys.readouterr().out
    assert run(store, "--frames") == 0
    assert kinds(store) == before - {FRAMES}
    assert run(store, "--encoded") == 0
    assert kinds(store) == before - {FRAMES, ENCODED}


def test_features_go_when_asked(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    before = kinds(store)
    (store.features / "key" / "family").mkdir(parents=True)
    (store.features / "key" / "family" / "rows.parquet").write_bytes(b"x" * SIZE)
    assert run(store, "--features", "--dry-run") == 0
    assert f"{SIZE / 1000:.1f} kB would be freed" in capsys.readouterr().out
    assert store.features.is_dir()
    assert run(store, "--features") == 0
    assert not store.features.exists()
    assert store.cache.is_dir()
    assert kinds(store) == before


def test_what_no_release_uses_goes_when_asked(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store, "--unreferenced", "--dry-run") == 0
    assert f"{6 * SIZE / 1000:.1f} kB would be freed" in capsys.readouterr().out
    assert run(store, "--unreferenced") == 0
    assert kinds(store) == {ANALYSIS}


def test_what_a_killed_process_left_is_cleared(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import os, sys; from pathlib import Path; from storage_schemas.store import Store\n"
        f"with Store.open(Path({str(store.root)!r})).stage('frames', {{'k': 2}}) as staged:\n"
        "    (staged.path / 'half').write_bytes(b'x' * 1000); os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False)
    assert len(list(store.staging.iterdir())) == 1
    assert run(store) == 0
    assert not list(store.staging.iterdir())
    assert "1.0 kB freed" in capsys.readouterr().out


def test_what_killed_runs_left_in_the_cache_goes_and_what_others_use_stays(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.leftovers.LEFT_AFTER_S", 0.0)
    monkeypatch.setattr("infra.leftovers.TRANSFER_LEFT_AFTER_S", 0.0)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()

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
        run_file(dead.pid, "running", 1),
        driver("dead", dead.pid),
        write(f".run-x.json.{'a' * 32}"),
        write(f"features/key/.{'b' * 32}"),
        write("rates/.x.json.draft"),
        write("suites/0123456789ab.json"),
        write("exports/demo-1/videos/high.mp4"),
        write("pulled/abc/store/release.tar"),
    }
    stays = {
        run_file(dead.pid, "running", 3),
        run_file(dead.pid, "ended", 2),
        driver("here", os.getpid()),
        driver("elsewhere", dead.pid, "another"),
        write(f".content.json.{'c' * 32}", age_s=-1000),
        write("suites/0123456789abcdef.held"),
        write("content-hashes.json"),
        write("pulled/def/store/packed.json", age_s=-1000),
    }

    def files() -> set[str]:
        return {str(path.relative_to(store.cache)) for path in store.cache.rglob("*") if path.is_file()}

    assert run(store, "--dry-run") == 0
    assert files() == left | stays
    assert run(store) == 0
    assert files() == stays
    assert "cache:" in capsys.readouterr().out
    draft = write(f".run-x.json.{'a' * 32}")
    with BuildProgress(store.cache, quiet=True):
        assert clear_cache(store).count == 0, "it may be the live run's"
    assert clear_cache(store).count == 1
    assert draft not in files()


def test_nothing_is_taken_from_under_a_running_build(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    # reported from the start, because reading the sources alone can take hours
    with BuildProgress(store.cache, quiet=True):
        assert run(store, "--frames") == 1
        assert "a build is running" in capsys.readouterr().err
        assert run(store, "--frames", "--dry-run") == 0
        assert main(["verify", "--repair", "--store", str(store.root)]) == 1
        assert "verify --repair would take away" in capsys.readouterr().err
    assert FRAMES in kinds(store)
    assert run(store, "--frames") == 0


@pytest.mark.parametrize("more", [["--direct"], []])
def test_nothing_is_taken_while_the_sources_are_read(
    more: list[str], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def scan(_: object) -> Iterator[object]:
        seen.append(run(store, "--frames"))
        raise UserInputError("enough seen")

    monkeypatch.setattr("tasks.sources.folder.FolderAdapter.scan", scan)
    (tmp_path / "videos").mkdir()
    words = ["build", "--store", str(store.root), "--sources", str(tmp_path / "videos"), "--quiet", *more]
    # without the aspects that need weights
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('name = "small"\n[aspects.aesthetics]\noperation = "ffmpeg-eq"\nstrength = "paper"\n')
    assert main([*words, "--recipe", str(recipe)]) == 1
    assert seen == [1]
    assert json.loads(next(store.cache.glob("run-*.json")).read_text())["status"] == "failed"
