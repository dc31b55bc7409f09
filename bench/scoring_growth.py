"""Requests per second of two baselines over many tiny pairs: at the beginning, and after 4,000 requests.

Run it at the root of a checkout::

    python -m bench.scoring_growth [SOURCES]

The engine's own work dominates here: a pair is two frames in memory, and a baseline does almost nothing. A
rate that decreases with the number of requests reveals quadratic work.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flows.score.evaluate_run import Evaluation
from flows.score.options import EvaluateOptions
from flows.score.results import RequestProgress
from infra.executor import Handle, InlineExecutor
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.store import Store
from tasks.pairs.view import Pair, Side
from tasks.scoring.base import AspectText
from tasks.scoring.registry import choice_from_text
from tasks.scoring.request import PairFacts

#: Pairs per source.
PAIRS = 5
#: Number of requests over which a rate is measured.
SPAN = 400


class Grey(Side):
    """A grey video in memory."""

    width, height, color, fps = 16, 16, ColorSpec(), 1.0

    def __init__(self, frames: int) -> None:
        self._frames = frames

    def __len__(self) -> int:
        return self._frames

    def planes(self, indices: Sequence[int]) -> Planes:
        return np.full((len(indices), self.height * 3 // 2, self.width), 128, np.uint8)


@dataclass(frozen=True)
class TinyPairs:
    """Pairs of `sources` sources."""

    sources: int
    name: str = "tiny"
    title: str = "tiny pairs"

    def facts(self) -> Sequence[PairFacts]:
        return [
            PairFacts(f"p{n}-{m}", f"v{n:05}", "aesthetics", "a", "d", f"h{n}", f"l{n}-{m}", 1.0, frames=4)
            for n in range(self.sources)
            for m in range(PAIRS)
        ]

    def open(self, pair_id: str) -> Pair:
        return Pair(pair_id, "aesthetics", "A prompt.", Grey(2), Grey(2), (), (), None, {})

    def text(self, aspect: str, dimension: str, folder: str | None) -> AspectText:
        return AspectText(name=aspect, dimension=dimension, description="How good it looks.")

    def check(self, wanted: Iterable[PairFacts]) -> None:
        """Accept all."""


class Watched(InlineExecutor):
    """Records the times at which requests are made."""

    def __init__(self) -> None:
        self.made = [(time.perf_counter(), 0)]

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        handle = super().submit(name, pool, function, *arguments)
        count = sum(outcome.made for outcome in handle.result())
        self.made.append((time.perf_counter(), self.made[-1][1] + count))
        if self.made[-1][1] // SPAN > self.made[-2][1] // SPAN:
            done = self.made[-1][1] // SPAN * SPAN
            print(f"at {done}: {self.rate(done - SPAN):.1f} a second", flush=True)
        return handle

    def rate(self, begin: int) -> float:
        """Return requests per second over a span that starts after `begin` requests."""
        span = [one for one in self.made if begin <= one[1] <= begin + SPAN]
        return (span[-1][1] - span[0][1]) / (span[-1][0] - span[0][0])


def main(sources: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "store")
        options = EvaluateOptions(
            store=str(store.root), evaluators=(choice_from_text("coin"), choice_from_text("duration"))
        ).model_copy(update={"pairs_from": TinyPairs(sources)})
        watched = Watched()
        began = time.perf_counter()
        with RequestProgress(quiet=True) as progress:
            evaluation = Evaluation(options, progress)
            evaluation.prepare()
            evaluation.run(lambda _pools: watched)
        seconds = time.perf_counter() - began
    total = watched.made[-1][1]
    print(f"{total} requests in {seconds:.1f} s, {total / seconds:.1f} a second")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 800)
