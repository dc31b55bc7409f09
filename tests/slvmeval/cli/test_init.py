"""A project folder is complete, and nothing that is there is overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.profile import load_profile
from slvmeval.cli.main import main

ROOT = Path(__file__).parents[3]


def test_a_site_with_a_cluster_has_the_files_that_the_documents_name(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path / "site"), "--cluster"]) == 0
    for folder in ("slurm", "infra/postgres"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc" and not path.name.startswith("."):
                copy = tmp_path / "site" / path.relative_to(ROOT)
                assert copy.read_bytes() == path.read_bytes()
                assert os.access(copy, os.X_OK) == path.read_bytes().startswith(b"#!")
    assert load_profile(tmp_path / "site" / "profile.toml").name == "site-project"


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "film.mp4").write_bytes(b"film")
    (folder / "recipe.toml").symlink_to(tmp_path / "gone.toml")
    assert main(["init", str(folder)]) == 1
    assert "has recipe.toml already" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["film.mp4", "recipe.toml"]
    (folder / "recipe.toml").unlink()
    assert main(["init", str(folder)]) == 0
    assert (folder / "film.mp4").read_bytes() == b"film"
    assert main(["init", str(folder / "film.mp4")]) == 1
    assert "cannot be written" in capsys.readouterr().err
