"""Commands that messages print can be pasted into a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from slvmeval.command_line import command_line, store_words


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SLVMEVAL_STORE", "SLVMEVAL_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


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
