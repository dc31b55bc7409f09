"""What every provider must do, against a server that speaks its protocol."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from storage_schemas.errors import PrerequisiteError
from storage_schemas.judgements import Failure
from storage_schemas.model import ModelServer
from tasks.llm.answers import ask
from tasks.llm.chat import ChatClient
from tasks.llm.exchange import (
    MOST_BODY_BYTES,
    MOST_TEXT,
    TOO_LARGE,
    ChatAnswer,
    ChatRequest,
    Sampling,
    VideoInput,
)
from tasks.llm.servers import ChatServer, NotAllowed, QuotaUsedUp, ServerDown, Servers, check_server
from tasks.llm.usage import NotJudged, load_prices
from tasks.llm.vision_models import VlmModel
from tests.tiny_models.provider_server import KEY, ProviderServer, Said

PICTURE = "data:image/jpeg;base64,QUJD"
SCHEMA = {"type": "object", "properties": {"better": {"type": "string"}}, "required": ["better"]}
REQUEST = ChatRequest(
    messages=(
        {"role": "system", "content": "Judge."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Which?"},
                {"type": "image_url", "image_url": {"url": PICTURE}},
            ],
        },
    ),
    answer_schema=SCHEMA,
    sampling=Sampling(temperature=0.5, most_tokens=99),
)

SENT: dict[str, Callable[[dict[str, Any]], Any]] = {
    "openai": lambda body: (
        body["messages"][0]["content"],
        body["messages"][1]["content"][1]["image_url"]["url"],
        body["response_format"]["json_schema"]["schema"],
        body["max_completion_tokens"],
        body["temperature"],
    ),
    "anthropic": lambda body: (
        body["system"][0]["text"],
        "data:{media_type};base64,{data}".format(**body["messages"][0]["content"][1]["source"]),
        body["output_config"]["format"]["schema"],
        body["max_tokens"],
        body["temperature"],
    ),
    "google": lambda body: (
        body["systemInstruction"]["parts"][0]["text"],
        # protobuf's JSON takes both spellings of a name
        "data:{mime_type};base64,{data}".format(**body["contents"][0]["parts"][1]["inlineData"]),
        body["generationConfig"]["responseJsonSchema"],
        body["generationConfig"]["maxOutputTokens"],
        body["generationConfig"]["temperature"],
    ),
}

pytestmark = pytest.mark.parametrize("provider", sorted(SENT))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage_schemas.secrets._reported", {})
    monkeypatch.setenv("THE_KEY", KEY)


def server_of(server: ProviderServer, **settings: Any) -> ChatServer:
    entry = {"url": server.url, "provider": server.provider, "key_variable": "THE_KEY", "patience_s": 20.0}
    return ChatServer(**{"name": "s", "model": "m", **entry, **settings})


def answer_of(server: ProviderServer, **settings: Any) -> ChatAnswer:
    client = ChatClient(server_of(server, **settings))
    try:
        return client.ask(REQUEST)
    finally:
        client.close()


def saying(*all_: Said) -> Callable[[int], Said]:
    return lambda number: all_[min(number, len(all_) - 1)]


def test_a_request_says_all_that_was_asked_and_the_answer_all_that_came(provider: str) -> None:
    with ProviderServer(provider) as server:
        answer = answer_of(server)
    assert SENT[provider](server.seen[0].body) == ("Judge.", PICTURE, SCHEMA, 99, 0.5)
    assert (answer.text, answer.finish_reason, answer.model) == ('{"better": "first"}', "stop", "m-2026")
    assert (answer.tokens_in, answer.tokens_out) == (100, 20)
    assert (answer.cached_in, answer.reasoning_out, answer.tries, answer.lost) == (60, 15, 1, 0)


def test_a_video_is_sent_with_its_rate_or_refused(provider: str) -> None:
    kind = "mp4" if provider == "google" else "jpeg"
    address = f"data:video/{kind};base64,QUJD"
    part = {"type": "video_url", "video_url": {"url": address}}
    request = ChatRequest(
        messages=({"role": "user", "content": [part]},), video=VideoInput(fps=0.5, most_pixels=99)
    )
    with ProviderServer(provider) as server:
        client = ChatClient(server_of(server))
        answer = client.ask(request)
        client.close()
        bodies = [seen.body for seen in server.seen]
    if provider == "anthropic":
        assert (answer.error, bodies) == ("Anthropic's interface takes no videos", [])
    elif provider == "google":
        (sent,) = bodies[0]["contents"][0]["parts"]
        assert sent == {
            "inlineData": {"mime_type": "video/mp4", "data": "QUJD"},
            "videoMetadata": {"fps": 0.5},
        }
    else:
        assert bodies[0]["messages"][0]["content"] == [part]
        assert bodies[0]["media_io_kwargs"] == {"video": {"fps": 0.5, "num_frames": -1}}
        assert bodies[0]["mm_processor_kwargs"] == {"videos_kwargs": {"max_pixels": 99}}


def test_a_refusal_is_an_answer_of_its_own_kind(provider: str) -> None:
    with ProviderServer(provider, saying(Said(refusal=f"I will not; {KEY}"))) as server:
        client = ChatClient(server_of(server))
        model = VlmModel(model="m", server="s", context_tokens=9000, answer_tokens=99, most_images=4)
        with pytest.raises(NotJudged) as caught:
            ask(client, model, "Judge.", [{"type": "text", "text": "Which?"}], SCHEMA)
        client.close()
    problem = caught.value
    assert problem.failure is Failure.MODEL_REFUSED
    assert problem.raw == "I will not; [THE_KEY removed]"
    assert "I will not" in problem.message
    assert problem.usage.tokens_in == 100, "it is paid for"


@pytest.mark.parametrize("kind", ["too-fast", "overloaded", "page"])
def test_a_fault_of_the_moment_is_tried_again_once_for_each_fault(provider: str, kind: str) -> None:
    with ProviderServer(provider, saying(Said(error=kind), Said(error=kind), Said())) as server:
        answer = answer_of(server)
    assert (answer.tries, answer.error, len(server.seen)) == (3, None, 3)


def test_a_time_limit_ends_a_request_and_is_counted(provider: str) -> None:
    with ProviderServer(provider, saying(Said(delay_s=20.0), Said())) as server:
        answer = answer_of(server, timeout_s=1.0)
    assert (answer.tries, answer.lost, answer.error) == (2, 1, None)


@pytest.mark.parametrize(("kind", "lost"), [("broken", 1), ("gateway-timeout", 1), ("overloaded", 0)])
def test_an_attempt_that_a_server_may_have_worked_on_is_counted(provider: str, kind: str, lost: int) -> None:
    with ProviderServer(provider, saying(Said(error=kind), Said())) as server:
        answer = answer_of(server)
    assert (answer.tries, answer.lost, answer.error) == (2, lost, None)


def test_a_server_that_was_not_reached_has_nothing_to_be_paid(provider: str) -> None:
    with ProviderServer(provider) as server:
        pass
    with pytest.raises(ServerDown) as caught:
        answer_of(server, patience_s=0.0)
    assert caught.value.lost == 0


def test_without_an_answer_the_lost_attempts_are_told(provider: str) -> None:
    with ProviderServer(provider, saying(Said(delay_s=20.0))) as server, pytest.raises(ServerDown) as caught:
        answer_of(server, timeout_s=0.5, patience_s=0.0)
    assert caught.value.lost == 1


@pytest.mark.parametrize(
    ("kind", "error", "says"),
    [
        ("no-credit", QuotaUsedUp, "quota of model server s .* is used up"),
        ("key", NotAllowed, "refused the key"),
        ("no-model", NotAllowed, "does not serve m"),
    ],
)
def test_what_ends_the_run(provider: str, kind: str, error: type[Exception], says: str) -> None:
    with ProviderServer(provider, saying(Said(error=kind))) as server, pytest.raises(error, match=says):
        answer_of(server)
    assert len(server.seen) == 1, "it is not tried again"


def test_a_rejected_request_is_this_requests_failure(provider: str) -> None:
    with ProviderServer(provider, saying(Said(error="bad"))) as server:
        answer = answer_of(server)
    assert answer.error == "the server refused the request: HTTP 400 (bad image)"


def test_a_cut_answer_says_so(provider: str) -> None:
    with ProviderServer(provider, saying(Said('{"bet', finish="length"))) as server:
        assert answer_of(server).finish_reason == "length"


@pytest.mark.parametrize(("size", "kept"), [(MOST_TEXT + 1, MOST_TEXT), (MOST_BODY_BYTES + 1, 0)])
def test_an_answer_is_kept_up_to_a_size(provider: str, size: int, kept: int) -> None:
    with ProviderServer(provider, saying(Said("x" * size))) as server:
        answer = answer_of(server)
    assert (len(answer.text), answer.finish_reason, len(server.seen)) == (kept, TOO_LARGE, 1)


def test_a_server_is_checked_before_the_first_request(provider: str) -> None:
    with ProviderServer(provider) as server:
        check_server(server_of(server, model="listed"))
        if provider != "openai":
            check_server(server_of(server, model="alias"))
        with pytest.raises(PrerequisiteError, match=r"does not serve none.*it has listed"):
            check_server(server_of(server, model="none"))


def test_a_profile_names_a_provider_only(provider: str) -> None:
    entry = ModelServer.model_validate({"provider": provider})
    found = Servers({"mine": entry}).find("mine", "m")
    assert found == Servers().find(provider, "m").model_copy(update={"name": "mine"})
    assert found.url.startswith("https://")


def test_a_provider_that_is_no_text_is_a_mistake_in_the_profile(provider: str) -> None:
    with pytest.raises(ValidationError, match="provider"):
        ModelServer.model_validate({"provider": [provider]})


def test_a_page_in_place_of_an_answer_shows_no_part_of_the_key(provider: str) -> None:
    # the place at which the text is cut is within the key
    page = "<" * 75 + KEY + ">" * 215 + KEY
    with ProviderServer(provider, saying(Said(page=page))) as server, pytest.raises(ServerDown) as caught:
        answer_of(server, patience_s=0.0)
    assert KEY[:5] not in str(caught.value)


def test_its_cached_tokens_are_cheaper(provider: str) -> None:
    model = {"openai": "gpt-5-2025-08-07", "anthropic": "claude-sonnet-4-5", "google": "gemini-2.5-pro"}
    prices = load_prices()
    whole, cached = (prices.cost(model[provider], 100_000, 1000, cached_in=n) for n in (0, 60_000))
    assert whole is not None
    assert cached is not None
    assert 0 < cached < whole


ASKER = """
import sys
from pathlib import Path
from tasks.llm.answer_store import AnswerStore
from tasks.llm.chat import ChatClient
from tasks.llm.requests import Calls
from tasks.llm.servers import ChatServer
from tasks.llm.vision_models import VlmModel

url, provider, folder = sys.argv[1:]
model = VlmModel(model="m", server="s", context_tokens=9000, answer_tokens=99, most_images=4)
server = ChatServer(name="s", url=url, provider=provider, model="m", key_variable="THE_KEY")
calls = Calls(model, ChatClient(server), AnswerStore(Path(folder)))
for number in range(6):
    calls.ask({"n": number}, "Judge.", lambda: [{"type": "text", "text": str(number)}], {"type": "object"})
"""


@pytest.mark.slow
def test_after_a_kill_no_answer_is_paid_for_twice(provider: str, tmp_path: Path) -> None:
    running: list[subprocess.Popen[bytes]] = []

    def kill_in_the_fourth(number: int) -> Said:
        if number == 3:
            os.kill(running[0].pid, signal.SIGKILL)
        return Said()

    with ProviderServer(provider, kill_in_the_fourth) as server:
        command = [sys.executable, "-c", ASKER, server.url, provider, str(tmp_path / "answers")]
        running.append(subprocess.Popen(command))
        assert running[0].wait(60) == -signal.SIGKILL
        assert subprocess.run(command, check=False, timeout=60).returncode == 0
    assert len(server.seen) == 7, "three answers are kept, and the fourth was under way"
