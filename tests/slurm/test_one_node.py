"""A build on one node as a job, by the script that users send."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.recipe import Recipe
from tests.slurm.conftest import Slurm

AddFilm = Callable[[Path, int], Path]
SCRIPT = Path(__file__).parents[2] / "slurm" / "one_node.sbatch"


def test_a_job_builds_on_its_node(
    slurm: Slurm,
    add_film: AddFilm,
    small_recipe: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_film(tmp_path / "videos", 1)
    (tmp_path / "recipe.json").write_text(small_recipe.model_dump_json(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    options = ["--partition=cpu", "--cpus-per-task=1", "--mem=2G", "--time=10"]
    words = ["--sources", "videos", "--store", "store", "--recipe", "recipe.json"]
    job = slurm.run("sbatch", "--parsable", *options, str(SCRIPT), *words)
    slurm.wait(lambda: not slurm.squeue(), 120)
    log = (tmp_path / f"slvmeval-one-node-{job}.log").read_text(encoding="utf-8")
    assert slurm.job(job)["JobState"] == "COMPLETED", log
    release = Release.open(Store.open(tmp_path / "store"), "main")
    assert {counts["built"] for counts in release.summary().values()} == {1}


def test_a_missing_environment_is_reported(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    job = slurm.run("sbatch", "--parsable", "--partition=cpu", "--mem=500", "--cpus-per-task=1", str(SCRIPT))
    slurm.wait(lambda: not slurm.squeue())
    log = (tmp_path / f"slvmeval-one-node-{job}.log").read_text(encoding="utf-8")
    assert "one_node: there is no slvmeval: activate the environment" in log
