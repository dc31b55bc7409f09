"""The current store, the next step as a command to paste, new project folders, and unusable outputs."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from infra.profile import load_profile
from infra.progress import BuildProgress
from slvmeval.command_line import command_line, store_words
from storage_schemas.store import Store
from tests.slvmeval.cli.running import NO_PROCESS, Run, lacks

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SLVMEVAL_STORE", "SLVMEVAL_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_a_folder_with_nothing_and_a_project(tmp_path: Path, run: Run) -> None:
    assert f"no store in {tmp_path}\nnext: slvmeval demo" in run().out
    run("init", ".")
    assert "next: slvmeval build --profile profile.toml --recipe recipe.toml" in run().out


def test_a_store_through_its_stages(judged_store: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("SLVMEVAL_STORE", str(judged_store))
    text = run().out
    for said in (f"store: {judged_store}", "6 pairs of 2 sources\n", "next: slvmeval evaluate -e duration"):
        assert said in text
    run("evaluate", "-e", "duration", "--direct", "--quiet")
    assert "next: slvmeval report --out report --open" in run().out


def test_a_build_that_was_killed(tmp_path: Path, run: Run) -> None:
    store = Store.create(tmp_path / "store")
    state = BuildProgress(store.cache, quiet=True).state("running")
    store.cache.mkdir(exist_ok=True)
    (store.cache / "run-here-1.json").write_text(json.dumps(state))
    assert "next: slvmeval status --store store --watch" in run().out
    (store.cache / "run-here-1.json").write_text(json.dumps(state | {"pid": NO_PROCESS}))
    text = run().out
    assert not lacks(text, "last build: was killed", "next: the same slvmeval build as before")


def test_the_next_command_can_be_pasted_from_a_folder_with_a_space(tmp_path: Path, run: Run) -> None:
    store = Store.create(tmp_path / "my store")
    state = BuildProgress(store.cache, quiet=True).state("running")
    store.cache.mkdir(exist_ok=True)
    (store.cache / "run-here-1.json").write_text(json.dumps(state))
    assert f"next: slvmeval status --store '{store.root}' --watch" in run("--store", store.root).out
    store.root.rename(tmp_path / "slvmeval-store")
    assert "next: slvmeval status --watch" in run().out


def test_a_site_with_a_cluster_has_the_files_that_the_documents_name(tmp_path: Path, run: Run) -> None:
    run("init", tmp_path / "site", "--cluster")
    for folder in ("slurm", "infra/postgres"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc" and not path.name.startswith("."):
                copy = tmp_path / "site" / path.relative_to(ROOT)
                assert copy.read_bytes() == path.read_bytes()
                assert os.access(copy, os.X_OK) == path.read_bytes().startswith(b"#!")
    assert load_profile(tmp_path / "site" / "profile.toml").name == "site-project"


def test_nothing_is_overwritten(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "film.mp4").write_bytes(b"film")
    (folder / "recipe.toml").symlink_to(tmp_path / "gone.toml")
    assert "already contains recipe.toml" in run("init", folder, code=1).err
    assert sorted(path.name for path in folder.iterdir()) == ["film.mp4", "recipe.toml"]
    (folder / "recipe.toml").unlink()
    run("init", folder)
    assert (folder / "film.mp4").read_bytes() == b"film"
    assert "cannot be written" in run("init", folder / "film.mp4", code=1).err


def test_a_file_in_the_way_of_a_folder_is_named(judged_store: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    (tmp_path / "taken").write_text("mine")
    for words in (
        "demo --out",
        "export --recipe-only --store store --out",
        "gallery --store store --out",
        "materialise --quiet --store store --out",
        "models add mine checkpoint --kind detector --model-folder",
        "prompts",
    ):
        said = run(*words.split(), "taken/inner", code=1).err
        assert f"error: {tmp_path}/taken is a file, but a folder is needed there" in said, words
        assert (tmp_path / "taken").read_text() == "mine"


def test_where_the_summary_cannot_be_is_reported_before_the_build(tmp_path: Path, run: Run) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "taken").write_text("mine")
    build = ["build", "--direct", "--quiet", "--recipe", "cpu-approx", "--store", tmp_path / "new"]
    build += ["--sources", tmp_path, "--summary"]
    assert "pipe cannot be written: it is a named pipe" in run(*build, tmp_path / "pipe", code=1).err
    said = run(*build, tmp_path / "taken" / "s.json", code=1).err
    assert "taken is a file, but a folder is needed there" in said
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "new").exists()


def test_a_path_with_a_space_is_one_word(tmp_path: Path) -> None:
    store = tmp_path / "my store"
    line = command_line("verify", "main", "--format", "json", store=store)
    assert shlex.split(line) == ["slvmeval", "verify", "main", "--format", "json", "--store", str(store)]


def test_the_default_store_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_line("status", store="slvmeval-store") == "slvmeval status"
    assert command_line("status", store=tmp_path / "slvmeval-store") == "slvmeval status"
    assert command_line("status", store="store") == "slvmeval status --store store"
    monkeypatch.setenv("SLVMEVAL_STORE", str(tmp_path / "store"))
    assert store_words("store") == []
    assert store_words("slvmeval-store") == ["--store", "slvmeval-store"]


def test_a_damaged_profile_in_the_environment_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLVMEVAL_PROFILE", "missing.toml")
    assert store_words("slvmeval-store") == ["--store", "slvmeval-store"]
