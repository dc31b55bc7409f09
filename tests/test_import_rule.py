"""A violation of the import rule is found; that there is none says `make lint`."""

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
ROOMS = "The rooms: each imports only what lies below it"
ORCHESTRATOR = "The work knows no orchestrator"
LAYERS = "The rooms inside tasks: each imports only what lies below it"
EXTRAS = "The core imports no extra"
AMONG_EXTRAS = "The extras: two of them use LoCoT2V-Bench, and no other uses another"
CIRCLES = "No circles: neither between files nor between folders"
PLANTED = [
    (ROOMS, "storage_schemas.ids", "tasks.recipe"),
    (ROOMS, "tasks.recipe", "infra.profile"),
    (ROOMS, "infra.profile", "tasks.recipe"),
    (ROOMS, "flows.release.options", "slvmeval.api"),
    (ORCHESTRATOR, "tasks.pairs.draw", "prefect"),
    (ORCHESTRATOR, "storage_schemas.store", "distributed"),
    (LAYERS, "tasks.media.decode", "tasks.pairs.draw"),
    (LAYERS, "tasks.llm.servers", "tasks.models.hub"),
    (LAYERS, "tasks.report.table", "tasks.publish.release"),
    (EXTRAS, "tasks.scoring.suites.registry", "tasks.extras.video_bench.suite"),
    (EXTRAS, "flows.score.options", "tasks.extras.meta_sets.provider"),
    (EXTRAS, "flows.deployments", "flows.extras.prompt_suite.flow"),
    (EXTRAS, "slvmeval.cli.main", "slvmeval.extras.meta_sets.commands"),
    (AMONG_EXTRAS, "tasks.extras.locot2v.suite", "tasks.extras.video_bench.suite"),
    (CIRCLES, "tasks.media.source_file", "tasks.media.images"),
    (CIRCLES, "infra.slurm.commands", "infra.slurm.cluster"),
]


def contracts() -> list[dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        every: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return every


PROTECTED = [
    (one["name"], "slvmeval.planted", one["protected_modules"][0])
    for one in contracts()
    if one["type"] == "protected"
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Plant every violation in a copy of the code; return what is reported of each broken contract."""
    folder = tmp_path_factory.mktemp("copy")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    # the checkout may be read-only
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for _, importer, imported in [*PLANTED, *PROTECTED]:
        # an import inside of a function counts, too
        with (folder / f"{importer.replace('.', '/')}.py").open("a", encoding="utf-8") as file:
            file.write(f"\n\ndef late() -> None:\n    import {imported}\n")
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    told: dict[str, str] = {}
    for name in (one["name"] for one in contracts()):
        parts = ran.stdout.split(f"\n{name}\n{'-' * len(name)}\n")
        told[name] = parts[1].split("\n---")[0] if len(parts) > 1 else ""
    return told


@pytest.mark.parametrize(("contract", "importer", "imported"), [*PLANTED, *PROTECTED])
def test_a_planted_violation_is_found(
    found: dict[str, str], contract: str, importer: str, imported: str
) -> None:
    # a circle is told by the files' names in their folder
    names = [f".{name.rsplit('.')[-1]}" if contract == CIRCLES else name for name in (importer, imported)]
    told = found[contract]
    assert " -> ".join(names) in told, told


def test_every_contract_has_a_planted_violation() -> None:
    assert {one["name"] for one in contracts()} == {name for name, *_ in [*PLANTED, *PROTECTED]}
