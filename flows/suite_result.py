"""What a run of a suite did, by dimension."""

from __future__ import annotations

from collections import Counter
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
