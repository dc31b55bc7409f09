"""How long the stages of a source take: an estimate that earlier runs of the same store refine."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from statistics import fmean

from pydantic import TypeAdapter, ValidationError

from storage_schemas.commit import write_atomic
from storage_schemas.errors import IntegrityError
from storage_schemas.json_checksum import read_checked_json, with_checksum
from storage_schemas.pair import SourceReport
from storage_schemas.placement import Hardware
from storage_schemas.source import Source
from storage_schemas.store import Store

log = logging.getLogger(__name__)

#: Seconds of a stage per unit, if no run has measured them. A unit is a second of video; where pairs are
#: degraded a new frame. From docs/results/costs.md and bench/README.md; a GPU's is a guess.
UNIT_S = {"inspect": 0.0015, "ingest": 0.05, "verify": 0.005}
FRAME_S: Mapping[Hardware, float] = {"cpu": 0.1, "gpu": 2.0}
#: Constant part of a stage's time, in seconds.
BASE_S = 1.0
#: Assumed length of a source if no source's length is known: an hour.
UNKNOWN_S = 3600.0
#: Minimum measured time, in seconds, before a speed is used.
MIN_MEASURED_S = 60.0

#: Units and seconds, by recipe and stage.
_MEASURED = TypeAdapter(dict[str, dict[str, tuple[float, float]]])


def lengths(sources: Iterable[Source], reports: Mapping[str, SourceReport]) -> dict[str, float]:
    """Return the lengths of sources in seconds, by id.

    A source that was not inspected is assumed to end with its last clip; one without clips to have the mean
    length of the others.
    """
    seconds = {id_: report.duration_s for id_, report in reports.items()}
    unknown = []
    for source in sources:
        if source.id not in seconds and source.clips:
            seconds[source.id] = max(clip.end_s for clip in source.clips)
        elif source.id not in seconds:
            unknown.append(source.id)
    mean_s = fmean(seconds.values()) if seconds else UNKNOWN_S
    return {**seconds, **dict.fromkeys(unknown, mean_s)}


class StageSeconds:
    """Seconds per unit of each stage, in a file of the store's cache; damage to it only costs precision.

    Parameters
    ----------
    store, recipe
        Each recipe of a store has separate figures.
    on_gpu
        Names of the stages that degrade in a GPU pool.
    """

    def __init__(self, store: Store, recipe: str, on_gpu: Collection[str] = ()) -> None:
        self._file, self._recipe, self._on_gpu = store.cache / "stage-seconds.json", recipe, on_gpu
        self._before = self._read()
        self._now: dict[str, tuple[float, float]] = {}

    def _read(self) -> dict[str, dict[str, tuple[float, float]]]:
        try:
            return _MEASURED.validate_json(read_checked_json(self._file))
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError, IntegrityError) as problem:
            log.warning("cannot read %s, estimating without it: %s", self._file, problem)
            return {}

    def of(self, stage: str, units: float) -> float:
        """Return how long a stage of that number of units takes."""
        return BASE_S + units * self._unit_s(stage)

    def _unit_s(self, stage: str) -> float:
        units, seconds = _sum(self._before.get(self._recipe, {}).get(stage), self._now.get(stage))
        if seconds >= MIN_MEASURED_S and units > 0:
            return seconds / units
        return UNIT_S.get(stage) or FRAME_S["gpu" if stage in self._on_gpu else "cpu"]

    def ran(self, stage: str, units: float, seconds: float) -> None:
        """Record how long a stage took; a stage without units is ignored."""
        if units > 0:
            self._now[stage] = _sum(self._now.get(stage), (units, seconds))

    def keep(self) -> None:
        """Store the measurements for later runs; those of earlier runs count half from now on."""
        if not self._now:
            return
        before = self._read()
        totals = {
            stage: (units / 2, seconds / 2)
            for stage, (units, seconds) in before.get(self._recipe, {}).items()
        }
        totals |= {stage: _sum(totals.get(stage), new) for stage, new in self._now.items()}
        self._now = {}
        try:
            write_atomic(self._file, with_checksum(_MEASURED.dump_json({**before, self._recipe: totals})))
        except OSError as problem:
            log.warning("cannot store the durations of stages in %s: %s", self._file, problem)


def _sum(*parts: tuple[float, float] | None) -> tuple[float, float]:
    measured = [part for part in parts if part is not None]
    return sum(units for units, _ in measured), sum(seconds for _, seconds in measured)
