"""A scorer as a judge: the video with the greater score is better, equal scores are a tie."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from storage_schemas.ids import canonical_json
from storage_schemas.judgements import Failure, Preferred
from tasks.llm.usage import NotJudged, Usage
from tasks.pairs.view import Pair, Side
from tasks.scoring.base import AspectText, PointwiseScorer, Score
from tasks.scoring.request import PairFacts

#: Maximum number of cached scores; all pairs of a source share its high-quality video.
_MOST = 4096


@dataclass(frozen=True)
class ScoreComparison:
    """Fields of a judgement that follow from two scores, the model, and the new usage."""

    fields: dict[str, Any]
    model: str
    usages: tuple[Usage, ...]


class ScoreCache:
    """Scores of videos, each computed once for all pairs that share the video; threads may share it."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Future[Score]] = OrderedDict()
        self._lock = threading.Lock()

    def compare(
        self, scorer: PointwiseScorer, facts: PairFacts, pair: Pair, text: AspectText
    ) -> ScoreComparison:
        """Return the comparison of the scores of both videos.

        Raises
        ------
        NotJudged
            If one of them has no score.
        """
        high, high_is_new = self._score(scorer, pair.high, facts.high_checksum, facts, pair.prompt, text)
        low, low_is_new = self._score(scorer, pair.low, facts.low_checksum, facts, pair.prompt, text)
        preferred: Preferred = "tie"
        if high.value != low.value:
            preferred = "high" if high.value > low.value else "low"
        made = [score for score, new in ((high, high_is_new), (low, low_is_new)) if new]
        fields = {
            "preferred": preferred,
            "score_high": float(high.value),
            "score_low": float(low.value),
            "model": high.model,
            "details": canonical_json({"high": dict(high.details), "low": dict(low.details)}),
        }
        # a cached score was paid for with another pair
        return ScoreComparison(fields, high.model, tuple(score.usage for score in made))

    def _score(
        self,
        scorer: PointwiseScorer,
        video: Side,
        checksum: str,
        facts: PairFacts,
        prompt: str,
        text: AspectText,
    ) -> tuple[Score, bool]:
        """Return a video's score, and whether it is new."""
        aspect = text.name if scorer.by_aspect else ""
        key = (id(scorer), checksum, facts.fps, facts.prompt_digest, aspect)
        with self._lock:
            known = self._known.get(key)
            if known is None:
                mine = self._known[key] = Future()
                while len(self._known) > _MOST:
                    self._known.popitem(last=False)
        if known is not None:
            return known.result(), False
        try:
            score = scorer.score(prompt, video, text)
            if not isinstance(score, Score) or not isinstance(score.value, int | float):
                raise TypeError(f"it gave {score!r:.200}, which is not a Score with a number")
            if math.isnan(score.value):
                raise NotJudged(Failure.NO_ANSWER, "its score is no number (NaN)")
        except BaseException as problem:
            if not isinstance(problem, NotJudged):
                # the next attempt may succeed
                with self._lock:
                    self._known.pop(key, None)
            mine.set_exception(problem)
            raise
        mine.set_result(score)
        return score, True
