"""Progress and results of evaluations and of suites' runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.progress import BuildProgress
from tasks.llm.limits import Spending
from tasks.scoring.user_files import UnusedLine

if TYPE_CHECKING:
    from tasks.scoring.submitted import WaitingBatch

#: Interval between reports of the rate, in seconds.
SAY_EVERY_S = 10.0


class RequestProgress(BuildProgress):
    """Reports the number, rate and cost of requests at intervals."""

    def __init__(self, cache: Path | None = None, quiet: bool = False, what: str = "build") -> None:
        super().__init__(cache, quiet, what)
        self._forget()

    def _forget(self) -> None:
        self._spending: Spending | None = None
        self._requests = 0
        self._began = self._said = time.monotonic()

    def __enter__(self) -> RequestProgress:
        """Start drawing."""
        super().__enter__()
        return self

    @property
    def seconds(self) -> float:
        """Seconds since the first request; 0 if there was none."""
        return 0.0 if self._spending is None else time.monotonic() - self._began

    def watch(self, spending: Spending, requests: int) -> None:
        """Start reporting what a run with this number of requests spends."""
        self._spending, self._requests = spending, requests
        self._began = self._said = time.monotonic()

    def add_requests(self, requests: int) -> None:
        """Count requests that were not known at first."""
        self._requests += requests

    def note_pools(self, pools: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the worker pools; called about once a second, so it also reports the rate."""
        super().note_pools(pools)
        if self._spending is not None and time.monotonic() - self._said >= SAY_EVERY_S:
            self._said = time.monotonic()
            self.say(self.in_words())

    def in_words(self) -> str:
        """Return how many requests were made, how fast and at what cost."""
        counts = list(self._spending.counts().values()) if self._spending is not None else []
        made = sum(one["asked"] for one in counts)
        rate = made / max(self.seconds, 1e-6)
        words = [f"{made} of {self._requests} requests, {rate:.1f} a second"]
        failed = sum(one["failed"] for one in counts)
        if failed:
            words.append(f"{failed} without an answer")
        if tokens := sum(one["tokens"] for one in counts):
            priced = "" if not any(one["unpriced"] for one in counts) else " plus unpriced items"
            priced += ", partly estimated" if any(one["estimated"] for one in counts) else ""
            words.append(f"{tokens} tokens, ${sum(one['usd'] for one in counts):.2f}{priced}")
        return "; ".join(words)


@dataclass
class AspectCount:
    """Requests of one evaluator on one aspect: answered, failed by reason, and not made."""

    requests: int = 0
    answered: int = 0
    left: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, failure: str | None) -> None:
        """Count a request by its failure: empty if it has an answer, None if it was not made."""
        self.requests += 1
        if failure is None:
            self.left += 1
        elif failure:
            self.failures[failure] += 1
        else:
            self.answered += 1


@dataclass(frozen=True)
class EvaluatorResult:
    """The result of one evaluator.

    Parameters
    ----------
    label
        What tables call it.
    aspects
        Its requests by aspect, from this run and earlier ones.
    found_before
        Requests that already had an answer.
    asked, tokens, usd
        Requests that this run made, and their cost; None for dollars if a model has no price.
    estimated
        Number of answers whose server did not count their tokens; their cost is an estimate.
    stopped
        Why it stopped before its last request, or did not start; empty if it finished.
    """

    label: str
    aspects: dict[str, AspectCount]
    found_before: int
    asked: int
    tokens: int
    usd: float | None
    estimated: int = 0
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
    """The result of an evaluation.

    Parameters
    ----------
    title, pairs
        The judged set, and its number of pairs.
    seconds
        Wall time of the requests.
    batches
        Batches waiting for answers.
    """

    title: str
    pairs: int
    evaluators: tuple[EvaluatorResult, ...]
    seconds: float
    batches: tuple[WaitingBatch, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 if every request has an answer, else 3."""
        return 0 if all(one.complete for one in self.evaluators) else 3

    def in_words(self) -> str:
        """Return the counts in a sentence or two."""
        totals = [one.total for one in self.evaluators]
        asked, answered = sum(one.asked for one in self.evaluators), sum(total.answered for total in totals)
        requests, left = sum(total.requests for total in totals), sum(total.left for total in totals)
        summary = (
            f"{answered} of {requests} requests on {self.pairs} pairs are answered, {asked} made in this run"
        )
        if failed := sum(sum(total.failures.values()) for total in totals):
            summary += f"; {failed} failed"
        if left:
            summary += f"; {left} left"
        stopped = [f"{one.label} stopped: {one.stopped}" for one in self.evaluators if one.stopped]
        return " ".join([f"{summary}.", *stopped])

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
        """Return it JSON-serialisable."""
        return {
            "of": self.title,
            "pairs": self.pairs,
            "seconds": round(self.seconds, 3),
            "batches": [batch.as_json() for batch in self.batches],
            "evaluators": {
                one.label: {
                    "found_before": one.found_before,
                    "asked": one.asked,
                    "tokens": one.tokens,
                    "usd": one.usd,
                    "estimated": one.estimated,
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


@dataclass
class DimensionResult:
    """One dimension.

    Parameters
    ----------
    videos
        Number of requested scores.
    found_before
        Scores that were already stored.
    failures
        Videos without a score, by reason.
    left
        Scores that the next run will compute.
    usd, estimated
        Dollars, or None if a model has no price; and the number of rows whose server did not count tokens.
    stopped
        Why it stopped early, or did not start.
    """

    dimension: str
    videos: int = 0
    found_before: int = 0
    scored: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    left: int = 0
    asked: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    estimated: int = 0
    stopped: str = ""

    @property
    def failed(self) -> int:
        """Videos without a score, for any reason."""
        return self.failures.total()

    @property
    def reasons(self) -> str:
        """Why it stopped, and the number of videos without a score by reason."""
        counted = (f"{reason} {count}" for reason, count in sorted(self.failures.items()))
        return "; ".join([*([self.stopped] if self.stopped else []), *counted])


@dataclass(frozen=True)
class SuiteResult:
    """The whole run; `left_out` are rows of files that could not be used."""

    suite: str
    title: str
    videos: int
    dimensions: tuple[DimensionResult, ...]
    left_out: tuple[UnusedLine, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 if every video has its scores and no row was left out, else 3."""
        complete = all(one.scored == one.videos for one in self.dimensions)
        return 0 if complete and not self.left_out else 3

    def in_words(self) -> str:
        """Return the counts, and what stopped, in a few sentences."""
        wanted, scored, now = (
            sum(getattr(one, name) for one in self.dimensions) for name in ("videos", "scored", "asked")
        )
        summary = f"{scored} of {wanted} scores of {self.videos} videos are stored, {now} made in this run"
        counts = {
            "without a score": sum(one.failed for one in self.dimensions),
            "left": sum(one.left for one in self.dimensions),
            "left out of the files": len(self.left_out),
        }
        summary = "; ".join([summary, *(f"{count} {words}" for words, count in counts.items() if count)])
        stopped = by_reason((one.dimension, one.stopped) for one in self.dimensions)
        return " ".join(
            [f"{summary}.", *(f"Without {', '.join(names)}: {why}" for why, names in stopped.items())]
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each dimension."""
        return [
            {
                "dimension": one.dimension,
                "videos": one.videos,
                "scored": one.scored,
                "failed": one.failed,
                "left": one.left,
                "reasons": one.reasons,
            }
            for one in self.dimensions
        ]

    def summary(self) -> dict[str, Any]:
        """Return it JSON-serialisable."""
        return {
            "suite": self.suite,
            "videos": self.videos,
            "seconds": round(self.seconds, 3),
            "dimensions": [
                {**asdict(one), "failures": dict(sorted(one.failures.items()))} for one in self.dimensions
            ],
            "left_out": [vars(one) for one in self.left_out],
        }


def by_reason(stopped: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the dimensions by the reason why they stopped; those without a reason are left out."""
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in stopped:
        if reason:
            names_by_reason.setdefault(reason, []).append(name)
    return names_by_reason
