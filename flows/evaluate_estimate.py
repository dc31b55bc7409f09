"""What an evaluation would take, before the first request: requests, images, tokens and dollars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flows.evaluate_run import Evaluation, Judge
from storage_schemas.rng import keyed_rank
from tasks.evaluators.ask import Asker
from tasks.evaluators.base import Estimate, Evaluator
from tasks.evaluators.request import Request
from tasks.evaluators.scored import Scores


@dataclass(frozen=True)
class EstimateRow:
    """One evaluator on one aspect; None where it does not say, and no dollars where there is no price.

    `requests` are answers of the evaluator, `calls` what it sends to servers for them: a description made
    first is a call of its own.
    """

    evaluator: str
    aspect: str
    requests: int
    calls: float | None = None
    images: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    usd: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-able, counts as whole numbers."""
        counts = {
            name: None if value is None else round(value)
            for name, value in (
                ("calls", self.calls),
                ("images", self.images),
                ("tokens_in", self.tokens_in),
                ("tokens_out", self.tokens_out),
            )
        }
        usd = None if self.usd is None else round(self.usd, 4)
        return {
            "evaluator": self.evaluator,
            "aspect": self.aspect,
            "requests": self.requests,
            **counts,
            "usd": usd,
        }


def estimate(
    evaluation: Evaluation, sample: int | None = None, step: Callable[[str], None] = lambda _: None
) -> list[EstimateRow]:
    """Return what the missing requests would take, by evaluator and aspect.

    Parameters
    ----------
    evaluation
        It has to be prepared.
    sample
        Reckon with so many pairs of each aspect, and conclude from their frames on the rest; None takes all.
    step
        Told what is being reckoned.
    """
    rows = []
    paid: set[str] = set()
    for judge in evaluation.judges:
        if judge.evaluator is not None:
            asker = _asker(evaluation, judge.evaluator, judge.label)
            known = evaluation.judgements.rows([judge.label])
            mine = [row for row in known if row.settings == asker.settings_of(row.aspect)]
            judge.basis = judge.evaluator.learn(mine)
        by_aspect: dict[str, list[Request]] = defaultdict(list)
        for request in evaluation.missing(judge) if judge.evaluator is not None else ():
            by_aspect[request.pair.aspect].append(request)
        for aspect, requests in sorted(by_aspect.items()):
            step(f"{judge.label}, {aspect}")
            rows.append(_row(evaluation, judge, aspect, requests, sample, paid))
    return rows


def _row(
    evaluation: Evaluation,
    judge: Judge,
    aspect: str,
    requests: Sequence[Request],
    sample: int | None,
    paid: set[str],
) -> EstimateRow:
    pairs = sorted(
        {request.pair.pair_id for request in requests}, key=lambda pair_id: keyed_rank("evaluate", pair_id)
    )
    tried = set(pairs[:sample])
    reckoned = [request for request in requests if request.pair.pair_id in tried]
    found = _estimates(evaluation, judge, reckoned, paid)
    if found is None:
        return EstimateRow(judge.label, aspect, len(requests))
    # images and tokens go with the frames
    share = sum(request.pair.frames for request in requests) / sum(r.pair.frames for r in reckoned)
    usd = evaluation.prices.of(found)
    return EstimateRow(
        judge.label,
        aspect,
        len(requests),
        calls=share * sum(one.requests for one in found),
        images=share * sum(one.images for one in found),
        tokens_in=share * sum(one.tokens_in for one in found),
        tokens_out=share * sum(one.tokens_out for one in found),
        usd=None if usd is None else share * usd,
    )


def _asker(evaluation: Evaluation, evaluator: Evaluator, label: str) -> Asker:
    return Asker(evaluator, label, evaluation.prices, Scores(), evaluation.work.changed_texts)


def _estimates(
    evaluation: Evaluation, judge: Judge, requests: Sequence[Request], paid: set[str]
) -> list[Estimate] | None:
    """Return the estimates of some requests; None where the evaluator says nothing of one of them.

    What is `paid` for by another request is left out, and added to.
    """
    assert judge.evaluator is not None
    asker = _asker(evaluation, judge.evaluator, judge.label)
    found: list[Estimate] = []
    for request in requests:
        pair = evaluation.pairs.open(request.pair.pair_id)
        text = evaluation.work.text(request.pair.aspect, request.pair.dimension)
        said = asker.estimates(request, pair, text)
        if not said:
            return None
        found += [one for one in said if not one.once or one.once not in paid]
        paid.update(one.once for one in said if one.once)
    return found
