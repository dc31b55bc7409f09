"""A scorer as a judge: the video with the greater score is better; equal scores are a tie."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from storage_schemas.judgements import Failure, Preferred
from tasks.llm.usage import NotJudged, Usage, total_usage
from tasks.pairs.view import Pair, Side
from tasks.scoring.base import AspectText, PointwiseScorer, Score
from tasks.scoring.request import PairFacts

#: Maximum number of cached scores; the high-quality video of a source serves all its pairs.
_MAX_KNOWN = 4096


@dataclass(frozen=True)
class ScoreComparison:
    """Fields of a judgement from two scores, its details, the model, and the cost of the new scores."""

    fields: dict[str, Any]
    details: dict[str, Any]
    model: str
    usages: tuple[Usage, ...]


class ScoreCache:
    """Scores of videos, each computed once for all pairs that share the video; thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Future[Score | NotJudged]] = OrderedDict()
        self._lock = threading.Lock()

    def compare(
        self, scorer: PointwiseScorer, facts: PairFacts, pair: Pair, text: AspectText
    ) -> ScoreComparison:
        """Return the comparison of both videos' scores.

        Raises
        ------
        NotJudged
            If one of them has no score.
        """
        scores: dict[str, Score] = {}
        usages: list[Usage] = []
        details: dict[str, Any] = {}
        for side, video, checksum in (
            ("high", pair.high, facts.high_checksum),
            ("low", pair.low, facts.low_checksum),
        ):
            score, is_new = self._score(scorer, video, checksum, facts, pair.prompt, text)
            details[side] = dict(score.details)
            if isinstance(score, NotJudged):
                # a failure names no model, so tokens are listed by model
                usages = [usage.by_model(scores["high"].model) for usage in usages]
                usages += [score.usage] if is_new else []
                raise NotJudged(
                    score.failure,
                    score.message,
                    raw=score.raw,
                    finish_reason=score.finish_reason,
                    usage=total_usage(usages),
                    details=details,
                )
            scores[side] = score
            # the pair for which a known score was computed has paid for it
            usages += [score.usage] if is_new else []
        high, low = scores["high"], scores["low"]
        preferred: Preferred = "tie"
        if high.value != low.value:
            preferred = "high" if high.value > low.value else "low"
        fields = {
            "preferred": preferred,
            "score_high": float(high.value),
            "score_low": float(low.value),
            "model": high.model,
        }
        return ScoreComparison(fields, details, high.model, tuple(usages))

    def _score(
        self,
        scorer: PointwiseScorer,
        video: Side,
        checksum: str,
        facts: PairFacts,
        prompt: str,
        text: AspectText,
    ) -> tuple[Score | NotJudged, bool]:
        """Return a video's score, or why it has none, and whether it was computed now."""
        aspect = text.name if scorer.by_aspect else ""
        key = (id(scorer), checksum, facts.fps, facts.prompt_digest, aspect)
        with self._lock:
            future = self._known.get(key)
            if future is None:
                created = self._known[key] = Future()
                while len(self._known) > _MAX_KNOWN:
                    self._known.popitem(last=False)
        if future is not None:
            return future.result(), False
        score: Score | NotJudged
        try:
            score = scorer.score(prompt, video, text)
            if not isinstance(score, Score) or not isinstance(score.value, int | float):
                raise TypeError(f"it gave {score!r:.200}, which is not a Score with a number")
            if math.isnan(score.value):
                score = NotJudged(
                    Failure.NO_ANSWER,
                    "its score is not a number (NaN)",
                    usage=score.usage.by_model(score.model),
                    details=score.details,
                )
        except NotJudged as problem:
            score = problem
        except BaseException as problem:
            # a later attempt may succeed
            with self._lock:
                self._known.pop(key, None)
            created.set_exception(problem)
            raise
        created.set_result(score)
        return score, True
