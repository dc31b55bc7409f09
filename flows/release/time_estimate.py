"""How long a build will take: its stages' seconds, distributed over the site's workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from infra.profile import Profile
from storage_schemas.placement import Placement


@dataclass(frozen=True)
class TimeEstimate:
    """An estimate, not a promise.

    Parameters
    ----------
    cpu_hours
        Hours of work on workers without a GPU.
    wall_s
        Seconds from start to end if all workers are available; waiting for nodes is not included.
    workers
        Workers by pool; on one machine they share one number.
    """

    cpu_hours: float
    wall_s: float
    workers: Mapping[str, int]


def estimated_time(
    left: Mapping[str, Mapping[str, float]],
    placement: Placement,
    site: Profile,
    gpu_hours: float | None = None,
    inspection_s: float = 0.0,
) -> TimeEstimate:
    """Return how long some work takes.

    Parameters
    ----------
    left
        Seconds of work by source and pool.
    gpu_hours
        Hours of all work in GPU pools, used instead of their seconds in `left`; None if unknown.
    inspection_s
        Seconds of non-GPU work for inspecting the sources again.
    """
    seconds = Counter({placement.pool("cpu"): inspection_s} if left else {})
    for pools in left.values():
        seconds.update(pools)
    on_gpu = sum(amount for pool, amount in seconds.items() if placement.known[pool] == "gpu")
    # each of several GPU pools keeps its share
    scale = gpu_hours * 3600 / on_gpu if on_gpu and gpu_hours else 1.0
    factors = {pool: scale if has == "gpu" else 1.0 for pool, has in placement.known.items()}
    scaled = {pool: amount * factors[pool] for pool, amount in seconds.items()}
    if site.pools:
        workers = {pool: site.pools[pool].limits.workers for pool in scaled}
        shared = max((amount / workers[pool] for pool, amount in scaled.items()), default=0.0)
    else:
        workers = {"cpu": site.workers}
        shared = sum(scaled.values()) / site.workers
    # the stages of one source run one after another
    longest = max(
        (sum(amount * factors[pool] for pool, amount in pools.items()) for pools in left.values()),
        default=0.0,
    )
    on_cpu = sum(amount for pool, amount in scaled.items() if placement.known[pool] == "cpu")
    return TimeEstimate(on_cpu / 3600, max(shared, longest), workers)
