"""What goes into an image is all that the program needs: nothing is taken from the source tree later."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONTAINER = ROOT / "infra" / "container"
INSTALL = CONTAINER / "install.sh"


def of_containerfile() -> set[str]:
    """Return what .dockerignore lets into the build."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    return {line.removeprefix("!") for line in lines if line.startswith("!")}


def of_definition() -> dict[str, str]:
    """Return what the Apptainer definition copies, and whereto."""
    text = (CONTAINER / "slvmeval.def").read_text(encoding="utf-8")
    files = text.partition("%files\n")[2].partition("\n\n")[0]
    return dict(line.split() for line in files.splitlines())


def test_images_are_made_from_the_same_base_and_given_the_same_files() -> None:
    bases = re.findall(r"^FROM (\S+)", (CONTAINER / "Containerfile").read_text(), re.MULTILINE)
    (base,) = re.findall(r"^From: (\S+)", (CONTAINER / "slvmeval.def").read_text(), re.MULTILINE)
    assert set(bases) == {f"docker.io/library/{base}"}
    copied = of_definition()
    assert set(copied) == of_containerfile()
    assert copied == {name: f"/source/{name}" for name in copied}
    assert all((ROOT / name).exists() for name in copied)


def install(
    *words: str, python: str = sys.executable, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the script where no package index is to be had."""
    environment = os.environ | {"PYTHON": python, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    environment.pop("PIP_FIND_LINKS", None)
    return subprocess.run(
        ["sh", str(INSTALL), *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_install_refuses_wrong_words_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "mine").touch()
    ran = install(str(tmp_path / "env"))
    assert (ran.returncode, "is there already" in ran.stderr) == (1, True)
    assert (tmp_path / "env" / "mine").exists()
    ran = install()
    assert (ran.returncode, ran.stderr) == (2, "usage: install.sh [--models | --vllm] VENV\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    for words in (["--models"], ["--vlm", "env"], ["--models", "--vllm", "env"]):
        ran = install(*words, cwd=empty)
        assert (ran.returncode, list(empty.iterdir())) == (2, [])


def python_with_pip(folder: Path, pip: str) -> str:
    """Return a Python whose environments have this shell script as their pip."""
    python = folder / "python"
    python.write_text(
        '#!/bin/sh\n[ "$1" = -m ] || exit 0\n'
        f'mkdir -p "$3/bin"\ncat >"$3/bin/python" <<\'END\'\n#!/bin/sh\n{pip}\nEND\n'
        'chmod +x "$3/bin/python"\n'
    )
    python.chmod(0o755)
    return str(python)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], ["requirements.lock"]),
        (["--models"], ["requirements.lock", "requirements-models.lock", "requirements-torch.txt"]),
        (["--vllm"], ["requirements-vllm.txt"]),
    ],
)
def test_install_takes_the_requirements_of_each_variant(
    options: list[str], wanted: list[str], tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    python = python_with_pip(tmp_path, f'echo "$@" >>"{asked}"')
    ran = install(*options, str(tmp_path / "env"), python=python)
    assert ran.returncode == 0, ran.stderr
    program = "vllm" if options == ["--vllm"] else "slvmeval"
    assert ran.stdout == f"{tmp_path}/env/bin/{program}\n"
    assert re.findall(r"-r \S*/(\S+)", asked.read_text()) == wanted


def test_install_takes_an_incomplete_environment_away(tmp_path: Path) -> None:
    python = python_with_pip(tmp_path, "echo 'No matching distribution' >&2; exit 1")
    ran = install(str(tmp_path / "env"), python=python)
    assert ran.returncode != 0
    assert "No matching distribution" in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["python"]
