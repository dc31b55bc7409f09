"""Kinds of work for the contract of paid requests: judgements and scores of videos."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage_schemas.errors import PrerequisiteError
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.extras.locot2v.dimensions import BY_NAME
from tasks.llm.limits import Limits
from tasks.llm.usage import Estimate, NotJudged, Price, Prices, Usage
from tasks.pairs.view import Pair
from tasks.scoring.base import AspectText, JudgeAnswer, PairwiseJudge
from tasks.scoring.engine import Form, Kind, Outcome, Task, Work, answer_stage
from tasks.scoring.judging import Judging, JudgingWork
from tasks.scoring.registry import EvaluatorChoice
from tasks.scoring.request import PairFacts, Request
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo, Scorer, SuitePrompt, SuiteVideo
from tasks.scoring.suites.file_video import FrameRate
from tasks.scoring.suites.manifest import VideoEntry
from tasks.scoring.suites.plan import ScoringUnit
from tasks.scoring.suites.scoring import SuiteChoice, SuiteWork, VideoScoring
from tests.tasks.scoring.sides import FrameList, flat

#: Of every unit of every kind.
TOKENS = 100
#: A dollar a unit.
PRICES = Prices(models={"toy": Price(input_per_million=10_000, output_per_million=0)})
NAME = "dynamic_degree"


@dataclass
class Script:
    """What answers a unit by its number; `asked` are the numbers that were asked."""

    plan: Callable[[int], Failure | str | None] = lambda number: None
    threads: int = 1
    once: str = ""
    asked: list[int] = field(default_factory=list)
    most_at_once: int = 0
    form: Any = None
    _under_way: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, number: int) -> Usage:
        """Note that a unit is asked; raise what is planned."""
        with self._lock:
            self.asked.append(number)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            if self.threads > 1:
                threading.Event().wait(0.02)
            planned = self.plan(number)
        finally:
            with self._lock:
                self._under_way -= 1
        usage = Usage(tokens_in=TOKENS)
        if planned == "uncounted":
            return Usage(uncounted=1, estimated_in=TOKENS)
        if planned == "raises":
            raise ZeroDivisionError("planted")
        if planned == "lacks":
            raise PrerequisiteError("weights are missing")
        if planned is not None:
            raise NotJudged(Failure(planned), f"planned {planned}", usage=Usage())
        return usage

    def estimates(self, number: int) -> list[Estimate]:
        once = f"{self.once}{number}" if self.once == "own" else self.once
        return [Estimate(tokens_in=TOKENS, model="toy", once=once)]


class Scripted:
    """What a judge and a scorer have in common."""

    script = Script()

    @property
    def concurrency(self) -> int:
        return self.script.threads

    def settings(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        """Nothing is needed."""


class Harness(ABC):
    """One kind of work."""

    @abstractmethod
    def work(self, folder: Path, script: Script, run: str = "run", **fields: Any) -> Any:
        """Return the work of a run."""

    @abstractmethod
    def units(self, count: int) -> list[Any]:
        """Return units, numbered from 0."""

    def answer(self, work: Any, units: Sequence[Any], id_: str = "run-0") -> Outcome:
        """Answer units as one task."""
        return answer_stage(work, Task(id_, "title", NAME, tuple(units)))

    def known(self, work: Any) -> dict[str, str]:
        """Return what is known of each key: the failure, empty where there is an answer."""
        return {id_[0]: failure for id_, failure in work.rows().failures().items()}


class ScriptedKind(Kind[Any]):
    """A kind whose script may say how its units are handed over."""

    script: Script

    @property
    def form(self) -> Form[Any]:
        return self.script.form(self) if self.script.form else super().form


# -- judgements ----------------------------------------------------------------------------------------


class ScriptedJudge(Scripted, PairwiseJudge):
    name = NAME

    def __init__(self, script: Script) -> None:
        self.script = script

    def estimate(self, prompt: str, first: Any, second: Any, aspect: AspectText) -> list[Estimate]:
        return self.script.estimates(int(prompt))

    def compare(self, prompt: str, first: Any, second: Any, aspect: AspectText) -> JudgeAnswer:
        return JudgeAnswer("first", model="toy", usage=self.script.ask(int(prompt)))


@dataclass(frozen=True)
class NumberedPairs:
    name: str = "numbered"
    title: str = "numbered"

    def facts(self) -> Sequence[PairFacts]:
        return []

    def open(self, pair_id: str) -> Pair:
        side = FrameList([flat(100)])
        return Pair(pair_id, "a", pair_id, side, side, (), (), None, {})

    def text(self, aspect: str, dimension: str, folder: str | None) -> AspectText:
        return AspectText(name=aspect, dimension=dimension, description="-")

    def check(self, wanted: Iterable[PairFacts]) -> None:
        """All are there."""


class ScriptedJudging(ScriptedKind, Judging):
    """Judgements by a script."""


@dataclass(frozen=True)
class ScriptedJudgingWork(JudgingWork):
    script: Script = field(default_factory=Script)

    def kind(self, name: str) -> Judging:
        kind = ScriptedJudging(ScriptedJudge(self.script), name, EvaluatorChoice(use="coin"), self)
        kind.script = self.script
        return kind


class Judgements(Harness):
    def work(self, folder: Path, script: Script, run: str = "run", **fields: Any) -> Work[Any]:
        setup = Setup(store_path=str(folder))
        given = {"prices": PRICES, "setup": setup, "pairs": NumberedPairs(), "script": script, **fields}
        return ScriptedJudgingWork(run, str(folder), **given)

    def units(self, count: int) -> list[Request]:
        facts = [PairFacts(str(n), f"v{n // 2}", "a", "a", "d", "h", "l", 1.0) for n in range(count)]
        return [Request(f"key{n}", pair, "high_first") for n, pair in enumerate(facts)]


# -- scores of videos ----------------------------------------------------------------------------------


class ScriptedScorer(Scripted, Scorer):
    def __init__(self, script: Script) -> None:
        super().__init__(BY_NAME[NAME])
        self.script = script

    def estimate(self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0) -> list[Estimate]:
        return self.script.estimates(int(prompt.text))

    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> list[ScoredVideo | NotJudged]:
        return [ScoredVideo(self.dimension.low, model="toy", usage=self.script.ask(int(prompt.text)))]


class ScriptedScoring(ScriptedKind, VideoScoring):
    """Scores by a script."""


@dataclass(frozen=True)
class ScriptedSuiteWork(SuiteWork):
    script: Script = field(default_factory=Script)

    def kind(self, name: str) -> VideoScoring:
        kind = ScriptedScoring(ScriptedScorer(self.script), self)
        kind.script = self.script
        return kind


class SuiteScores(Harness):
    def work(self, folder: Path, script: Script, run: str = "run", **fields: Any) -> Work[Any]:
        choice = SuiteChoice(store_path=str(folder), suite="planted")
        given = {"prices": PRICES, "choice": choice, "sampling": FrameRate(), "script": script, **fields}
        return ScriptedSuiteWork(run, str(folder), **given)

    def units(self, count: int) -> list[ScoringUnit]:
        return [
            ScoringUnit(
                dimension=NAME,
                settings="s",
                prompt=SuitePrompt(prompt_id=f"p{n // 2}", text=str(n)),
                videos=(VideoEntry(model="m", prompt_id=f"p{n // 2}", sample=n, path="-", digest="d"),),
                keys=(f"key{n}",),
            )
            for n in range(count)
        ]


HARNESSES: dict[str, Harness] = {"judgement": Judgements(), "score": SuiteScores()}


def new_store(folder: Path) -> Path:
    """Make an empty store."""
    Store.create(folder / "store")
    return folder / "store"


def limits(**fields: float) -> Limits:
    """Return limits."""
    return Limits.model_validate(fields)
