"""Evaluators in jobs of the worker pools: each in its own, as the flow `evaluate-slvmeval`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from flows.release.options import BuildOptions
from tests.flows.small_builds import only
from tests.inline import build_inline
from tests.planted_evaluators import PlantedPackage
from tests.slurm.building import profile_text, slvmeval
from tests.slurm.conftest import Slurm


def test_judges_run_in_the_pools_that_they_ask_for(
    slurm: Slurm,
    planted: PlantedPackage,
    add_film: Callable[[Path, int], Path],
    options: BuildOptions,
    tmp_path: Path,
) -> None:
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    build_inline(only(options, "aesthetics", "comprehensiveness"))
    text = profile_text(tmp_path / "store")
    # a third pool, of the other nodes: what is placed there needs no GPU
    text = text.replace("[placement]", '[placement]\nfirst = "large-memory"')
    third = text.partition("[pools.cpu]")[2].partition("[pools.h100]")[0]
    text += "[pools.large-memory]" + third.replace('partition = "cpu"', 'partition = "h100"')
    (tmp_path / "site.toml").write_text(text)
    words = ["evaluate", "-e", "planted?hardware=gpu&label=loaded", "-e", "planted?mood=first"]
    words += ["-e", "planted?mood=second", "--format", "json"]
    ran = slvmeval(slurm, tmp_path, *words, path=planted.folder)
    assert ran.returncode == 0, ran.stderr[-3000:]
    output = json.loads(ran.stdout)["evaluators"]
    assert {name: one["asked"] for name, one in output.items()} == {"loaded": 8, "first": 8, "second": 8}
    partitions = {
        mood: {line.split()[1] for line in planted.lines(mood)} for mood in ("right", "first", "second")
    }
    assert partitions == {"right": {"h100"}, "first": {"h100"}, "second": {"cpu"}}
    slurm.wait(lambda: not slurm.squeue())
