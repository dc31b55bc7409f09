"""How long work takes on the workers of a site."""

from __future__ import annotations

from pathlib import Path

from flows.release.time_estimate import TimeEstimate, estimated_time
from infra.pool import Pool
from infra.profile import Profile

HOUR = 3600.0


def pool(**fields: int) -> Pool:
    return Pool(partition="p", cores=8, memory="8GiB", walltime="08:00:00", **fields)


def test_workers_of_one_machine_share_all_work_but_a_source_runs_through_its_stages() -> None:
    site = Profile(store="store", workers=4)
    left = {name: {"cpu": HOUR} for name in "abcdefgh"}
    assert estimated_time(left, site.work_placement, site) == TimeEstimate(8.0, 2 * HOUR, {"cpu": 4})
    left = {"a": {"cpu": 3 * HOUR}, "b": {"cpu": HOUR}}
    assert estimated_time(left, site.work_placement, site) == TimeEstimate(4.0, 3 * HOUR, {"cpu": 4})
    with_inspection = estimated_time(left, site.work_placement, site, inspection_s=12 * HOUR)
    assert with_inspection == TimeEstimate(16.0, 4 * HOUR, {"cpu": 4})


def test_without_work_it_takes_no_time() -> None:
    site = Profile(store="store", workers=4)
    assert estimated_time({}, site.work_placement, site, 0.0, 5.0).wall_s == 0


def test_pools_work_side_by_side_and_known_gpu_hours_count_first(tmp_path: Path) -> None:
    pools = {"cpu": pool(maximum=2), "h100": pool(gpus=4, maximum=1)}
    site = Profile(store=str(tmp_path), pools=pools)
    left = {f"s{k}": {"cpu": HOUR, "h100": HOUR} for k in range(32)}
    guessed = estimated_time(left, site.work_placement, site)
    assert guessed == TimeEstimate(32.0, 8 * HOUR, {"cpu": 16, "h100": 4})
    known = estimated_time(left, site.work_placement, site, gpu_hours=64.0)
    assert known == TimeEstimate(32.0, 16 * HOUR, {"cpu": 16, "h100": 4})
