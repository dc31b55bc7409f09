"""Simulate a first build of many sources on many workers: how busy they are, and the number of tasks.

The build's own code forms the items and queues them (``Build``, ``flows.stages``, ``flows.batches``). Only
the workers and their clock are simulated. ``python -m bench.large_cluster`` prints a line of JSON.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from flows.release.options import BuildOptions
from flows.release.run import Build
from flows.release.stage_seconds import BASE_S, FRAME_S, UNIT_S
from flows.stages import Timed
from infra.executor import Executor, Handle, WorkerLimits
from infra.pool import seconds_of
from infra.progress import BuildProgress
from storage_schemas.pair import PlannedPair, SourceReport
from storage_schemas.source import Clip, Source
from storage_schemas.store import Store
from tasks.pairs.stages import StageResult, degrade_stage, ingest_stage, inspect_stage, verify_stage
from tasks.recipe import BUILT_IN

#: Lengths in seconds are log-normal, with 95 of 100 drawn between these, and none beyond.
MIN_S, MAX_S = 600.0, 10_800.0
#: Spread of the speeds of sources, beyond the estimate's knowledge: codecs, pictures, nodes (log-normal).
SPREAD = 0.1
#: Pairs per source, and new frames per pair.
PAIRS, FRAMES = 3, 50

_STAGE_OF: dict[Callable[..., StageResult], str] = {
    inspect_stage: "inspect",
    ingest_stage: "ingest",
    degrade_stage: "degrade",
    verify_stage: "verify",
}


class SimulatedWorkers(Executor):
    """Workers of one pool, on a simulated clock."""

    def __init__(self, limits: WorkerLimits, seconds: Callable[[str, str], float]) -> None:
        self.workers, self._limits, self._seconds = limits.workers, limits, seconds
        self.now, self.tasks, self.longest_s = 0.0, 0, 0.0
        #: Times at which items begin and end, with the number of items running from then on.
        self.running: list[tuple[float, int]] = [(0.0, 0)]
        self._ends: list[tuple[float, int, Handle]] = []

    def limits(self, pool: str) -> WorkerLimits:
        """Return the limits."""
        return self._limits

    def room(self, pool: str, wanted: int) -> int:
        """Return the number of workers, all of which are running."""
        return self.workers

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start an item."""
        functions, _, calls, _ = arguments
        outcomes = [
            Timed(
                StageResult(source.id, stage, _report(source) if stage == "inspect" else None),
                self._seconds(stage, source.id),
            )
            for source, _ in calls
            for stage in (_STAGE_OF[getattr(function, "func", function)] for function in functions)
        ]
        handle: Future[Any] = Future()
        handle.set_result(outcomes)
        takes_s = sum(timed.seconds for timed in outcomes)
        self.tasks, self.longest_s = self.tasks + 1, max(self.longest_s, takes_s)
        heapq.heappush(self._ends, (self.now + takes_s, self.tasks, handle))
        self.running.append((self.now, len(self._ends)))
        return handle

    def wait_any(self, handles: Iterable[Handle], timeout_s: float | None = None) -> set[Handle]:
        """Advance the clock to the end of the next item."""
        self.now, _, handle = heapq.heappop(self._ends)
        self.running.append((self.now, len(self._ends)))
        return {handle}

    def result(self, handle: Handle) -> Any:
        """Return the outcomes of an item."""
        return handle.result()


@dataclass
class Simulated:
    """Results of a simulated build.

    Parameters
    ----------
    tasks
        Number of tasks.
    longest_item_s
        Seconds of the longest item.
    hours
        Hours from the first item to the last one's end.
    ideal_hours
        The same if all workers were always busy.
    least_busy
        Smallest share of busy workers at any time while pairs were built, until nine tenths of that work
        were done.
    busy
        Mean share of busy workers until nine tenths of all work were done, including inspection.
    """

    tasks: int
    longest_item_s: float
    hours: float
    ideal_hours: float
    least_busy: float
    busy: float


@dataclass
class Site:
    """A simulated site: its workers, and how much slower it is than the program's estimate."""

    workers: int = 1600
    longest_item: str = "00:45:00"
    slower: float = 1.0
    sources: int = 10_000
    seed: int = 1
    lengths: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draw = random.Random(self.seed)
        middle = (math.log(MIN_S) + math.log(MAX_S)) / 2
        spread = (math.log(MAX_S) - math.log(MIN_S)) / (2 * 1.96)
        for number in range(self.sources):
            length_s = math.exp(draw.gauss(middle, spread))
            self.lengths[f"s{number}"] = min(max(length_s, MIN_S), MAX_S)
        self._speed = {id_: self.slower * math.exp(draw.gauss(0.0, SPREAD)) for id_ in self.lengths}

    def seconds(self, stage: str, source_id: str) -> float:
        """Return how long a stage takes."""
        frames_s = PAIRS * FRAMES * FRAME_S["cpu"]
        work_s = frames_s if stage == "degrade" else self.lengths[source_id] * UNIT_S[stage]
        return BASE_S + work_s * self._speed[source_id]


def _source(id_: str, length_s: float) -> Source:
    whole = Clip(index=0, start_s=0.0, end_s=length_s, caption="")
    return Source(id=id_, adapter="none", title=id_, video="", content_sha256="", clips=(whole,))


def _report(source: Source, aspects: Iterable[str] = ()) -> SourceReport:
    length_s = source.clips[0].end_s
    pairs = tuple(
        PlannedPair(
            pair_id=f"{source.id}-{aspect}",
            aspect=aspect,
            operation="none",
            strength="main",
            clips=5,
            main=True,
            new_frames=FRAMES,
            hardware="cpu",
            done=False,
        )
        for aspect in aspects
    )
    return SourceReport(
        source_id=source.id,
        title=source.title,
        duration_s=length_s,
        frames=round(length_s),
        width=64,
        height=36,
        exact=False,
        has_frames=False,
        spans=(),
        frames_checksum="",
        pairs=pairs,
        no_pair=(),
    )


def simulate(site: Site) -> Simulated:
    """Inspect all sources of a site, then build three pairs of each."""
    recipe = BUILT_IN["cpu-approx"]
    aspects = tuple(recipe.aspects)[:PAIRS]
    workers = SimulatedWorkers(WorkerLimits(site.workers, seconds_of(site.longest_item)), site.seconds)
    with tempfile.TemporaryDirectory() as folder, BuildProgress(quiet=True) as progress:
        store = Store.create(Path(folder) / "store")
        build = Build(
            BuildOptions(store=str(store.root), sources=(), recipe=recipe, store_wait_s=0), progress
        )
        build.store = store
        build.state.sources = {id_: _source(id_, length_s) for id_, length_s in site.lengths.items()}
        inspections = build._inspections(build.state.sources.values())
        build._through(workers, inspections, turns=1, decode_threads=1)
        began = workers.now
        build.state.reports = {id_: _report(source, aspects) for id_, source in build.state.sources.items()}
        build._make(workers, dict.fromkeys(site.lengths, aspects))
    making = [entry for entry in workers.running if entry[0] >= began]
    work_s = _until(workers.running, 1.0, site.workers)[1]
    return Simulated(
        tasks=workers.tasks,
        longest_item_s=round(workers.longest_s, 1),
        hours=round(workers.now / 3600, 3),
        ideal_hours=round(work_s / site.workers / 3600, 3),
        least_busy=round(_until(making, 0.9, site.workers)[0], 4),
        busy=round(_until(workers.running, 0.9, site.workers)[2], 4),
    )


def _until(running: list[tuple[float, int]], share: float, workers: int) -> tuple[float, float, float]:
    """Return the minimum share of busy workers, the work, and the mean share until that part is done."""
    spans = [(end - begin, number) for (begin, number), (end, _) in pairwise(running) if end > begin]
    whole = sum(length * number for length, number in spans)
    done, passed, least = 0.0, 0.0, workers
    for length, number in spans:
        if done >= share * whole:
            break
        done, passed, least = done + length * number, passed + length, min(least, number)
    return least / workers, done, done / (passed * workers)


def main() -> None:
    """Print the result of one simulation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sources", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=1600)
    parser.add_argument("--longest-item", default="00:45:00", help="the pool's longest_item")
    parser.add_argument(
        "--slower", type=float, default=1.0, help="how much slower than estimated the site is"
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    site = Site(given.workers, given.longest_item, given.slower, given.sources, given.seed)
    print(json.dumps(simulate(site).__dict__))


if __name__ == "__main__":
    main()
