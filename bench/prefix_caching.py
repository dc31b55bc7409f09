"""Savings of providers' caches by the layout of requests: ``python -m bench.prefix_caching``.

A source of 60 frames of 512×288 is judged in ten aspects, in both orders, against the stand-in server, which
counts tokens of shared beginnings by each provider's rules. In a release each aspect has its own low-quality
video, with the same frames as the other video before the damage (at a third); your own pairs may be the same
two videos for all aspects. Prices are those of the price list for the models below. ``expected`` is the dry
run's estimate.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from infra.stand_in_server import standing_in
from storage_schemas.model import ProviderName
from tasks.llm.usage import load_prices
from tests.tasks.scoring.one_source import OneSource, estimated, judged

MODELS: dict[ProviderName, str] = {
    "openai": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "google": "gemini-2.5-pro",
}
JUDGE = "vlm-video?vlm=mine&model={}&server=s&frames=all&layout={}"


def cost(provider: ProviderName, same: bool, layout: str) -> dict[str, Any]:
    """Return the share of cached tokens and the dollars per source."""
    prices = load_prices()
    pairs = OneSource(frames=60, same=same, damaged_from=1 / 3)
    with standing_in() as server, TemporaryDirectory() as folder:
        judge = JUDGE.format(MODELS[provider], layout)
        rows, kind = judged(Path(folder) / "store", server.url, judge, pairs, provider, prices)
        estimates = estimated(kind, pairs)
    tokens = [json.loads(row.details)["tokens"] for row in rows]
    read, cached = sum(one["in"] for one in tokens), sum(one.get("cached", 0) for one in tokens)
    return {
        "provider": provider,
        "pairs": "own, the same videos" if same else "of a release",
        "layout": layout,
        "tokens_in": read,
        "cached_share": round(cached / read, 3),
        "usd": round(sum(row.cost_usd or 0.0 for row in rows), 4),
        "expected_usd": round(prices.of(estimates) or 0.0, 4),
    }


if __name__ == "__main__":
    for provider in MODELS:
        for same in (False, True):
            for layout in ("aspect-first", "aspect-last"):
                print(json.dumps(cost(provider, same, layout)), flush=True)
