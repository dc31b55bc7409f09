"""What a suite's run would take, before the first request: calls, images, tokens and dollars by dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from storage_schemas.rng import keyed_rank
from tasks.llm.usage import Estimate, Prices
from tasks.scoring.suites.base import Scorer
from tasks.scoring.suites.file_video import OpenVideos
from tasks.scoring.suites.plan import ScoringUnit
from tasks.scoring.suites.scoring import estimates_of


@dataclass(frozen=True)
class EstimateRow:
    """One dimension; None where it asks no model or does not say, and no dollars where there is no price.

    Parameters
    ----------
    videos
        Scores that are not in the store yet.
    calls
        Requests to servers for them; what several dimensions share counts in the first.
    """

    dimension: str
    videos: int
    calls: float | None = None
    images: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    usd: float | None = None

    @property
    def calls_per_video(self) -> float | None:
        """Requests for one video."""
        return None if self.calls is None or not self.videos else self.calls / self.videos

    @property
    def tokens_per_video(self) -> float | None:
        """Tokens, in and out, for one video."""
        if self.tokens_in is None or self.tokens_out is None or not self.videos:
            return None
        return (self.tokens_in + self.tokens_out) / self.videos

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-able."""
        counts = {name: None if value is None else round(value, 4) for name, value in _counts(self).items()}
        shares = {
            "calls_per_video": self.calls_per_video,
            "tokens_per_video": self.tokens_per_video,
        }
        return {**asdict(self), **counts, **shares}


def _counts(row: EstimateRow) -> dict[str, float | None]:
    names = ("calls", "images", "tokens_in", "tokens_out", "usd")
    return {name: getattr(row, name) for name in names}


def estimate_dimension(
    scorer: Scorer,
    units: Sequence[ScoringUnit],
    videos: OpenVideos,
    prices: Prices,
    paid: set[str],
    sample: int | None = None,
) -> EstimateRow:
    """Return what the units of one dimension would take; nobody is asked.

    Parameters
    ----------
    paid
        Names of work that is counted already; added to.
    sample
        Units to look at, drawn; the rest is extrapolated from them. None takes all.
    """
    count = sum(len(unit.videos) for unit in units)
    drawn = sorted(units, key=lambda unit: keyed_rank("suite-estimate", unit.key))[:sample]
    found: list[Estimate] = []
    for unit in drawn:
        for one in estimates_of(scorer, unit, videos):
            if not one.once or one.once not in paid:
                found.append(one)
            if one.once:
                paid.add(one.once)
    if not found:
        return EstimateRow(scorer.dimension.name, count)
    share = count / sum(len(unit.videos) for unit in drawn)
    usd = prices.of(found)
    return EstimateRow(
        scorer.dimension.name,
        count,
        calls=share * sum(one.requests for one in found),
        images=share * sum(one.images for one in found),
        tokens_in=share * sum(one.tokens_in for one in found),
        tokens_out=share * sum(one.tokens_out for one in found),
        usd=None if usd is None else share * usd,
    )
