"""GPU time of operations, in seconds per frame: measured on this site, else from a table.

``slvmeval doctor --gpu`` writes its measurements to the folder `FOLDER` of the store, one file per check.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from storage_schemas.commit import write_atomic
from storage_schemas.errors import IntegrityError
from storage_schemas.model import Frozen
from storage_schemas.value_problems import first_error
from tasks.aspects.base import Parameters

SpeedKind = Literal["measured", "published", "estimate"]

#: In order of decreasing reliability: a sum is as reliable as its least reliable part.
SPEED_KINDS: tuple[SpeedKind, ...] = ("measured", "published", "estimate")


class Speed(Frozen):
    """A row of ``speeds.toml``, which documents the fields."""

    operation: str
    device: str
    least_s: float = Field(gt=0)
    most_s: float = Field(gt=0)
    steps: int | None = Field(default=None, ge=1)
    step_cache_share: float = Field(default=1.0, gt=0, le=1)
    only: dict[str, str | bool | int | float] = Field(default_factory=dict)
    long_side: int = Field(default=512, ge=1)
    kind: SpeedKind
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _in_order(self) -> Speed:
        if self.least_s > self.most_s:
            raise ValueError("least_s is above most_s")
        return self

    def holds(self, parameters: Parameters) -> bool:
        """Return whether the row applies to these parameters; nothing is known about other models."""
        values = parameters.model_dump()
        return all(values.get(name) == value for name, value in self.only.items())

    def seconds(self, parameters: Parameters) -> tuple[float, float]:
        """Return the minimum and maximum seconds per frame for an operation's parameters."""
        values: dict[str, Any] = parameters.model_dump()
        share = values.get("steps", self.steps) / self.steps if self.steps else 1.0
        if values.get("step_cache"):
            share *= self.step_cache_share
        return self.least_s * share, self.most_s * share


@cache
def speeds() -> dict[tuple[str, str], Speed]:
    """Return the table, by operation and device."""
    path = Path(__file__).with_suffix(".toml")
    rows = [Speed.model_validate(row) for row in tomllib.loads(path.read_text(encoding="utf-8"))["speed"]]
    return {(row.operation, row.device): row for row in rows}


#: Folder of measured speeds in a store.
FOLDER = "speeds"
#: Parameters on which the time of a frame depends, apart from models and steps.
_TIME_FIELDS = ("dtype", "compile", "step_cache", "batch", "detector_batch")


def time_fields(parameters: Parameters, models: Iterable[str]) -> dict[str, str | bool | int | float]:
    """Return the parameters for which a measured speed holds: models, and whatever else affects the time."""
    values, names = parameters.model_dump(), set(models)
    return {
        field: value
        for field, value in values.items()
        if field in _TIME_FIELDS or (isinstance(value, str) and value in names)
    }


def write_speeds(store: Path, name: str, rows: Sequence[Speed]) -> Path:
    """Write the speeds measured by one check to a separate file; return its path.

    Parameters
    ----------
    store
        Folder of the store.
    name
        The file's name without its ending. Names sort by time: of rows for the same work the last one counts.
    rows
        What was measured.
    """
    path = store / FOLDER / f"{name}.json"
    write_atomic(path, json.dumps([row.model_dump() for row in rows], indent=1).encode())
    return path


def measured_speeds(store: Path) -> list[Speed]:
    """Return the speeds measured on this site, newest first; none if it was never checked.

    Raises
    ------
    IntegrityError
        If a file is damaged.
    """
    rows: list[Speed] = []
    for path in sorted((store / FOLDER).glob("*.json"), reverse=True):
        try:
            rows += [Speed.model_validate(row) for row in json.loads(path.read_bytes())]
        except ValueError as problem:  # not JSON, or other fields
            reason = first_error(problem) if isinstance(problem, ValidationError) else problem
            raise IntegrityError(
                f"{path} does not hold speeds ({reason}): remove it, and run `slvmeval doctor --gpu` again"
            ) from problem
    return rows


@dataclass(frozen=True)
class GpuWork:
    """New frames of one aspect to be made on a GPU, and their longer side in pixels."""

    aspect: str
    operation: str
    parameters: Parameters
    frames: int
    long_side: int = 512


def gpu_hours(
    work: Iterable[GpuWork], device: str = "h100", measured: Sequence[Speed] = ()
) -> dict[str, Any]:
    """Return the GPU hours of some work, JSON-serialisable.

    Parameters
    ----------
    work
        New frames by aspect.
    device
        Device of the table's rows.
    measured
        Speeds of this site, which count before the table's, in order of precedence.

    Returns
    -------
    dict
        `hours` (the middle of the range), `least`, `most` and `kind` of the known part (None if nothing is
        known), the same per aspect in `by_aspect`, in `sources` the origin of each operation's figure, and in
        `not_known` the frames of each operation without one. Work without a GPU takes 0 hours.
    """
    by_aspect: dict[str, list[_Hours]] = {}
    not_known: dict[str, int] = {}
    sources: dict[str, str] = {}
    for part in work:
        parts = by_aspect.setdefault(part.aspect, [])
        row = _row(part, device, measured)
        if row is None:
            not_known[part.operation] = not_known.get(part.operation, 0) + part.frames
        else:
            least, most = (seconds * part.frames / 3600 for seconds in row.seconds(part.parameters))
            parts.append(_Hours(least, most, row.kind))
            sources[part.operation] = f"{row.kind}: {row.source}"
    hours = [hours for parts in by_aspect.values() for hours in parts]
    total = _sum(hours) if hours or not not_known else _sum(None)
    return {
        **total,
        "by_aspect": {aspect: _sum(parts or None) for aspect, parts in by_aspect.items()},
        "sources": sources,
        "not_known": not_known,
    }


def _row(part: GpuWork, device: str, measured: Sequence[Speed]) -> Speed | None:
    """Return the speed of some work: the first measured one that fits, else the table's."""
    for row in measured:
        if (row.operation, row.long_side) == (part.operation, part.long_side) and row.holds(part.parameters):
            return row
    speed = speeds().get((part.operation, device))
    return speed if speed is not None and speed.holds(part.parameters) else None


@dataclass(frozen=True)
class _Hours:
    least: float
    most: float
    kind: SpeedKind


def _sum(parts: list[_Hours] | None) -> dict[str, Any]:
    if parts is None:
        return {"hours": None, "least": None, "most": None, "kind": None}
    least, most = sum(part.least for part in parts), sum(part.most for part in parts)
    kind = max((part.kind for part in parts), key=SPEED_KINDS.index, default=None)
    return {
        "hours": round((least + most) / 2, 4),
        "least": round(least, 4),
        "most": round(most, 4),
        "kind": kind,
    }
