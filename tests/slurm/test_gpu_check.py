"""``slvmeval doctor --gpu`` as a job of the pool h100, on tiny checkpoints and a CPU."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.slurm.building import ROOT, profile_text, slvmeval
from tests.slurm.conftest import Slurm
from tests.tiny_models.paper_site import tiny_models, tiny_paper


def site(tmp_path: Path, models: Path, memory: str = "1GiB") -> Path:
    path = tmp_path / "site.toml"
    lines = f'model_folders = ["{models}"]'
    text = profile_text(
        tmp_path / "store", "http://127.0.0.1:1/api", site=lines, h100_memory=memory, h100_jobs=2
    )
    path.write_text(text + f'setup = ["export PYTHONPATH={ROOT}"]\n')
    return path


def check(slurm: Slurm, tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return slvmeval(slurm, tmp_path, "doctor", "--gpu", *more)


@pytest.mark.models
def test_the_models_are_measured_where_a_build_would_run_them(slurm: Slurm, tmp_path: Path) -> None:
    recipe = tiny_paper()
    only = {"aspects": {"object_integrity": recipe.aspects["object_integrity"]}}
    (tmp_path / "recipe.json").write_text(recipe.model_copy(update=only).model_dump_json())
    models = tiny_models(tmp_path / "weights", tmp_path / "checkpoints")
    site(tmp_path, models, "3GiB")
    ran = check(slurm, tmp_path, "--recipe", str(tmp_path / "recipe.json"), "--format", "json")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["job"]
    assert slurm.job(report["job"])["Partition"] == "h100"
    (made,) = report["aspects"]
    assert made["frame_s"] > 0
    assert {model["name"] for model in report["models"]} == {"tiny-detector", "tiny-inpainter"}
    (row,) = json.loads(Path(report["speeds_file"]).read_text())
    assert row["only"]["detector"] == "tiny-detector"
    assert f"job {report['job']}: running" in ran.stderr
    # nothing is left but the log and the speeds; Slurm may still be ending the job
    assert {job["state"] for job in slurm.squeue()} <= {"COMPLETING"}
    slurm.wait(lambda: not slurm.squeue())
    (kept,) = (tmp_path / "store" / "cache").rglob("*gpu-check-*")
    assert f"log: {kept}" in ran.stderr


def test_what_is_missing_on_the_node_is_reported_here(slurm: Slurm, tmp_path: Path) -> None:
    site(tmp_path, tmp_path)
    ran = check(slurm, tmp_path)
    assert ran.returncode == 1
    assert "slvmeval models add qwen-image-edit-2509" in ran.stderr


def test_a_job_that_ends_without_an_answer_shows_its_log(slurm: Slurm, tmp_path: Path) -> None:
    profile = site(tmp_path, tmp_path)
    text = profile.read_text().replace('setup = ["', 'setup = ["echo broken node >&2; exit 4", "')
    profile.write_text(text)
    ran = check(slurm, tmp_path)
    assert ran.returncode == 1
    assert re.search(r"ended as failed on g\d without an answer: look at pools\.h100\.python", ran.stderr)
    assert "broken node" in ran.stderr
