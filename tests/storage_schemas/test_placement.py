"""Work runs in the pool that it is placed in, else in the first one with the hardware it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.pool import Pool
from infra.profile import Profile, load_profile
from storage_schemas.errors import UserInputError
from storage_schemas.placement import Placement
from tasks.pairs.stages import stages_for

JOB = {"partition": "p", "cores": 4, "memory": "1GiB", "walltime": "01:00:00"}
GPU = {**JOB, "gpus": 1}


def site(placed: dict[str, str] | None = None, **pools: dict[str, object]) -> Profile:
    return Profile.model_validate({"pools": pools, "placement": placed or {}})


def test_the_first_pool_with_the_hardware_has_the_work_unless_it_is_placed() -> None:
    where = site({"color": "a100"}, v100=GPU, big=JOB, a100=GPU, cpu=JOB).work_placement
    assert [where.pool("cpu"), where.pool("gpu"), where.pool("gpu", "color")] == ["big", "v100", "a100"]
    assert where.pool("cpu", "color") == "a100"
    assert (where.runs_on("cpu", "color"), where.runs_on("gpu", "other")) == ("gpu", "gpu")
    assert Placement.model_validate_json(where.model_dump_json()).pool("gpu") == "v100"
    stages = stages_for(where, {"a100", "v100", "big"})
    assert [(stage.name, stage.pool) for stage in stages] == [
        ("ingest", "big"),
        ("degrade", "big"),
        ("degrade-v100", "v100"),
        ("degrade-a100", "a100"),
        ("verify", "big"),
    ]


def test_on_one_machine_each_hardware_is_a_pool() -> None:
    here = site({"color": "a100", "scene": "cpu"}, cpu=JOB, a100=GPU).work_placement.here()
    assert here == Placement(placed={"color": "gpu", "scene": "cpu"})
    assert (here.pool("gpu"), here.pool("gpu", "scene")) == ("gpu", "cpu")


def test_the_kind_of_gpu_is_named_like_the_pool_unless_it_is_given() -> None:
    pools = site(cpu=JOB, a100=GPU, big={**GPU, "gres": "gpu:h100"}).pools
    assert [pool.gres for pool in pools.values() if pool.gpus] == ["gpu:a100", "gpu:h100"]
    again = Profile.model_validate(site(cpu=JOB, a100=GPU).model_dump())
    assert again.pools["a100"].gres == "gpu:a100"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('[placement]\ncolor = "a10"', "placement of color: no pool 'a10'; did you mean a100"),
        ('[pools."a b"]', "a pool's name must have at most 64"),
    ],
)
def test_what_a_profile_may_not_say(lines: str, message: str, tmp_path: Path) -> None:
    table = '{}\npartition = "p"\ncores = 1\nmemory = "1GiB"\nwalltime = "01:00:00"\n'
    text = table.format("[pools.cpu]") + table.format("[pools.a100]") + "gpus = 1\n"
    text += table.format(lines) if lines.startswith("[pools") else lines
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(UserInputError, match=message):
        load_profile(tmp_path / "site.toml", environment={})


def test_work_without_a_pool_and_pools_that_cannot_be() -> None:
    with pytest.raises(UserInputError, match="color needs a pool with GPUs"):
        site(cpu=JOB).work_placement.pool("gpu", "color")
    with pytest.raises(ValueError, match="a cluster needs a pool without GPUs"):
        site(h100=GPU)
    with pytest.raises(ValueError, match="set gpus to the number"):
        Pool.model_validate(JOB | {"gres": "gpu:h100"})
