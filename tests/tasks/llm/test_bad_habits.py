"""Bad habits of servers, in all three protocols: a paid answer is never lost, and no money is wasted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storage_schemas.judgements import Failure
from tasks.llm.answers import ask, complete, usage_of
from tasks.llm.chat import ChatClient
from tasks.llm.embeddings import Embedded, EmbeddingsClient, Refused
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.providers.base import failure_of
from tasks.llm.servers import ChatServer, NotAllowed, QuotaUsedUp, base_address, check_server
from tasks.llm.usage import NotJudged, Price, Prices, estimated_cost, usage_fields
from tasks.llm.vision_models import VlmModel
from tests.tiny_models.faulty_server import FaultyServer, Reply
from tests.tiny_models.provider_server import KEY, Change, ProviderServer, Said

PROVIDERS = ("anthropic", "google", "openai")
each_provider = pytest.mark.parametrize("provider", PROVIDERS)
SCHEMA = {"type": "object", "properties": {"better": {"type": "string"}}, "required": ["better"]}
REQUEST = ChatRequest(messages=({"role": "user", "content": "Which?"},), answer_schema=SCHEMA)
USAGE = {"openai": "usage", "anthropic": "usage", "google": "usageMetadata"}
#: The fields of a usage: tokens in, tokens out, tokens of the cache.
COUNTS = {
    "openai": ("prompt_tokens", "completion_tokens", "prompt_tokens_details"),
    "anthropic": ("input_tokens", "output_tokens", "cache_read_input_tokens"),
    "google": ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"),
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)


def server_of(server: ProviderServer, **settings: Any) -> ChatServer:
    entry = {"url": server.url, "provider": server.provider, "key_variable": "THE_KEY", "patience_s": 20.0}
    return ChatServer(**{"name": "s", "model": "m", **entry, **settings})


def answered(
    provider: str, *habits: Change | Said, requests: int = 1, **settings: Any
) -> tuple[list[ChatAnswer], int]:
    """Return the answers of a server with some habits, the last forever; and how often it was asked."""
    said = [one if isinstance(one, Said) else Said(change=one) for one in habits]
    with ProviderServer(provider, lambda number: said[min(number, len(said) - 1)]) as server:
        client = ChatClient(server_of(server, **settings))
        try:
            return [client.ask(REQUEST) for _ in range(requests)], len(server.seen)
        finally:
            client.close()


# -- what is paid is kept --------------------------------------------------------------------------------


def in_parts(provider: str, body: dict[str, Any]) -> dict[str, Any]:
    parts = [{"type": "text", "text": '{"better":'}, {"type": "text", "text": ' "first"}'}]
    if provider == "openai":
        body["choices"][0]["message"]["content"] = parts
    elif provider == "anthropic":
        body["content"] = parts
    else:
        body["candidates"][0]["content"]["parts"] = parts
    return body


def odd_side_fields(provider: str, body: dict[str, Any]) -> dict[str, Any]:
    tokens_in, _, cached = COUNTS[provider]
    body |= {"model": None, "modelVersion": 7, "service_tier": ["x"], "created": "now"}
    body[USAGE[provider]] |= {tokens_in: 99.5, cached: []}
    if provider == "openai":
        body["choices"][0]["message"] |= {"reasoning": {"steps": []}, "refusal": [], "tool_calls": "none"}
        body["choices"][0]["index"] = None
    return body


@each_provider
@pytest.mark.parametrize("habit", [in_parts, odd_side_fields])
def test_an_answer_with_odd_fields_is_read(provider: str, habit: Change) -> None:
    answers, asked = answered(provider, habit, requests=2)
    assert asked == 2
    for answer in answers:
        assert (answer.text, answer.error, answer.tokens_in) == ('{"better": "first"}', None, 100)


def no_text(provider: str, body: dict[str, Any]) -> dict[str, Any]:
    if provider == "openai":
        body["choices"] = [{"message": {"content": None, "tool_calls": [{}]}}]
    elif provider == "anthropic":
        body["content"] = [{"type": "tool_use"}, None, 3]
    else:
        body["candidates"] = [{"finishReason": "STOP", "content": {}}]
    return body


def no_choice(provider: str, body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "choices": [], "content": None, "candidates": []}


@each_provider
@pytest.mark.parametrize("habit", [no_text, no_choice])
def test_a_completion_without_a_usable_answer_is_final_and_paid_for(provider: str, habit: Change) -> None:
    (answer,), asked = answered(provider, habit)
    assert (asked, answer.text, answer.error) == (1, "", None)
    with pytest.raises(NotJudged, match="empty") as problem:
        complete(answer)
    assert problem.value.usage.tokens_in > 0


@each_provider
@pytest.mark.parametrize("body", [{}, [], "<html>", {"id": 1, "choices": [], "content": None}])
def test_answer_that_is_not_a_completion_is_asked_three_times(provider: str, body: Any) -> None:
    habit = Said(change=lambda *_: body)
    (answer,), asked = answered(provider, habit, habit, habit, Said())
    assert (asked, answer.tries, answer.failure) == (4, 3, Failure.SERVER_ERROR), "and one to compare with"


# -- money ------------------------------------------------------------------------------------------------

PRICES = Prices(
    models={"m-2026": Price(input_per_million=1e6, output_per_million=1e6, cached_input_per_million=1)}
)


@each_provider
@pytest.mark.parametrize("count", [None, -5, 10**30, "many", float("inf")])
def test_a_count_that_cannot_be_is_unknown_and_the_estimate_is_told(provider: str, count: Any) -> None:
    def habit(provider: str, body: dict[str, Any]) -> dict[str, Any]:
        body[USAGE[provider]] = {name: count for name in COUNTS[provider]}
        return body

    (answer,), asked = answered(provider, habit)
    usage = usage_of(answer).expecting(50)
    assert (asked, answer.text, usage.uncounted) == (1, '{"better": "first"}', 1)
    assert usage_fields(PRICES, "m-2026", usage)["cost_usd"] is None
    # 19 characters are 5 tokens
    assert estimated_cost(PRICES, "m-2026", usage)["estimated"] == {
        "tokens_in": 50,
        "tokens_out": 5,
        "usd": 55.0,
    }


@pytest.mark.parametrize("provider", ["google", "openai"])
def test_more_cached_tokens_than_tokens_make_no_negative_cost(provider: str) -> None:
    def habit(provider: str, body: dict[str, Any]) -> dict[str, Any]:
        name = COUNTS[provider][2]
        body[USAGE[provider]][name] = {"cached_tokens": 500} if provider == "openai" else 500
        return body

    (answer,), _ = answered(provider, habit)
    assert answer.cached_in == answer.tokens_in == 100
    cost = usage_fields(PRICES, "m-2026", usage_of(answer))["cost_usd"]
    assert cost == pytest.approx(20 + 100 * 1e-6)
    assert PRICES.cost("m-2026", 100, 0, cached_in=500) == pytest.approx(1e-4)


# -- errors -----------------------------------------------------------------------------------------------


def error_of(status: int, message: str, under: int | None = None) -> Change:
    """Return the habit of an error; `under` is the status of the response if it is another."""

    def habit(provider: str, _: dict[str, Any]) -> tuple[int, Any]:
        error = {"message": message, "code": status, "type": "error", "status": ""}
        return under or status, {"type": "error", "error": error}

    return habit


@each_provider
@pytest.mark.parametrize(
    ("status", "under", "error"),
    [(401, None, NotAllowed), (404, None, NotAllowed), (402, None, QuotaUsedUp), (402, 200, QuotaUsedUp)],
)
def test_the_servers_words_are_told(
    provider: str, status: int, under: int | None, error: type[Exception]
) -> None:
    with pytest.raises(error, match="the words"):
        answered(provider, error_of(status, "the words", under))


@each_provider
def test_403_is_this_requests_unless_others_fail_too(provider: str) -> None:
    forbidden = error_of(403, "this image is not for us")
    (answer, _), asked = answered(provider, forbidden, Said(), requests=2)
    assert (answer.failure, asked) == (Failure.REFUSED, 3)
    assert "this image is not for us" in (answer.error or "")
    with pytest.raises(NotAllowed, match="this image is not for us"):
        answered(provider, forbidden)


@pytest.mark.parametrize(
    ("status", "text", "codes", "failure"),
    [
        (400, " (Your credit balance is too low)", (), Failure.QUOTA_USED_UP),
        (429, " (slow down)", ("insufficient_quota",), Failure.QUOTA_USED_UP),
        (429, " (slow down)", (), Failure.SERVER_ERROR),
        (500, " (busy)", (), Failure.SERVER_ERROR),
        (529, " (busy)", (), Failure.SERVER_ERROR),
        (403, " (no)", (), Failure.REFUSED),
        (404, " (no)", (), Failure.NOT_ALLOWED),
        (422, " (no)", (), Failure.REFUSED),
    ],
)
def test_one_rule_sorts_all_errors(status: int, text: str, codes: tuple[str, ...], failure: Failure) -> None:
    assert failure_of(status, text, codes) is failure


# -- servers as they are --------------------------------------------------------------------------------

FORMS: dict[tuple[str, str], Any] = {
    ("openai", "schema"): {"type": "json_schema"},
    ("openai", "json"): {"type": "json_object"},
    ("anthropic", "schema"): {"format": {"type": "json_schema", "schema": SCHEMA}},
    ("google", "schema"): ("application/json", SCHEMA),
    ("google", "json"): ("application/json", None),
    ("google", "none"): (None, None),
}


@each_provider
@pytest.mark.parametrize("structured", ["schema", "json", "none"])
def test_a_server_is_asked_for_the_form_that_it_supports(provider: str, structured: str) -> None:
    with ProviderServer(provider) as server:
        client = ChatClient(server_of(server, structured=structured, token_limit="max_tokens"))
        model = VlmModel(model="m", server="s", context_tokens=9000, answer_tokens=99, most_images=4)
        ask(client, model, "Judge.", [{"type": "text", "text": "Which?"}], SCHEMA)
        client.close()
        body = server.seen[0].body
    if provider == "google":
        config = body["generationConfig"]
        sent: Any = config.get("responseMimeType"), config.get("responseJsonSchema")
    elif provider == "anthropic":
        sent = body.get("output_config")
    else:
        sent = body.get("response_format")
        assert (body["max_tokens"], "max_completion_tokens" in body) == (99, False)
        sent = sent and {"type": sent["type"]}
    assert sent == FORMS.get((provider, structured))


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("https://h/api/v3", "https://h/api/v3"),
        ("https://h/api/paas/v4/", "https://h/api/paas/v4"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai"),
        ("https://vendor.v2.example/api", "https://vendor.v2.example/api/v1"),
    ],
)
def test_an_address_with_a_version_is_left_alone(url: str, base: str) -> None:
    assert base_address(url) == base


def test_a_server_without_a_list_of_models_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with FaultyServer([Reply("fine")], models=()) as server:
        check_server(ChatServer(name="s", url=server.url, model="tiny"))
    assert "does not list its models" in caplog.text


def test_an_empty_answer_with_reasoning_names_the_servers_flag() -> None:
    with pytest.raises(NotJudged, match="--reasoning-parser"):
        complete(ChatAnswer(reasoning="I think that the first one is better."))


# -- embeddings ---------------------------------------------------------------------------------------------


def embedded(*replies: Reply) -> Embedded:
    with FaultyServer(replies) as server:
        client = EmbeddingsClient(ChatServer(name="s", url=server.url, model="tiny", patience_s=0.0))
        return client.embed(["a red ball"])


def rows_of(**fields: Any) -> Reply:
    return Reply(body=json.dumps({"data": [{"index": 0, "embedding": [0.1, 0.2]}], **fields}).encode())


FORBIDDEN = Reply(status=403, text="no red here")
SPENT = {"error": {"message": "add 5 dollars", "code": 402}}


@pytest.mark.parametrize(
    ("replies", "error", "says"),
    [
        ([Reply(status=402, text="add 5 dollars")], QuotaUsedUp, "add 5 dollars"),
        ([Reply(body=json.dumps(SPENT).encode())], QuotaUsedUp, "add 5 dollars"),
        ([Reply(status=401, text="wrong key")], NotAllowed, "wrong key"),
        ([FORBIDDEN], NotAllowed, "no red here"),
        ([FORBIDDEN, rows_of()], Refused, "no red here"),
    ],
)
def test_embedding_errors_follow_the_rule(replies: list[Reply], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        embedded(*replies)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [({"prompt_tokens": 3}, 3), (None, None), ({"prompt_tokens": -3}, None), ({"prompt_tokens": 2.5}, 3)],
)
def test_embeddings_are_kept_whatever_their_side_fields_are(usage: Any, tokens: int | None) -> None:
    found = embedded(rows_of(usage=usage, model=None))
    assert (found.model, found.tokens, found.rows.shape) == ("tiny", tokens, (1, 2))
