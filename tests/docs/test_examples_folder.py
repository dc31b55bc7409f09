"""The folder `examples`: its README's commands, its judge and its notebook run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from slvmeval.cli.main import main
from slvmeval.testing import check_evaluator
from tests.docs import reading

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
#: What its commands make, where somebody ran them.
MADE = shutil.ignore_patterns("films", "store", "gallery", "report", "build", "*.egg-info", "__pycache__")


def test_its_readme_is_short_and_its_files_are_small() -> None:
    assert len((FOLDER / "README.md").read_text(encoding="utf-8").split()) <= 200
    notebook = json.loads((FOLDER / "notebook.ipynb").read_text(encoding="utf-8"))
    assert not [cell for cell in notebook["cells"] if cell.get("outputs")]


def test_its_judge_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER / "judge"))
    from first_judge import FirstJudge  # type: ignore[import-not-found]

    check_evaluator(FirstJudge())


@pytest.mark.slow
@pytest.mark.usefixtures("quick_commands")
def test_its_commands_run(
    tmp_path: Path,
    model_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here, installed = tmp_path / "examples", tmp_path / "installed"
    shutil.copytree(FOLDER, here, ignore=MADE)
    # a quarter of the frames takes a fraction of the time
    films = (here / "make_films.py").read_text(encoding="utf-8")
    sizes = "WIDTH, HEIGHT, FPS, SCENE_S, SCENES = 512, 288, {}, 5, 12\n"
    assert sizes.format(8) in films
    (here / "make_films.py").write_text(films.replace(sizes.format(8), sizes.format(2)), encoding="utf-8")
    monkeypatch.chdir(here)
    monkeypatch.setenv("SLVMEVAL_MODEL_FOLDERS", str(model_folder))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(installed)))}
    for line in (
        line for block in reading.blocks(FOLDER / "README.md", "sh") for line in block.text.splitlines()
    ):
        words = shlex.split(line, comments=True)
        if words[0] == "slvmeval" and "first-judge" not in words:
            # what needs nothing that was installed meanwhile
            assert main(words[1:]) == 0, f"{line}\n{capsys.readouterr()}"
            continue
        if words[0] == "slvmeval":
            words[:1] = [sys.executable, "-m", "slvmeval"]
        elif words[0] == "python":
            words[0] = sys.executable
        else:
            assert words == ["pip", "install", "./judge"]
            how = ["--no-deps", "--no-build-isolation", "--quiet", "--target", str(installed)]
            words = [sys.executable, "-m", *words[:2], *how, words[2]]
        ran = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=1200
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
    # each aspect has a pair of each film
    assert len(re.findall(r"^ +\w+ +3 +3 +0", capsys.readouterr().out, re.MULTILINE)) == 10
    assert "first-judge" in (here / "report/tables/aspects-by-evaluators.md").read_text(encoding="utf-8")
    assert (here / "gallery/index.html").is_file()
    notebook = nbformat.read(here / "notebook.ipynb", as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(here)}}).execute()
    assert "of 6" in json.dumps(notebook)
    assert "data:image/jpeg" in json.dumps(notebook)
