"""Dask's settings in every cluster of ours, on one machine and on many."""

from __future__ import annotations

from typing import Any

import dask.config

# importing it sets Dask's defaults
import distributed  # noqa: F401


def dask_settings() -> dict[str, Any]:
    """Return settings for ``dask.config.set`` around the start of a scheduler or a worker."""
    # Dask has its workers give memory back to the system at every turn, which triples the time of work on
    # arrays as small as a frame.
    before_start = dict(dask.config.get("distributed.nanny.pre-spawn-environ"))
    before_start.pop("MALLOC_TRIM_THRESHOLD_", None)
    return {
        "distributed.nanny.pre-spawn-environ": before_start,
        "distributed.worker.profile.enabled": False,  # a hundred looks a second at every stack
        "distributed.scheduler.allowed-failures": 0,  # the driver tries again, and counts
    }
