"""With the base packages alone a judge's user opens, judges, reports, compares and exports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_schemas.extras import EXTRAS
from tests.tasks.publish.conftest import Small

ROOT = Path(__file__).parents[2]
#: What the packages of the extras bring, and the base does not.
BROUGHT = ("blis", "llvmlite", "numba", "pandas", "rembg", "skimage", "thinc")

# Python runs a module of this name when it starts, in the processes that a program starts, too
_SITE = """
import sys
from importlib.abc import MetaPathFinder

HIDDEN = frozenset({hidden!r})


class Hider(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in HIDDEN:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Hider())
"""


def run_in_base(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, where the packages of all extras cannot be found."""
    hidden = sorted({*(name for names in EXTRAS.values() for name in names), *BROUGHT})
    site = folder / "hiding"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(_SITE.format(hidden=hidden), encoding="utf-8")
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


PYTHON = """
import sys
import slvmeval

release = slvmeval.open_release("small/store")
rows = slvmeval.evaluate(release, ["duration", "motion", "sharpness"])
assert set(rows["evaluator"].to_pylist()) == {"duration", "motion", "sharpness"}
assert "sharpness" in slvmeval.report(release, "report").read_text(encoding="utf-8")
assert slvmeval.compare(release, "motion", "sharpness").num_rows > 1
(first, *_) = slvmeval.iter_pairs(release)
assert first.low.rgb(0).shape == first.high.rgb(0).shape
from tasks.media.color_names import rgb_to_lab
try:
    rgb_to_lab(first.low.rgb(0))
except slvmeval.PrerequisiteError as problem:
    print(problem)
hidden = sys.meta_path[0].find_spec.__globals__["HIDDEN"]
assert not hidden & set(sys.modules)
"""


@pytest.fixture(scope="module")
def small(build_small: Callable[[Path], Small], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    build_small(folder / "small")
    return folder


def ran(done: subprocess.CompletedProcess[str], code: int = 0) -> str:
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_base_install_judges_reports_and_compares_from_python(small: Path) -> None:
    says = ran(run_in_base(small, "-c", PYTHON))
    assert "cv2 is not installed: pip install 'slvmeval[build]'" in says


@pytest.mark.slow
def test_base_install_runs_the_commands_of_a_judges_user(small: Path) -> None:
    def slvmeval(*words: str, code: int = 0) -> str:
        return ran(run_in_base(small, "-m", "slvmeval", *words), code)

    at = ("--store", "small/store")
    # no Prefect: local processes without being asked, and without a word about it
    assert "Prefect" not in slvmeval("evaluate", "-e", "contrast", "-e", "coin", *at)
    slvmeval("report", *at, "--out", "report of a command")
    slvmeval("compare", "contrast", "coin", *at)
    slvmeval("export", *at, "--out", "exported", "--private")
    slvmeval("status", *at)
    slvmeval("list", "evaluators")


MISSING = """
import sys
from slvmeval.cli.main import main
for words in ("build --sources folder:. --store new", "annotate status --store small/store"):
    assert main(words.split()) == 1
    print("\\f", file=sys.stderr)
"""


def test_commands_that_need_an_extra_say_so_in_one_sentence(small: Path) -> None:
    *told, _ = ran(run_in_base(small, "-c", MISSING)).split("\f")
    for says, extra in zip(told, ("build", "annotate"), strict=True):
        assert f"is not installed: pip install 'slvmeval[{extra}]'" in says
        assert "Traceback" not in says
