"""A suite in jobs of the worker pools: each dimension in its own, as the flow `suite-slvmeval`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from storage_schemas.store import Store
from tasks.scoring.suites.score_store import ScoresStore
from tests.flows.prefect_servers import prefect_home
from tests.slurm.building import PROFILE, ROOT
from tests.slurm.conftest import Slurm
from tests.tasks.scoring.judges.short_films import short_film


def test_dimensions_run_in_the_pools_that_they_ask_for(
    slurm: Slurm, planted_suite: Path, ffmpeg: str, tmp_path: Path
) -> None:
    videos, prompts = tmp_path / "videos", tmp_path / "prompts.jsonl"
    short_film(ffmpeg, videos / "anna.mp4", 1.0, 0)
    short_film(ffmpeg, videos / "bert.mp4", 2.0, 90)
    (videos / "manifest.csv").write_text("model,prompt_id,file\nanna,p1,anna.mp4\nbert,p1,bert.mp4\n")
    prompts.write_text(json.dumps({"prompt_id": "p1", "text": "A ball.", "details": {"weight": 1}}))
    profile = tmp_path / "site.toml"
    given = {"store": tmp_path / "store", "api": "", "python": sys.executable}
    profile.write_text(PROFILE.format(**given, cpu="", site="", h100_memory="1GiB", h100_jobs=1, idle_s=60))
    words = [
        "suite",
        "run",
        "planted",
        "--videos",
        str(videos),
        "--prompt-suite",
        str(prompts),
        "--format",
        "json",
    ]
    words += ["--dimension", "length", "--dimension", "heavy", "--profile", str(profile)]
    environment = slurm.environment | {
        "PYTHONPATH": f"{planted_suite}{os.pathsep}{ROOT}",
        "PYTHONSAFEPATH": "1",
        "PREFECT_HOME": prefect_home(tmp_path),
        "WEIGHTS": "there",
    }
    environment.pop("PREFECT_API_URL", None)
    ran = subprocess.run(
        [sys.executable, "-m", "slvmeval", *words],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    output = {one["dimension"]: one["scored"] for one in json.loads(ran.stdout)["dimensions"]}
    assert output == {"length": 2, "heavy": 2}
    rows = ScoresStore(Store.open(tmp_path / "store")).rows("planted")
    where = {(row.dimension, row.model): json.loads(row.details)["pool"] for row in rows}
    assert where == {
        ("length", "anna"): "cpu",
        ("length", "bert"): "cpu",
        ("heavy", "anna"): "h100",
        ("heavy", "bert"): "h100",
    }
    slurm.wait(lambda: not slurm.squeue())
