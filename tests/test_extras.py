"""The core works without the extras: in a copy of the checkout their folders are taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.test_import_rule import PACKAGES, ROOT

GROUPS = ("commands", "evaluators", "flows", "pair_reports", "pair_sets", "suites")
IMPORT_ALL = """
import importlib, pkgutil, sys
for package in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
assert not [name for name in sys.modules if ".extras." in name]
"""
#: Tests of each room of the core that take a second or so.
CORE_TESTS = (
    "storage_schemas/test_release.py",
    "tasks/statistics/test_cells.py",
    "tasks/scoring/test_declared.py",
    "tasks/aspects/test_all_aspects.py",
    "tasks/test_plugins.py",
)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout without extras, with the metadata of a package that has none."""
    folder = tmp_path_factory.mktemp("core")
    # what is compiled is copied, too, but no draft of it, which is gone in a moment
    left_out = shutil.ignore_patterns("extras", "*.pyc.*")
    for name in (*PACKAGES, "slurm", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    info = folder / "slvmeval-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slvmeval\nVersion: 0.1.0\n")
    return folder


def run(core: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(core)}
    command = [sys.executable, *words]
    ran = subprocess.run(
        command, cwd=core, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.mark.slow
def test_core_imports_without_extras(core: Path) -> None:
    run(core, "-W", "ignore", "-c", IMPORT_ALL, *PACKAGES)


@pytest.mark.slow
def test_core_commands_work_without_extras(core: Path) -> None:
    told = run(core, "-m", "slvmeval", "--help")
    assert "│ meta-sets" not in told
    assert "evaluate" in told
    assert run(core, "-m", "slvmeval", "list", "suites") == ""


@pytest.mark.slow
def test_core_tests_pass_without_extras(core: Path) -> None:
    run(core, "-m", "pytest", "-q", *(f"tests/{name}" for name in CORE_TESTS))


def test_entry_points_of_extras_are_installed() -> None:
    """`make env` installs them again."""
    import tomllib

    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["entry-points"]
    assert sorted(declared) == [f"slvmeval.{group}" for group in GROUPS]
    for group, points in declared.items():
        installed = {point.name: point.value for point in entry_points(group=group)}
        assert points.items() <= installed.items(), "run `make env`"


def test_a_command_that_cannot_be_loaded_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    from slvmeval.cli.main import register_added

    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[slvmeval.commands]\na-broken = no_such_module:register\nnowhere.b = x:y\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    app, suite = typer.Typer(), typer.Typer()
    register_added({"": app, "suite": suite})
    told = capsys.readouterr().err
    assert "command a-broken cannot be loaded from no_such_module:register" in told
    assert "there is no group of commands 'nowhere'" in told
    assert [group.name for group in app.registered_groups] == ["meta-sets"]
