"""Evaluators and suites in jobs of the worker pools: each judge and dimension in its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

from flows.build.options import BuildOptions, SourceRoot
from storage_schemas.store import Store
from tasks.recipe import Recipe
from tasks.scoring.suites.score_store import ScoresStore
from tests.flows.prefect_servers import PrefectServer
from tests.flows.small_builds import AddFilm, only
from tests.inline import build_inline
from tests.planted_evaluators import PlantedPackage
from tests.slurm.building import ROOT, run_slvmeval, write_profile
from tests.slurm.conftest import Slurm
from tests.tasks.scoring.judges.short_films import short_film


def test_judges_run_in_the_pools_that_they_ask_for(
    slurm: Slurm,
    server: PrefectServer,
    planted: PlantedPackage,
    add_film: AddFilm,
    small_recipe: Recipe,
    tmp_path: Path,
) -> None:
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    sources = (SourceRoot(path=str(tmp_path / "videos")),)
    options = BuildOptions(store=str(tmp_path / "store"), sources=sources, recipe=small_recipe)
    build_inline(only(options, "aesthetics", "comprehensiveness"))
    write_profile(tmp_path, server.api)
    words = ["evaluate", "-e", "planted?pool=h100&label=loaded", "-e", "planted?mood=first", "--json"]
    ran = run_slvmeval(slurm, tmp_path, *words, PYTHONPATH=f"{planted.folder}{os.pathsep}{ROOT}")
    assert ran.returncode == 0, ran.stderr[-3000:]
    output = json.loads(ran.stdout)["evaluators"]
    assert (output["loaded"]["asked"], output["first"]["asked"]) == (8, 8)
    assert {line.split()[1] for line in planted.lines("right")} == {"h100"}
    assert {line.split()[1] for line in planted.lines("first")} == {"cpu"}
    slurm.wait(lambda: not slurm.squeue())


def test_dimensions_run_in_the_pools_that_they_ask_for(
    slurm: Slurm, server: PrefectServer, planted_suite: Path, ffmpeg: str, tmp_path: Path
) -> None:
    videos, prompts = tmp_path / "videos", tmp_path / "prompts.jsonl"
    short_film(ffmpeg, videos / "anna.mp4", 1.0, 0)
    short_film(ffmpeg, videos / "bert.mp4", 2.0, 90)
    (videos / "manifest.csv").write_text("model,prompt_id,file\nanna,p1,anna.mp4\nbert,p1,bert.mp4\n")
    prompts.write_text(json.dumps({"prompt_id": "p1", "text": "A ball.", "details": {"weight": 1}}))
    write_profile(tmp_path, server.api)
    words = ["suite", "planted", "--videos", str(videos), "--prompt-suite", str(prompts), "--json"]
    words += ["--dimension", "length", "--dimension", "heavy"]
    path = f"{planted_suite}{os.pathsep}{ROOT}"
    ran = run_slvmeval(slurm, tmp_path, *words, PYTHONPATH=path, WEIGHTS="there")
    assert ran.returncode == 0, ran.stderr[-3000:]
    output = {one["dimension"]: one["scored"] for one in json.loads(ran.stdout)["dimensions"]}
    assert output == {"length": 2, "heavy": 2}
    rows = ScoresStore(Store.open(tmp_path / "store")).rows("planted")
    where = {(row.dimension, row.model): json.loads(row.details)["pool"] for row in rows}
    pools = {"length": "cpu", "heavy": "h100"}
    assert where == {(name, model): pool for name, pool in pools.items() for model in ("anna", "bert")}
    slurm.wait(lambda: not slurm.squeue())
