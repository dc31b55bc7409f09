"""The import rule holds, and a violation of it is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("storage_schemas", "tasks", "infra", "flows", "slvmeval")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the code, so that nothing is planted in the real one."""
    folder = tmp_path_factory.mktemp("copy")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_the_rule_holds(copied: Path) -> None:
    ran = lint(copied)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("storage_schemas/ids.py", "import tasks.recipe"),
        ("tasks/recipe.py", "from infra.profile import Profile"),
        ("infra/profile.py", "from tasks.recipe import Recipe"),
        ("flows/build/options.py", "import slvmeval.api"),
        ("tasks/pairs/draw.py", "import prefect"),
        ("storage_schemas/store.py", "def late() -> None:\n    import distributed"),
    ],
)
def test_a_planted_violation_is_found(copied: Path, file: str, line: str) -> None:
    path = copied / file
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(f"{before}\n\n{line}\n", encoding="utf-8")
        ran = lint(copied)
    finally:
        path.write_text(before, encoding="utf-8")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "BROKEN" in ran.stdout
