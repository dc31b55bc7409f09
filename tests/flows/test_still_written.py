"""What is still being copied is left to the next run, and makes no empty version of a release."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.recipe import Recipe
from tests.flows.prefect_servers import prefect_home

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NIGHT = """
import sys
from infra.prefect_server import prefect_environment, prefect_server

prefect_environment()
from flows.deployed import build_slvmeval

with prefect_server():
    state = build_slvmeval(
        sources=[sys.argv[1]], store=sys.argv[2], recipe=sys.argv[3], settle_s=3600.0, return_state=True
    )
print(state.type.value, state.message)
"""


def test_no_version_is_written_of_nothing(
    add_film: Callable[[Path, int], Path], small_recipe: Recipe, tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    recipe = tmp_path / "recipe.json"
    recipe.write_text(small_recipe.model_dump_json())
    done = subprocess.run(
        [sys.executable, "-c", NIGHT, str(tmp_path / "videos"), str(tmp_path / "store"), str(recipe)],
        env={
            **{name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"},
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": prefect_home(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    output = done.stdout.splitlines()[-1]
    assert output == "COMPLETED Nothing to build yet: 1 file still being written, left to the next run."
    assert not (tmp_path / "store" / "releases" / "main" / "versions").exists()
