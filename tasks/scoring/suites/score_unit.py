"""One unit: put to its scorer, and made rows, whatever happens."""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from storage_schemas.errors import PrerequisiteError, SetAside, StoreError, UserInputError
from storage_schemas.ids import canonical_json
from storage_schemas.judgements import Failure, whole_characters
from storage_schemas.provenance import utc_now
from storage_schemas.suite_score import SuiteScore
from tasks.llm.usage import Estimate, NotJudged, Prices
from tasks.scoring.ask import usage_fields
from tasks.scoring.suites.base import Dimension, ScoredVideo, Scorer, SuiteVideo, not_readable
from tasks.scoring.suites.file_video import OpenVideos
from tasks.scoring.suites.plan import ScoringUnit

log = logging.getLogger(__name__)

#: How far outside its scale a computed score may lie: rounding of floating point.
_SLACK = 1e-6


def score_unit(
    suite: str, scorer: Scorer, unit: ScoringUnit, videos: OpenVideos, prices: Prices
) -> list[SuiteScore]:
    """Return a row for each video of a unit.

    Raises
    ------
    PrerequisiteError, UserInputError
        If no unit of this scorer can be scored.
    """
    if unreadable := next((video.unreadable for video in unit.videos if video.unreadable), ""):
        return failed_rows(suite, unit, Failure.VIDEO_UNREADABLE, unreadable)
    began = time.perf_counter()
    try:
        found = list(scorer.score(unit.prompt, opened(unit, videos), unit.repeat))
        seconds = (time.perf_counter() - began) / len(unit.videos)
        if len(found) != len(unit.videos):
            message = f"the scorer gave {len(found)} scores for {len(unit.videos)} videos"
            return failed_rows(suite, unit, Failure.INTERNAL_ERROR, message)
        return [
            _row(suite, unit, place, {"seconds": seconds, **_fields(scorer, unit, one, prices, videos)})
            for place, one in enumerate(found)
        ]
    except (PrerequisiteError, UserInputError):
        raise
    except NotJudged as problem:
        # what it took is the first video's
        first = _row(suite, unit, 0, _fields(scorer, unit, problem, prices, videos))
        rest = failed_rows(suite, unit, problem.failure, problem.message)[1:]
        return [first, *rest]
    except (SetAside, StoreError, OSError) as problem:
        why = not_readable(problem)
        return failed_rows(suite, unit, why.failure, why.message)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a row, so that no other unit is harmed
        log.error("%s of %s failed:\n%s", unit.dimension, unit.videos[0].name, traceback.format_exc())
        return failed_rows(suite, unit, Failure.INTERNAL_ERROR, f"{type(problem).__name__}: {problem}")


def failed_rows(suite: str, unit: ScoringUnit, failure: Failure, message: str) -> list[SuiteScore]:
    """Return rows that say why the videos of a unit have no score."""
    fields = {"failure": failure, "message": whole_characters(message), "cost_usd": 0.0}
    return [_row(suite, unit, place, fields) for place in range(len(unit.videos))]


def copied(row: SuiteScore, suite: str, unit: ScoringUnit, place: int) -> SuiteScore:
    """Return the row of a video that is the same as another's; nothing was paid for it."""
    details = canonical_json({"scored_for": f"{row.model}/{row.prompt_id}#{row.sample}"})
    fields = {"score": row.score, "failure": row.failure, "message": row.message, "details": details}
    return _row(suite, unit, place, {**fields, "cost_usd": 0.0})


def opened(unit: ScoringUnit, videos: OpenVideos) -> list[SuiteVideo]:
    """Return the videos of a unit as scorers get them; nothing is read yet."""
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
    except Exception as problem:  # noqa: BLE001 - what is wrong with the unit is said when it is scored
        log.info("%s cannot reckon with %s: %s", unit.dimension, unit.videos[0].name, problem)
        return ()


def _fields(
    scorer: Scorer, unit: ScoringUnit, found: ScoredVideo | NotJudged, prices: Prices, videos: OpenVideos
) -> dict[str, Any]:
    if isinstance(found, NotJudged):
        paid = found.usage.tokens_in or found.usage.tokens_out
        said = estimates_of(scorer, unit, videos) if paid else ()
        # whose price counts, the estimate says
        cost = usage_fields(prices, said[-1].model if said else "", found.usage)
        return {
            "failure": found.failure,
            "message": whole_characters(found.message),
            **_cost(cost),
            "calls": int(bool(paid)) if found.calls is None else found.calls,
            "details": _details({**found.details, **({"raw": found.raw} if found.raw else {})}),
        }
    if not isinstance(found, ScoredVideo):
        raise TypeError(f"it gave {found!r:.200}, which is no Scored")
    fields = {
        **_cost(usage_fields(prices, found.model, found.usage)),
        "calls": found.calls,
        "details": _details({**found.details, **({"model": found.model} if found.model else {})}),
    }
    if wrong := outside(scorer.dimension, found.value):
        return {**fields, "failure": Failure.NOT_UNDERSTOOD, "message": wrong}
    return {**fields, "score": float(found.value)}


def _details(values: Mapping[str, Any]) -> str:
    # a model's words may hold halves of characters, which no file can
    return whole_characters(canonical_json(values))


def _cost(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in ("tokens_in", "tokens_out", "cost_usd")}


def outside(dimension: Dimension, value: float) -> str:
    """Return what is wrong with a score; empty where it lies in the dimension's scale."""
    if math.isfinite(value) and dimension.low - _SLACK <= value <= dimension.high + _SLACK:
        return ""
    return f"a score of {value} is outside the scale from {dimension.low:g} to {dimension.high:g}"


def _row(suite: str, unit: ScoringUnit, place: int, fields: dict[str, Any]) -> SuiteScore:
    video = unit.videos[place]
    return SuiteScore(
        key=unit.keys[place],
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
