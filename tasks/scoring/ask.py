"""One request: put to the evaluator, and made a row, whatever happens."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from storage_schemas.errors import PrerequisiteError, StoreError, UserInputError
from storage_schemas.ids import canonical_json, digest_value
from storage_schemas.judgements import Failure, Judgement, preferred
from storage_schemas.provenance import utc_now
from tasks.llm.usage import Estimate, NotJudged, Prices, Usage
from tasks.pairs.view import Pair
from tasks.scoring.base import AspectText, Comparison, Evaluator, PairwiseJudge, PointwiseScorer
from tasks.scoring.request import Request, settings_digest
from tasks.scoring.scorer_as_judge import ScoreCache

log = logging.getLogger(__name__)

#: What a judge may answer.
CHOICES = ("first", "second", "tie")


class CannotGoOn(Exception):
    """The evaluator lacks something that every request needs."""


@dataclass
class Asker:
    """Puts requests to one evaluator.

    Parameters
    ----------
    evaluator, label
        Who is asked, and what tables call it.
    prices
        The price list.
    scores
        Scores of videos that are known already.
    changed_texts
        By aspect, checksums of the texts in place of ours: an evaluator that is told something else is
        another one, and has settings of its own there.
    """

    evaluator: Evaluator
    label: str
    prices: Prices
    scores: ScoreCache
    changed_texts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._settings = settings_digest(self.evaluator)
        texts = dict(self.changed_texts)
        self._changed = digest_value({"settings": self._settings, "texts": texts})[:16]

    def settings_of(self, aspect: str) -> str:
        """Return the checksum of the settings that rows on an aspect have."""
        return self._changed if aspect in self.changed_texts else self._settings

    def ask(self, request: Request, pair: Pair, text: AspectText) -> Judgement:
        """Return the row of a request.

        Raises
        ------
        CannotGoOn
            If no request of this evaluator can be answered.
        """
        began = time.perf_counter()
        try:
            fields = self._fields(request, pair, text)
            # what an evaluator gave may be of a wrong type: that too is its own failure
            return self.row(request, {"seconds": time.perf_counter() - began, **fields})
        except (PrerequisiteError, UserInputError) as problem:
            raise CannotGoOn(str(problem)) from problem
        except StoreError as problem:
            fields = {"failure": Failure.VIDEO_UNREADABLE, "message": str(problem)}
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a row, so that no other request is harmed
            log.error("%s on pair %s failed:\n%s", self.label, request.pair.pair_id, traceback.format_exc())
            fields = {"failure": Failure.INTERNAL_ERROR, "message": _in_words(problem)}
        return self.row(request, {"seconds": time.perf_counter() - began, "cost_usd": 0.0, **fields})

    def _fields(self, request: Request, pair: Pair, text: AspectText) -> dict[str, Any]:
        """Return what is known of an answer, or why the evaluator gives none."""
        try:
            return self._answer(request, pair, text)
        except NotJudged as problem:
            return {
                "failure": problem.failure,
                "message": problem.message,
                "raw": problem.raw,
                "finish_reason": problem.finish_reason,
                **self._failed_usage(request, pair, text, problem.usage),
            }

    def row(self, request: Request, fields: Mapping[str, Any]) -> Judgement:
        """Return a row of a request with what is known of its answer."""
        pair = request.pair
        return Judgement(
            key=request.key,
            evaluator=self.label,
            settings=self.settings_of(pair.aspect),
            pair_id=pair.pair_id,
            source_id=pair.source_id,
            aspect=pair.aspect,
            order=request.order,
            repeat=request.repeat,
            at=utc_now(),
            **fields,
        )

    def _failed_usage(self, request: Request, pair: Pair, text: AspectText, usage: Usage) -> dict[str, Any]:
        """Return what a request took that has no answer; whose price counts, the estimate says."""
        said = self.estimates(request, pair, text) if usage.tokens_in or usage.tokens_out else ()
        model = said[-1].model if said else ""
        return {"model": model, **usage_fields(self.prices, model, usage)}

    def _answer(self, request: Request, pair: Pair, text: AspectText) -> dict[str, Any]:
        if isinstance(self.evaluator, PointwiseScorer):
            found = self.scores.compare(self.evaluator, request.pair, pair, text)
            return {**found.fields, **usage_fields(self.prices, found.model, *found.usages)}
        if not isinstance(self.evaluator, PairwiseJudge):
            raise TypeError(f"{type(self.evaluator).__name__} is neither a judge nor a scorer")
        first, second = (pair.high, pair.low) if request.order == "high_first" else (pair.low, pair.high)
        answer = self.evaluator.compare(pair.prompt, first, second, text)
        if not isinstance(answer, Comparison) or answer.choice not in CHOICES:
            raise TypeError(f"it answered {answer!r:.200}, which is no Comparison with first, second or tie")
        return {
            "choice": answer.choice,
            "preferred": preferred(answer.choice, request.order),
            "raw": answer.raw,
            "reasoning": answer.reasoning,
            "finish_reason": answer.finish_reason,
            "model": answer.model,
            "prompt_digest": answer.prompt_digest,
            **usage_fields(self.prices, answer.model, answer.usage),
            "details": canonical_json(dict(answer.details)),
        }

    def estimates(self, request: Request, pair: Pair, text: AspectText) -> Sequence[Estimate]:
        """Return what a request will take by the evaluator's own word; empty where it says nothing."""
        first, second = (pair.low, pair.high) if request.order == "low_first" else (pair.high, pair.low)
        try:
            found = self.evaluator.estimate(pair.prompt, first, second, text)
        except Exception as problem:  # noqa: BLE001 - what is wrong with the request is said when it is made
            log.info("%s cannot reckon with pair %s: %s", self.label, request.pair.pair_id, problem)
            return ()
        return [found] if isinstance(found, Estimate) else found or ()


def _in_words(problem: BaseException) -> str:
    if isinstance(problem, ValidationError):
        first = problem.errors(include_url=False)[0]
        return f"it gave {'.'.join(map(str, first['loc']))} = {first['input']!r:.100}: {first['msg']}"
    return f"{type(problem).__name__}: {problem}"


def usage_fields(prices: Prices, model: str, *usages: Usage) -> dict[str, Any]:
    """Return the fields of a judgement that say what it took, all models and videos together."""
    parts = [(model, usage.tokens_in, usage.tokens_out) for usage in usages]
    parts += [(one.model, one.tokens_in, one.tokens_out) for usage in usages for one in usage.others]
    costs = [prices.cost(*part) for part in parts]
    return {
        "frames": sum(usage.frames for usage in usages),
        "tokens_in": sum(part[1] for part in parts),
        "tokens_out": sum(part[2] for part in parts),
        "tries": max((usage.tries for usage in usages), default=1),
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
    }
