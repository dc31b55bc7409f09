from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.progress import BuildProgress
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
