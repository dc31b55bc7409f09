"""A suite in jobs of the worker pools: each dimension in its own, as the flow `suite-slvmeval`."""

from __future__ import annotations

import json
from pathlib import Path

from storage_schemas.store import Store
from tasks.scoring.suites.score_store import ScoresStore
from tests.slurm.building import profile_text, slvmeval
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
    (tmp_path / "site.toml").write_text(profile_text(tmp_path / "store"))
    command = f"suite run planted --videos {videos} --prompt-suite {prompts} --format json"
    words = [*command.split(), "--dimension", "length", "--dimension", "heavy"]
    ran = slvmeval(slurm, tmp_path, *words, path=planted_suite, WEIGHTS="there")
    assert ran.returncode == 0, ran.stderr[-3000:]
    output = {one["dimension"]: one["scored"] for one in json.loads(ran.stdout)["dimensions"]}
    assert output == {"length": 2, "heavy": 2}
    rows = ScoresStore(Store.open(tmp_path / "store")).rows("planted")
    where = {(row.dimension, row.model): json.loads(row.details)["pool"] for row in rows}
    pools = (("length", "cpu"), ("heavy", "h100"))
    assert where == {(name, model): pool for name, pool in pools for model in ("anna", "bert")}
    slurm.wait(lambda: not slurm.squeue())
