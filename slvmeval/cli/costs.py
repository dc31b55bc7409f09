"""Estimated costs as cells of a table, for dry runs."""

from __future__ import annotations

from collections.abc import Iterable

from slvmeval.cli import terminal
from tasks.llm.usage import Prices
from tasks.scoring.estimates import EstimatedCost, total


def cost_cells(cost: EstimatedCost) -> tuple[str, ...]:
    """Return calls, images, tokens in and out, and dollars."""
    if cost.calls is None:
        return ("–",) * 5
    return (*_counts(cost), "unknown" if cost.usd is None else f"{cost.usd:.2f}")


def total_cells(costs: Iterable[EstimatedCost]) -> tuple[str, ...]:
    """Return the cells of the sum of some costs."""
    cost, priced = total(costs)
    if cost.calls is None:
        return ("–",) * 5
    return (*_counts(cost), f"{cost.usd:.2f}{'' if priced else ' plus unpriced items'}")


def print_prices(prices: Prices) -> None:
    """Print the date and the source of a price list."""
    if prices.as_of:
        terminal.say(f"prices of {prices.as_of}, {prices.source}")


def count_cell(value: float | None, digits: int = 0) -> str:
    """Return a count as text."""
    return "–" if value is None else f"{value:.{digits}f}"


def _counts(cost: EstimatedCost) -> Iterable[str]:
    return map(count_cell, (cost.calls, cost.images, cost.tokens_in, cost.tokens_out))
