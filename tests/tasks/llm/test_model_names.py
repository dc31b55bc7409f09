"""Which model answered, and what it costs if it is not the one that was asked."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest

from tasks.llm import model_names
from tasks.llm.chat import ChatClient
from tasks.llm.exchange import ChatRequest
from tasks.llm.model_names import answered_by, is_same_model
from tasks.llm.servers import ChatServer
from tasks.llm.usage import Price, Prices, load_prices
from tests.tiny_models.provider_server import KEY, ProviderServer

ASKED = ChatRequest(messages=({"role": "user", "content": "Which?"},))


@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("gpt-5", "gpt-5", True),
        ("gpt-5", "gpt-5-2025-08-07", True),
        ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", True),
        ("gemini-2.5-flash", "gemini-2.5-flash-preview-05-20", True),
        ("gemini-flash-latest", "gemini-flash", True),
        ("openai/gpt-5", "gpt-5-2025-08-07", True),
        ("Qwen/Qwen3-VL-8B", "qwen3-vl-8b", True),
        ("gpt-5", "gpt-5-mini", False),
        ("gpt-5", "gpt-5.1", False),
        ("gpt-5-mini", "gpt-5", False),
        ("gpt-5-2025-08-07", "gpt-5", False),
    ],
)
def test_a_date_makes_no_other_model(asked: str, answered: str, same: bool) -> None:
    assert is_same_model(asked, answered) is same
    assert answered_by(asked, answered) == (answered if same else f"{answered} (asked: {asked})")


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])
def test_another_model_is_named_and_warned_of_once(
    provider: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    model_names._warn.cache_clear()
    with ProviderServer(provider) as server:
        for asked, answered in (("large", "m-2026 (asked: large)"), ("m", "m-2026")):
            where = ChatServer(
                name="s", url=server.url, provider=provider, model=asked, key_variable="THE_KEY"
            )
            with caplog.at_level(logging.WARNING), closing(ChatClient(where)) as client:
                assert {client.ask(ASKED).model for _ in range(2)} == {answered}
    (warning,) = [one for one in caplog.messages if "was asked" in one]
    assert "large was asked, and m-2026 answered" in warning


def test_the_price_is_that_of_the_model_that_was_asked_if_the_other_has_none() -> None:
    price = Price(input_per_million=1.0, output_per_million=2.0)
    prices = Prices(models={"large": price, "small": Price(input_per_million=0.5, output_per_million=1.0)})
    assert prices.cost("new (asked: large)", 1_000_000, 1_000_000) == 3.0
    assert prices.cost("small (asked: large)", 1_000_000, 1_000_000) == 1.5
    assert prices.cost("new (asked: newer)", 1, 1) is None
    assert prices.cost("large-2026-11-01", 1_000_000, 0) == 1.0
    assert prices.cost("large-mini", 1, 1) is None


def test_a_price_of_ones_own_is_before_the_packages_whatever_name_the_server_gives() -> None:
    own = Price(
        input_per_million=1, cached_input_per_million=0.1, written_input_per_million=2, output_per_million=3
    )
    prices = Prices(models={"gpt-5": own, "ours": own}, package=True)
    for answered in ("gpt-5", "gpt-5-2025-08-07", "gpt-5-mini (asked: ours)"):
        assert prices.cost(answered, 1_000_000, 1_000_000) == 4.0
    assert prices.cost("gpt-5", 1_000_000, 0, cached_in=500_000, written_in=500_000) == 1.05
    assert prices.cost("gpt-5-mini-2025-08-07", 1_000_000, 0) == load_prices().cost(
        "gpt-5-mini", 1_000_000, 0
    )
