"""Without a command the program says where one is, and what comes next."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.progress import BuildProgress
from slvmeval.cli.main import main
from storage_schemas.store import Store


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SLVMEVAL_STORE", "SLVMEVAL_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    assert main([]) == 0
    return capsys.readouterr().out


def test_a_folder_with_nothing_and_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"no store in {tmp_path}\nnext: slvmeval demo" in said(capsys)
    assert main(["init", "."]) == 0
    capsys.readouterr()
    assert "next: slvmeval build --profile profile.toml --recipe recipe.toml" in said(capsys)


def test_a_store_through_its_stages(
    judged_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLVMEVAL_STORE", str(judged_store))
    text = said(capsys)
    assert f"store: {judged_store}" in text
    assert "6 pairs of 2 sources\n" in text
    assert "next: slvmeval evaluate -e duration" in text
    assert main(["evaluate", "-e", "duration", "--direct", "--quiet"]) == 0
    capsys.readouterr()
    assert "next: slvmeval report --out report --open" in said(capsys)


def test_a_build_that_was_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store.create(tmp_path / "store")
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=subprocess.PIPE)
    state = BuildProgress(store.cache, quiet=True).state("running")
    store.cache.mkdir(exist_ok=True)
    run = store.cache / "run-here-1.json"
    run.write_text(json.dumps(state))
    assert "next: slvmeval status --store store --watch" in said(capsys)
    run.write_text(json.dumps(state | {"pid": int(ended.stdout)}))
    text = said(capsys)
    assert "last build: was killed" in text
    assert "next: the same slvmeval build as before" in text
