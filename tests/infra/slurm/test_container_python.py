"""The Python of an image as a profile names it; in the place of Apptainer a program that notes its call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "slurm" / "container_python.sh"

#: Takes `exec [--nv] [--bind FOLDER] IMAGE PYTHON …`, writes it down, and runs the rest with our Python.
STAND_IN = f"""#!{sys.executable}
import json, os, sys
words = sys.argv[1:]
json.dump({{"words": words, "pythonpath": os.environ.get("PYTHONPATH")}}, open(os.environ["CALL"], "w"))
end = words.index("/opt/slvmeval/bin/python")
os.execv(sys.executable, [sys.executable, *words[end + 1:]])
"""


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """A node with an image, a GPU and the stand-in."""
    program = tmp_path / "apptainer"
    program.write_text(STAND_IN, encoding="utf-8")
    program.chmod(0o755)
    for name in ("image.sif", "nvidiactl"):
        (tmp_path / name).touch()
    return {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "CALL": str(tmp_path / "call.json"),
        "SLVMEVAL_IMAGE": str(tmp_path / "image.sif"),
        "SLVMEVAL_GPU_DEVICE": str(tmp_path / "nvidiactl"),
        "PYTHONPATH": "/elsewhere",
    }


def run(variables: dict[str, str], *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *words], env=variables, input=text, capture_output=True, text=True, check=False
    )


def call(variables: dict[str, str]) -> dict[str, object]:
    result: dict[str, object] = json.loads(Path(variables["CALL"]).read_text(encoding="utf-8"))
    return result


def test_words_and_input_reach_the_python_of_the_image(variables: dict[str, str], tmp_path: Path) -> None:
    code = "import sys\nprint(sys.argv[1:])"
    ran = run(variables | {"TMPDIR": str(tmp_path)}, "-", "two words", "$HOME", text=code)
    assert (ran.returncode, ran.stdout) == (0, "['two words', '$HOME']\n")
    image = variables["SLVMEVAL_IMAGE"]
    words = ["exec", "--nv", "--bind", str(tmp_path), image, "/opt/slvmeval/bin/python", "-", "two words"]
    assert call(variables) == {"words": [*words, "$HOME"], "pythonpath": None}


def test_the_end_of_the_program_is_that_of_the_script(variables: dict[str, str]) -> None:
    assert run(variables, "-c", "import sys; sys.exit(7)").returncode == 7


def test_a_node_without_gpu_has_no_driver_to_show(variables: dict[str, str], tmp_path: Path) -> None:
    run(variables | {"SLVMEVAL_GPU_DEVICE": str(tmp_path / "none")}, "-c", "")
    words = ["exec", variables["SLVMEVAL_IMAGE"], "/opt/slvmeval/bin/python", "-c", ""]
    assert call(variables)["words"] == words


@pytest.mark.parametrize(
    ("changed", "code", "says"),
    [
        ({"SLVMEVAL_IMAGE": ""}, 2, "set SLVMEVAL_IMAGE to the image, in `setup` of the pool"),
        (
            {"SLVMEVAL_IMAGE": "/no/image.sif"},
            1,
            f"{os.uname().nodename} does not see the image /no/image.sif",
        ),
        ({"SLVMEVAL_APPTAINER": "nosuch"}, 1, "has no command nosuch: load its module in `setup`"),
    ],
)
def test_what_is_missing_is_reported(
    variables: dict[str, str], changed: dict[str, str], code: int, says: str
) -> None:
    ran = run(variables | changed, "-c", "")
    assert ran.returncode == code
    assert says in ran.stderr
    assert not Path(variables["CALL"]).exists()
