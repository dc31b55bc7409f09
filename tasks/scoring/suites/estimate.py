"""Estimated usage of a suite's run, before the first request, by dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from storage_schemas.rng import keyed_rank
from tasks.llm.usage import Prices
from tasks.scoring.estimates import EstimatedCost, not_counted
from tasks.scoring.suites.base import Scorer
from tasks.scoring.suites.file_video import OpenVideos
from tasks.scoring.suites.plan import ScoringUnit
from tasks.scoring.suites.scoring import estimates_of


@dataclass(frozen=True)
class DimensionEstimate:
    """One dimension.

    Parameters
    ----------
    videos
        Number of missing scores.
    cost
        Their usage; work that several dimensions share counts in the first.
    """

    dimension: str
    videos: int
    cost: EstimatedCost

    @property
    def calls_per_video(self) -> float | None:
        """Requests per video."""
        calls = self.cost.calls
        return None if calls is None or not self.videos else calls / self.videos

    @property
    def tokens_per_video(self) -> float | None:
        """Tokens, in and out, per video."""
        tokens_in, tokens_out = self.cost.tokens_in, self.cost.tokens_out
        if tokens_in is None or tokens_out is None or not self.videos:
            return None
        return (tokens_in + tokens_out) / self.videos

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-serialisable."""
        return {
            "dimension": self.dimension,
            "videos": self.videos,
            **self.cost.as_json(),
            "calls_per_video": self.calls_per_video,
            "tokens_per_video": self.tokens_per_video,
        }


def estimate_dimension(
    scorer: Scorer,
    units: Sequence[ScoringUnit],
    videos: OpenVideos,
    prices: Prices,
    counted: set[str],
    sample: int | None = None,
) -> DimensionEstimate:
    """Return what the units of one dimension would take, without asking any model.

    Parameters
    ----------
    counted
        Names of work that is counted already; added to.
    sample
        Number of units to look at, drawn at random; the rest is extrapolated. None looks at all.
    """
    name, count = scorer.dimension.name, sum(len(unit.videos) for unit in units)
    drawn = sorted(units, key=lambda unit: keyed_rank("suite-estimate", unit.key))[:sample]
    estimates = [one for unit in drawn for one in not_counted(estimates_of(scorer, unit, videos), counted)]
    if not estimates:
        return DimensionEstimate(name, count, EstimatedCost())
    share = count / sum(len(unit.videos) for unit in drawn)
    return DimensionEstimate(name, count, EstimatedCost.of(estimates, prices, share))
