"""The timeline of a source: which frames it has, when, and with which checksums.

It is a small artifact that stays when the frames themselves are evicted, so that what a pair consists
of is known without pixels.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage_schemas.frames import ColorSpec
from storage_schemas.model import Frozen
from storage_schemas.parquet import read_table
from storage_schemas.store import TIMELINE, Store

TIMELINE_FILE = "timeline.parquet"
TIMELINE_SCHEMA = pa.schema([("pts_s", pa.float64()), ("digest", pa.uint64())])


class Timeline(Frozen):
    """The frames of a source at the recipe's `fps` and `long_side`.

    `pts_s` are the times of the images in seconds, `digests` the frames' checksums; both are empty
    tuples of numbers in a prediction made before ingest (`exact` is False then).
    """

    width: int
    height: int
    color: ColorSpec
    duration_s: float
    pts_s: tuple[float, ...]
    digests: tuple[int, ...] = ()
    exact: bool = True

    @property
    def count(self) -> int:
        """Number of frames."""
        return len(self.pts_s)

    def span(self, start_s: float, end_s: float) -> tuple[int, int]:
        """Return first frame and number of frames whose image has `start_s` ≤ t < `end_s`."""
        times: NDArray[np.float64] = np.asarray(self.pts_s)
        first, end = (int(place) for place in np.searchsorted(times, (start_s, end_s), side="left"))
        return first, max(end - first, 0)


def write_timeline_file(path: Path, pts_s: list[float], digests: list[int]) -> None:
    """Write the frame table of a timeline."""
    pq.write_table(pa.table({"pts_s": pts_s, "digest": digests}, schema=TIMELINE_SCHEMA), path)


def read_timeline(store: Store, id_: str) -> Timeline:
    """Return a stored timeline.

    Raises
    ------
    StoreError
        If it is not there.
    """
    content = store.manifest(TIMELINE, id_).content
    table = read_table(store.artifact_path(TIMELINE, id_) / TIMELINE_FILE)
    return Timeline(
        width=content["width"],
        height=content["height"],
        color=ColorSpec(**content["color"]),
        duration_s=content["duration_s"],
        pts_s=tuple(table.column("pts_s").to_pylist()),
        digests=tuple(table.column("digest").to_pylist()),
    )
