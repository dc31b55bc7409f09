"""GPU time of operations: a table of measured, published or estimated seconds per frame."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from storage_schemas.model import Frozen
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
    only: dict[str, str] = Field(default_factory=dict)
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


@dataclass(frozen=True)
class GpuWork:
    """New frames of one aspect to be made on a GPU."""

    aspect: str
    operation: str
    parameters: Parameters
    frames: int


def gpu_hours(work: Iterable[GpuWork], device: str = "h100") -> dict[str, Any]:
    """Return the GPU hours of some work, JSON-serialisable.

    Returns
    -------
    dict
        `hours` (the middle of the range), `least`, `most` and `kind` of the known part (None if nothing is
        known), the same per aspect in `by_aspect`, and in `not_known` the frames of each operation missing
        from the table. Work without a GPU takes 0 hours.
    """
    by_aspect: dict[str, list[_Hours]] = {}
    not_known: dict[str, int] = {}
    for part in work:
        parts = by_aspect.setdefault(part.aspect, [])
        row = speeds().get((part.operation, device))
        if row is None or not row.holds(part.parameters):
            not_known[part.operation] = not_known.get(part.operation, 0) + part.frames
        else:
            least, most = (seconds * part.frames / 3600 for seconds in row.seconds(part.parameters))
            parts.append(_Hours(least, most, row.kind))
    known = [hours for parts in by_aspect.values() for hours in parts]
    total = _sum(known) if known or not not_known else _sum(None)
    return {
        **total,
        "by_aspect": {aspect: _sum(parts or None) for aspect, parts in by_aspect.items()},
        "not_known": not_known,
    }


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
