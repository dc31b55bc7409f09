"""The tutorial, command by command as it stands there, up to the table."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slvmeval.cli.main import main
from tests.docs import reading

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"


@pytest.mark.slow
@pytest.mark.usefixtures("quick_commands")
def test_it_ends_with_a_table(
    example_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(example_folder / "videos", tmp_path / "videos")
    # its films are small
    shown = next(block.text for block in reading.blocks(PAGE, "toml"))
    smaller = '"lanczos-down-up"\nparameters = {long_side = 80}'
    recipe = shown.replace('"lanczos-down-up"', smaller)
    (tmp_path / "recipe.toml").write_text(recipe, encoding="utf-8")
    installed = tmp_path / "installed"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(installed)))}
    lines = [line for block in reading.blocks(PAGE, "sh") for line in block.text.splitlines()]
    assert len(lines) == 12
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:3] == ["pip", "install", "-e"]:
            how = ["--no-deps", "--no-build-isolation", "--quiet", "--target", str(installed)]
            words = [sys.executable, "-m", "pip", "install", *how, f"./{words[3]}"]
        elif words[0] == "slvmeval" and words[1] == "evaluate" and "my-judge" in words:
            words[:1] = [sys.executable, "-m", "slvmeval"]
        elif words[0] == "slvmeval":
            # what needs nothing that was installed meanwhile
            assert main(words[1:]) == 0, f"{line}\n{capsys.readouterr()}"
            continue
        ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
    table = (tmp_path / "report/tables/aspects-by-evaluators.tex").read_text(encoding="utf-8")
    assert "my-judge" in table
    assert "Comprehensiveness" in table
    assert (tmp_path / "report/index.html").is_file()
    assert (tmp_path / "gallery/index.html").is_file()
    assert (tmp_path / "pinned.json").is_file()
