"""What a run of a suite did, by dimension."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from tasks.evaluators.meta_sets.base import LeftOut


@dataclass
class DimensionResult:
    """One dimension.

    Parameters
    ----------
    videos
        Scores that were wanted.
    found_before
        Those that the store had.
    failures
        Videos without a score, by reason.
    left
        Those that the next run goes on with.
    usd
        None where a model has no price.
    stopped
        Why it was not gone on with, or not begun.
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
    stopped: str = ""

    @property
    def failed(self) -> int:
        """Videos without a score, for any reason."""
        return self.failures.total()

    @property
    def reasons(self) -> str:
        """Why it was not gone on with, and how many videos have no score for which reason."""
        counted = (f"{reason} {count}" for reason, count in sorted(self.failures.items()))
        return "; ".join([*([self.stopped] if self.stopped else []), *counted])


@dataclass(frozen=True)
class SuiteResult:
    """The whole run; `left_out` are rows of files that could not be used."""

    suite: str
    title: str
    videos: int
    dimensions: tuple[DimensionResult, ...]
    left_out: tuple[LeftOut, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0: every video has its scores; 3: some have not, or something was left out."""
        complete = all(one.scored == one.videos for one in self.dimensions)
        return 0 if complete and not self.left_out else 3

    def in_words(self) -> str:
        """Return in some sentences what was scored, and what was not."""
        wanted, scored, now = (
            sum(getattr(one, name) for one in self.dimensions) for name in ("videos", "scored", "asked")
        )
        says = f"{scored} of {wanted} scores of {self.videos} videos are there, {now} made now"
        counts = {
            "without a score": sum(one.failed for one in self.dimensions),
            "left": sum(one.left for one in self.dimensions),
            "left out of the files": len(self.left_out),
        }
        says = "; ".join([says, *(f"{count} {words}" for words, count in counts.items() if count)])
        stopped = by_reason((one.dimension, one.stopped) for one in self.dimensions)
        return " ".join(
            [f"{says}.", *(f"Without {', '.join(names)}: {why}" for why, names in stopped.items())]
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
        """Return it JSON-able."""
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
    """Return reasons with the dimensions that have them, given pairs of both; empty ones are no reason."""
    found: dict[str, list[str]] = {}
    for name, reason in stopped:
        if reason:
            found.setdefault(reason, []).append(name)
    return found
