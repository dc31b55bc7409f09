"""What an evaluation found, by evaluator and aspect."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class AspectCount:
    """Requests of one evaluator on one aspect: answered, failed by reason, and not made."""

    requests: int = 0
    answered: int = 0
    left: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, failure: str | None) -> None:
        """Count a request, given why it has no answer; empty where it has one, None where it was not made."""
        self.requests += 1
        if failure is None:
            self.left += 1
        elif failure:
            self.failures[failure] += 1
        else:
            self.answered += 1


@dataclass(frozen=True)
class EvaluatorResult:
    """What became of one evaluator.

    Parameters
    ----------
    label
        What tables call it.
    aspects
        Its requests by aspect, of this run and of earlier ones.
    found_before
        Requests that needed not be made.
    asked, tokens, usd
        What this run made and took; no dollars where there is no price.
    stopped
        Why it made no more requests, or none at all; empty where it went on to its end.
    """

    label: str
    aspects: dict[str, AspectCount]
    found_before: int
    asked: int
    tokens: int
    usd: float | None
    stopped: str = ""

    @property
    def total(self) -> AspectCount:
        """All aspects together."""
        total = AspectCount()
        for count in self.aspects.values():
            total.requests += count.requests
            total.answered += count.answered
            total.left += count.left
            total.failures += count.failures
        return total

    @property
    def complete(self) -> bool:
        """Whether every request has an answer."""
        return bool(self.total.requests) and self.total.answered == self.total.requests


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found.

    Parameters
    ----------
    title, pairs
        What was judged, and how many pairs of it.
    seconds
        Wall time of the asking.
    """

    title: str
    pairs: int
    evaluators: tuple[EvaluatorResult, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 where every request has an answer, else 3."""
        return 0 if all(one.complete for one in self.evaluators) else 3

    def in_words(self) -> str:
        """Return in a sentence or two what was asked and answered."""
        totals = [one.total for one in self.evaluators]
        asked, answered = sum(one.asked for one in self.evaluators), sum(total.answered for total in totals)
        requests, left = sum(total.requests for total in totals), sum(total.left for total in totals)
        says = f"{answered} of {requests} requests on {self.pairs} pairs are answered, {asked} made now"
        if failed := sum(sum(total.failures.values()) for total in totals):
            says += f"; {failed} failed"
        if left:
            says += f"; {left} left"
        stopped = [f"{one.label} stopped: {one.stopped}" for one in self.evaluators if one.stopped]
        return " ".join([f"{says}.", *stopped])

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each evaluator and aspect."""
        return [
            {
                "evaluator": one.label,
                "aspect": aspect,
                "requests": count.requests,
                "answered": count.answered,
                "failed": sum(count.failures.values()),
                "left": count.left,
            }
            for one in self.evaluators
            for aspect, count in sorted(one.aspects.items())
        ]

    def summary(self) -> dict[str, Any]:
        """Return it JSON-able."""
        return {
            "of": self.title,
            "pairs": self.pairs,
            "seconds": round(self.seconds, 3),
            "evaluators": {
                one.label: {
                    "found_before": one.found_before,
                    "asked": one.asked,
                    "tokens": one.tokens,
                    "usd": one.usd,
                    "stopped": one.stopped,
                    "aspects": {
                        aspect: {
                            "requests": count.requests,
                            "answered": count.answered,
                            "left": count.left,
                            "failures": dict(sorted(count.failures.items())),
                        }
                        for aspect, count in sorted(one.aspects.items())
                    },
                }
                for one in self.evaluators
            },
        }
