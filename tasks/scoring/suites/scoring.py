"""Scores of videos as a kind of work: every unit becomes rows, also a failed one."""

from __future__ import annotations

import json
import logging
import math
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from storage_schemas.errors import PrerequisiteError, SetAside, StoreError, UserInputError
from storage_schemas.ids import canonical_json
from storage_schemas.judgements import Failure, whole_characters
from storage_schemas.provenance import utc_now
from storage_schemas.store import Store
from storage_schemas.suite_score import SuiteScore
from tasks.llm.printed_prompts import prompts_label
from tasks.llm.usage import Estimate, NotJudged, Usage, estimated_cost, usage_fields
from tasks.scoring.base import not_readable
from tasks.scoring.engine import CannotContinue, Kind, Row, Work
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, ScoredVideo, Scorer, Suite, SuiteVideo
from tasks.scoring.suites.file_video import FrameRate, OpenVideos
from tasks.scoring.suites.plan import ScoringUnit
from tasks.scoring.suites.registry import make_suite
from tasks.scoring.suites.score_store import ScoresStore

log = logging.getLogger(__name__)

#: How far outside its scale a computed score may lie: rounding of floating point.
_SLACK = 1e-6


class SuiteChoice(Setup):
    """A suite with its settings, and what a site provides.

    Parameters
    ----------
    suite
        Its name in the table of suites.
    settings_json
        Its settings, as JSON.
    variant
        Under which name its scores stand apart; empty for none.
    """

    suite: str
    settings_json: str = "{}"
    variant: str = ""

    def make(self) -> Suite:
        """Return this process's suite; all tasks share what it loads."""
        return _suite(self.model_dump_json())


@cache
def _suite(choice: str) -> Suite:
    made = SuiteChoice.model_validate_json(choice)
    fields = made.model_dump(exclude={"suite", "settings_json", "variant"})
    return make_suite(made.suite, Setup.model_validate(fields), json.loads(made.settings_json))


@cache
def _scorer(choice: str, dimension: str) -> Scorer:
    return _suite(choice).scorer(dimension)


@cache
def _scores(store_path: str) -> ScoresStore:
    return ScoresStore(Store(Path(store_path)))


@dataclass(frozen=True)
class SuiteWork(Work[ScoringUnit]):
    """Context of all tasks of a suite's run.

    Parameters
    ----------
    choice
        The suite.
    sampling
        Sampling of its videos.
    concurrency
        Number of concurrent scores in one process; the scorer's own by default.
    """

    counts_folder: ClassVar[str] = "suites"

    choice: SuiteChoice = field(kw_only=True)
    sampling: FrameRate = field(kw_only=True)
    concurrency: int | None = None

    @property
    def name(self) -> str:
        """The suite's name in rows; scores of variants and of blurred videos have names of their own."""
        variant = f"+{self.choice.variant}" if self.choice.variant else ""
        return f"{self.choice.suite}{variant}{self.sampling.suffix}"

    def rows(self) -> ScoresStore:
        """Return this process's scores."""
        return _scores(self.store_path)

    def kind(self, name: str) -> VideoScoring:
        """Return the scoring in one dimension; all tasks of this process share what it loads."""
        return VideoScoring(_scorer(self.choice.model_dump_json(), name), self)


class VideoScoring(Kind[ScoringUnit]):
    """The scores of one dimension."""

    #: A prompt may have many videos and repeats; a single task would occupy only one process.
    splits_shared = True

    def __init__(self, scorer: Scorer, work: SuiteWork) -> None:
        self.scorer, self.suite, self.prices = scorer, work.name, work.prices
        self.name, self.hardware = scorer.dimension.name, scorer.hardware
        self.placement_name = f"{work.name}:{self.name}"
        self.concurrency = work.concurrency or scorer.concurrency
        self.videos = OpenVideos(work.sampling)
        own = json.loads(work.choice.settings_json).get("prompts") or work.choice.prompts
        self._prompts = prompts_label(own, scorer.prompt_areas)

    def estimates(self, unit: ScoringUnit) -> Sequence[Estimate]:
        """Return what a unit will take by the scorer's own word; empty where it says nothing."""
        return estimates_of(self.scorer, unit, self.videos)

    def answer(self, unit: ScoringUnit) -> list[SuiteScore]:
        """Return a row for each video of a unit.

        Raises
        ------
        CannotContinue
            If no unit of this scorer can be scored.
        """
        if unreadable := next((video.unreadable for video in unit.videos if video.unreadable), ""):
            return self.failed(unit, Failure.VIDEO_UNREADABLE, unreadable)
        began = time.perf_counter()
        try:
            scores = list(self.scorer.score(unit.prompt, opened(unit, self.videos), unit.repeat))
            seconds = (time.perf_counter() - began) / len(unit.videos)
            if len(scores) != len(unit.videos):
                message = f"the scorer gave {len(scores)} scores for {len(unit.videos)} videos"
                return self.failed(unit, Failure.INTERNAL_ERROR, message)
            return [
                self._row(unit, index, {"seconds": seconds, **self._fields(unit, one)})
                for index, one in enumerate(scores)
            ]
        except (PrerequisiteError, UserInputError) as problem:
            raise CannotContinue(str(problem)) from problem
        except NotJudged as problem:
            # the cost is assigned to the first video
            first = self._row(unit, 0, self._fields(unit, problem))
            return [first, *self.failed(unit, problem.failure, problem.message)[1:]]
        except (SetAside, StoreError, OSError) as problem:
            why = not_readable(problem)
            return self.failed(unit, why.failure, why.message)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a row, so that the other units continue
            log.error("%s of %s failed:\n%s", unit.dimension, unit.videos[0].name, traceback.format_exc())
            return self.failed(unit, Failure.INTERNAL_ERROR, f"{type(problem).__name__}: {problem}")

    def failed(self, unit: ScoringUnit, failure: Failure, message: str) -> list[SuiteScore]:
        """Return the failure rows of a unit's videos."""
        return failed_rows(self.suite, unit, failure, message)

    def copied(self, row: Row, unit: ScoringUnit, index: int) -> SuiteScore:
        """Return the row of a video that equals another video's."""
        assert isinstance(row, SuiteScore)
        details = canonical_json({"scored_for": f"{row.model}/{row.prompt_id}#{row.sample}"})
        fields = {"score": row.score, "failure": row.failure, "message": row.message, "details": details}
        return self._row(unit, index, {**fields, "cost_usd": 0.0})

    def _row(self, unit: ScoringUnit, index: int, fields: dict[str, Any]) -> SuiteScore:
        return _row(self.suite, unit, index, {**fields, "prompts": self._prompts})

    def _fields(self, unit: ScoringUnit, score: ScoredVideo | NotJudged) -> dict[str, Any]:
        if isinstance(score, NotJudged):
            paid = score.usage.paid
            estimates = self.estimates(unit) if paid else ()
            # the estimate names the model whose price counts
            details = {**score.details, **({"raw": score.raw} if score.raw else {})}
            cost = self._cost(estimates[-1].model if estimates else "", score.usage, details)
            return {
                "failure": score.failure,
                "message": whole_characters(score.message),
                **cost,
                "calls": int(paid) if score.calls is None else score.calls,
            }
        if not isinstance(score, ScoredVideo):
            raise TypeError(f"it gave {score!r:.200}, which is not a ScoredVideo")
        named = {**score.details, **({"model": score.model} if score.model else {})}
        fields = {**self._cost(score.model, score.usage, named), "calls": score.calls}
        if wrong := outside(self.scorer.dimension, score.value):
            return {**fields, "failure": Failure.NOT_UNDERSTOOD, "message": wrong}
        return {**fields, "score": float(score.value)}

    def _cost(self, model: str, usage: Usage, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row's cost, and its details with the estimate of what is unknown."""
        fields = usage_fields(self.prices, model, usage)
        cost = {name: fields[name] for name in ("tokens_in", "tokens_out", "cost_usd")}
        return {**cost, "details": _details({**details, **estimated_cost(self.prices, model, usage)})}


def failed_rows(suite: str, unit: ScoringUnit, failure: Failure, message: str) -> list[SuiteScore]:
    """Return the failure rows of a unit's videos."""
    fields = {"failure": failure, "message": whole_characters(message), "cost_usd": 0.0}
    return [_row(suite, unit, index, fields) for index in range(len(unit.videos))]


def opened(unit: ScoringUnit, videos: OpenVideos) -> list[SuiteVideo]:
    """Return the videos of a unit for its scorer; nothing is read yet."""
    return [
        SuiteVideo(
            model=video.model,
            prompt_id=video.prompt_id,
            sample=video.sample,
            digest=f"{video.digest}{videos.suffix}",
            video=videos.open(video.path),
        )
        for video in unit.videos
    ]


def estimates_of(scorer: Scorer, unit: ScoringUnit, videos: OpenVideos) -> Sequence[Estimate]:
    """Return what a unit will take by the scorer's own word; empty where it says nothing."""
    if any(video.unreadable for video in unit.videos):
        return ()
    try:
        return scorer.estimate(unit.prompt, opened(unit, videos), unit.repeat)
    except Exception as problem:  # noqa: BLE001 - scoring the unit reports what is wrong
        log.info("%s cannot estimate %s: %s", unit.dimension, unit.videos[0].name, problem)
        return ()


def _details(values: Mapping[str, Any]) -> str:
    # a model's text may contain lone surrogates, which cannot be stored
    return whole_characters(canonical_json(values))


def outside(dimension: Dimension, value: float) -> str:
    """Return what is wrong with a score; empty if it lies in the dimension's scale."""
    if math.isfinite(value) and dimension.low - _SLACK <= value <= dimension.high + _SLACK:
        return ""
    return f"a score of {value} is outside the scale from {dimension.low:g} to {dimension.high:g}"


def _row(suite: str, unit: ScoringUnit, index: int, fields: dict[str, Any]) -> SuiteScore:
    video = unit.videos[index]
    return SuiteScore(
        key=unit.keys[index],
        suite=suite,
        settings=unit.settings,
        dimension=unit.dimension,
        model=video.model,
        prompt_id=video.prompt_id,
        sample=video.sample,
        video=video.digest,
        repeat=unit.repeat,
        at=utc_now(),
        **fields,
    )
