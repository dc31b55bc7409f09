"""A program that runs as in a base install: the packages of all extras cannot be found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from storage_schemas.extras import EXTRAS

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
    """Run Python with these arguments, without the packages of the extras.

    Parameters
    ----------
    folder
        An existing folder, where it runs.
    """
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
