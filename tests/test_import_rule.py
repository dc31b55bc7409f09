"""The import rule holds, and a violation of it is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

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


ROOMS = "The rooms: each imports only what lies below it"
ORCHESTRATOR = "The work knows no orchestrator"
LAYERS = "The rooms inside tasks: each imports only what lies below it"
CIRCLES = "No circles: neither between files nor between folders"


@pytest.mark.parametrize(
    ("contract", "file", "line"),
    [
        (ROOMS, "storage_schemas/ids.py", "import tasks.recipe"),
        (ROOMS, "tasks/recipe.py", "from infra.profile import Profile"),
        (ROOMS, "infra/profile.py", "from tasks.recipe import Recipe"),
        (ROOMS, "flows/build/options.py", "import slvmeval.api"),
        (ORCHESTRATOR, "tasks/pairs/draw.py", "import prefect"),
        (ORCHESTRATOR, "storage_schemas/store.py", "def late() -> None:\n    import distributed"),
        (LAYERS, "tasks/media/decode.py", "import tasks.pairs.draw"),
        (LAYERS, "tasks/llm/servers.py", "import tasks.models.hub"),
        (LAYERS, "tasks/report/table.py", "import tasks.publish.release"),
        (CIRCLES, "tasks/media/source_file.py", "import tasks.media.images"),
        (CIRCLES, "infra/slurm/commands.py", "def late() -> None:\n    import infra.slurm.cluster"),
    ],
)
def test_a_planted_violation_is_found(copied: Path, contract: str, file: str, line: str) -> None:
    path = copied / file
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(f"{before}\n\n{line}\n", encoding="utf-8")
        ran = lint(copied)
    finally:
        path.write_text(before, encoding="utf-8")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert f"{contract} BROKEN" in ran.stdout


def contracts() -> list[dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        every: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return every


def test_a_use_of_another_folders_inner_modules_is_found(copied: Path) -> None:
    protected = [one for one in contracts() if one["type"] == "protected"]
    assert protected
    planted = copied / "slvmeval" / "planted.py"
    planted.write_text(
        "".join(f"import {one['protected_modules'][0]}\n" for one in protected), encoding="utf-8"
    )
    try:
        ran = lint(copied)
    finally:
        planted.unlink()
    assert [one["name"] for one in protected if f"{one['name']} BROKEN" not in ran.stdout] == []


def test_every_other_contract_has_a_planted_violation() -> None:
    others = {one["name"] for one in contracts() if one["type"] != "protected"}
    assert others == {ROOMS, ORCHESTRATOR, LAYERS, CIRCLES}
