"""A project folder is complete, its commands work, and nothing that is there is overwritten."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from infra.profile import load_profile
from slvmeval.cli.main import main
from tasks.recipe import load_recipe
from tests.docs.conftest import CLIP_S, CLIPS, make_film

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_project_can_be_built_as_its_readme_says(
    ffmpeg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "My films"]) == 0
    assert "put videos with captions into My films/sources" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path / "My films")
    make_film(ffmpeg, Path("sources/film.mp4"), CLIPS * CLIP_S, 0)
    lines = [{"start_s": n * CLIP_S, "end_s": (n + 1) * CLIP_S, "caption": "A ball."} for n in range(CLIPS)]
    Path("sources/film.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    recipe = Path("recipe.toml").read_text().replace("#[aspects.aes", "[aspects.aes").replace("#oper", "oper")
    Path("recipe.toml").write_text(recipe)
    assert load_recipe("recipe.toml").name == "My-films-project"
    readme = Path("README.md").read_text()
    commands = [
        shlex.split(line, comments=True)[1:] for line in re.findall(r"^slvmeval .*$", readme, re.MULTILINE)
    ]
    assert [words[0] for words in commands] == ["models", "sources", "plan", "build", "evaluate", "report"]
    # weights are for aspects that this recipe leaves out
    for words in commands[1:]:
        here = [word for word in words if word != "--open"]
        assert main([*here, *(["--direct"] if words[0] in ("build", "evaluate") else [])]) == 0, words
    assert Path("gallery/index.html").is_file()
    assert Path("report/index.html").is_file()
    assert Path("store/store.json").is_file()


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
