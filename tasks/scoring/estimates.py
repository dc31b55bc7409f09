"""Estimated cost of units, extrapolated from a sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tasks.llm.usage import Estimate, Prices


@dataclass(frozen=True)
class EstimatedCost:
    """Requests to servers, images, tokens and dollars.

    Counts are None if nothing is known or nothing is paid for; dollars are None if a model has no price.
    """

    calls: float | None = None
    images: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    usd: float | None = None

    def as_json(self) -> dict[str, float | None]:
        """Return it JSON-serialisable."""
        return {name: None if value is None else round(value, 4) for name, value in asdict(self).items()}

    @classmethod
    def of(cls, estimates: Sequence[Estimate], prices: Prices, share: float) -> EstimatedCost:
        """Return `share` times the sum of some estimates."""
        usd = prices.of(estimates)
        return cls(
            calls=share * sum(one.requests for one in estimates),
            images=share * sum(one.images for one in estimates),
            tokens_in=share * sum(one.tokens_in for one in estimates),
            tokens_out=share * sum(one.tokens_out for one in estimates),
            usd=None if usd is None else share * usd,
        )


def total(costs: Iterable[EstimatedCost]) -> tuple[EstimatedCost, bool]:
    """Return the sum of the known costs, and whether all of them have dollars."""
    estimated = [cost for cost in costs if cost.calls is not None]
    if not estimated:
        return EstimatedCost(), True
    sums: dict[str, Any] = {
        name: sum(getattr(cost, name) or 0 for cost in estimated)
        for name in ("calls", "images", "tokens_in", "tokens_out", "usd")
    }
    return EstimatedCost(**sums), all(cost.usd is not None for cost in estimated)


def not_counted(estimates: Iterable[Estimate], counted: set[str]) -> list[Estimate]:
    """Return the estimates of work that is not counted yet; its names are added to `counted`."""
    new = []
    for estimate in estimates:
        if not estimate.once or estimate.once not in counted:
            new.append(estimate)
        if estimate.once:
            counted.add(estimate.once)
    return new
