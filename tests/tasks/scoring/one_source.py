"""A source that is judged in several aspects, by a judge at the stand-in server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from storage_schemas.judgements import Judgement, JudgementsStore
from storage_schemas.model import ModelServer, ProviderName
from storage_schemas.store import Store
from tasks.llm.usage import Estimate, Prices
from tasks.pairs.view import Pair
from tasks.scoring.base import AspectText
from tasks.scoring.engine import Outcome, Task, answer_stage
from tasks.scoring.instructions import aspect_text
from tasks.scoring.judging import Judging, JudgingWork
from tasks.scoring.registry import choice_from_text
from tasks.scoring.request import PairFacts, Request, make_requests, shared_beginnings
from tasks.scoring.setup import Setup
from tests.tasks.scoring.sides import FrameList, noise

ASPECTS = (
    "aesthetics", "technical_quality", "appearance_style", "background_consistency", "object_integrity",
    "color", "dynamics_degree", "comprehensiveness", "spatial_relationship", "temporal_flow",
)  # fmt: skip
PROMPT = "A man in a blue coat walks behind a red ball that rolls across the meadow. " * 40


@dataclass(frozen=True)
class OneSource:
    """Pairs of one source, one in each aspect.

    The aspects share the low video if `same`, as in your own pairs; else each has one, as in a release, in
    which a fifth of the frames is damaged, from a share of them on.
    """

    aspects: Sequence[str] = ASPECTS
    frames: int = 20
    width: int = 512
    height: int = 288
    same: bool = False
    damaged_from: float = 0.0
    name: str = "one"
    title: str = "one source"

    def facts(self) -> list[PairFacts]:
        size = 2 * self.frames
        return [
            PairFacts(name, "source", name, name, "prompt", "high", self._low(name), 1.0, frames=size)
            for name in self.aspects
        ]

    def _low(self, aspect: str) -> str:
        return "low" if self.same else f"low-{aspect}"

    def open(self, pair_id: str) -> Pair:
        number = 1 + (0 if self.same else self.aspects.index(pair_id))
        high = [noise(place, self.width, self.height) for place in range(self.frames)]
        begin = round(self.damaged_from * self.frames)
        damaged = range(begin, begin + self.frames // 5)
        low = [
            noise(1000 * number + place, self.width, self.height) if place in damaged else frame
            for place, frame in enumerate(high)
        ]
        sides = (FrameList(frames, self.width, self.height) for frames in (high, low))
        return _pair(pair_id, *sides)

    def text(self, aspect: str, dimension: str, prompts: str) -> AspectText:
        return aspect_text(aspect, dimension or aspect, prompts)

    def check(self, wanted: Iterable[PairFacts]) -> None:
        """All of them are there."""


def _pair(pair_id: str, high: FrameList, low: FrameList) -> Pair:
    return Pair(pair_id, pair_id, PROMPT, high, low, (), (), None, {})


def judged(
    folder: Path,
    url: str,
    judge: str,
    pairs: OneSource,
    provider: ProviderName = "openai",
    prices: Prices | None = None,
    repeats: int = 1,
) -> tuple[list[Judgement], Judging]:
    """Let a judge of the server ``s`` judge pairs, and return its rows in the order of their requests."""
    store = Store.create(folder) if not folder.exists() else Store.open(folder)
    setup = Setup(
        store_path=str(store.root),
        model_servers={"s": ModelServer(url=url, provider=provider, concurrency=4)},
    )
    choice = choice_from_text(judge)
    work = JudgingWork(
        "run",
        str(store.root),
        prices or Prices(),
        setup=setup,
        pairs=pairs,
        evaluators={"judge": choice},
        beginnings=shared_beginnings(pairs.facts(), repeats),
    )
    kind = work.kind("judge")
    units = units_of(kind, pairs, repeats)
    outcome: Outcome = answer_stage(work, Task[Request]("run-0", "all", "judge", tuple(units)))
    assert outcome.made == len(units), outcome
    return list(JudgementsStore(store).rows(["judge"])), kind


def units_of(kind: Judging, pairs: OneSource, repeats: int = 1) -> list[Request]:
    """Return the requests on pairs in the order in which they are made."""
    units = [
        unit
        for pair in pairs.facts()
        for unit in make_requests(kind.evaluator, pair, pairs.text(pair.aspect, "", ""), repeats)
    ]
    return list(kind.in_order(units))


def estimated(kind: Judging, pairs: OneSource) -> list[Estimate]:
    """Return a dry run's estimates of a run that has not begun."""
    fresh = kind.work.kind("judge")
    return [one for unit in units_of(fresh, pairs) for one in fresh.estimates(unit)]
