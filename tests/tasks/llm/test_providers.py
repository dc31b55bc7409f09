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
    MAX_BODY_BYTES,
    MAX_TEXT,
    TOO_LARGE,
    ChatAnswer,
    ChatRequest,
    Sampling,
    VideoInput,
)
from tasks.llm.servers import (
    CannotAsk,
    ChatServer,
    NotAllowed,
    QuotaUsedUp,
    ServerDown,
    Servers,
    check_server,
)
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


def answer_of(server: ProviderServer, request: ChatRequest = REQUEST, **settings: Any) -> ChatAnswer:
    client = ChatClient(server_of(server, **settings))
    try:
        return client.ask(request)
    finally:
        client.close()


def saying(provider: str, *all_: Said) -> ProviderServer:
    """Return a server that says each in turn, the last one forever."""
    return ProviderServer(provider, lambda number: all_[min(number, len(all_) - 1)])


def test_a_request_says_all_that_was_asked_and_the_answer_all_that_came(provider: str) -> None:
    with ProviderServer(provider) as server:
        answer = answer_of(server)
    assert SENT[provider](server.seen[0].body) == ("Judge.", PICTURE, SCHEMA, 99, 0.5)
    assert (answer.text, answer.finish_reason, answer.model) == ('{"better": "first"}', "stop", "m-2026")
    assert (answer.tokens_in, answer.tokens_out) == (100, 20)
    assert (answer.cached_in, answer.reasoning_out, answer.tries, answer.lost) == (60, 15, 1, 0)


def test_a_video_is_sent_with_its_rate_or_refused(provider: str) -> None:
    kind = "mp4" if provider == "google" else "jpeg"
    part = {"type": "video_url", "video_url": {"url": f"data:video/{kind};base64,QUJD"}}
    messages = ({"role": "user", "content": [part]},)
    with ProviderServer(provider) as server:
        answer = answer_of(server, ChatRequest(messages=messages, video=VideoInput(fps=0.5, most_pixels=99)))
        bodies = [seen.body for seen in server.seen]
    if provider == "anthropic":
        assert (answer.error, bodies) == ("Anthropic's interface takes no videos", [])
    elif provider == "google":
        (sent,) = bodies[0]["contents"][0]["parts"]
        data = {"mime_type": "video/mp4", "data": "QUJD"}
        assert sent == {"inlineData": data, "videoMetadata": {"fps": 0.5}}
    else:
        assert bodies[0]["messages"][0]["content"] == [part]
        assert bodies[0]["media_io_kwargs"] == {"video": {"fps": 0.5, "num_frames": -1}}
        assert bodies[0]["mm_processor_kwargs"] == {"videos_kwargs": {"max_pixels": 99}}


def test_a_refusal_is_an_answer_of_its_own_kind(provider: str) -> None:
    with saying(provider, Said(refusal=f"I will not; {KEY}")) as server:
        client = ChatClient(server_of(server))
        model = VlmModel(model="m", server="s", context_tokens=9000, answer_tokens=99, most_images=4)
        with pytest.raises(NotJudged, match="I will not") as caught:
            ask(client, model, "Judge.", [{"type": "text", "text": "Which?"}], SCHEMA)
        client.close()
    problem = caught.value
    assert (problem.failure, problem.raw) == (Failure.MODEL_REFUSED, "I will not; [THE_KEY removed]")
    assert problem.usage.tokens_in == 100, "it is paid for"


@pytest.mark.parametrize(
    ("kinds", "lost"),
    # a server that did not say that it refused may have worked on the request
    [("too-fast page", 1), ("overloaded overloaded", 0), ("broken gateway-timeout", 2)],
)
def test_a_fault_of_the_moment_is_tried_again(provider: str, kinds: str, lost: int) -> None:
    with saying(provider, *(Said(error=kind) for kind in kinds.split()), Said()) as server:
        answer = answer_of(server)
    assert (answer.tries, answer.lost, answer.error, len(server.seen)) == (3, lost, None, 3)


def test_a_time_limit_ends_a_request_and_is_counted(provider: str) -> None:
    with saying(provider, Said(delay_s=20.0), Said()) as server:
        answer = answer_of(server, timeout_s=0.5)
        assert answer.tries == len(server.seen) > 1
    assert (answer.lost, answer.error) == (answer.tries - 1, None)
    # without an answer the lost attempts are told
    with saying(provider, Said(delay_s=20.0)) as server, pytest.raises(ServerDown) as caught:
        answer_of(server, timeout_s=0.1, patience_s=0.0)
    assert caught.value.lost == 1
    # a server that was not reached has nothing to be paid
    with pytest.raises(ServerDown) as caught:
        answer_of(server, patience_s=0.0)
    assert caught.value.lost == 0


@pytest.mark.parametrize(
    ("kind", "error", "says"),
    [
        ("no-credit", QuotaUsedUp, "quota of model server s .* is used up"),
        ("key", NotAllowed, "refused the key"),
        ("no-model", NotAllowed, "does not serve m"),
    ],
)
def test_what_ends_the_run(provider: str, kind: str, error: type[Exception], says: str) -> None:
    with saying(provider, Said(error=kind)) as server, pytest.raises(error, match=says):
        answer_of(server)
    assert len(server.seen) == 1, "it is not tried again"
    # what was lost before may have been paid
    with saying(provider, Said(error="broken"), Said(error=kind)) as server, pytest.raises(error) as caught:
        answer_of(server)
    assert isinstance(caught.value, CannotAsk)
    assert caught.value.lost == 1


def test_what_is_this_requests_failure(provider: str) -> None:
    cut, most, more = '{"bet', "x" * (MAX_TEXT + 1), "x" * (MAX_BODY_BYTES + 1)
    all_ = (Said(error="bad"), Said(cut, finish="length"), Said(most), Said(more))
    with saying(provider, *all_) as server:
        rejected, short, *long = (answer_of(server) for _ in all_)
    assert rejected.error == "the server refused the request: HTTP 400 (bad image)"
    assert short.finish_reason == "length"
    # an answer is kept up to a size
    assert [(len(answer.text), answer.finish_reason) for answer in long] == [
        (MAX_TEXT, TOO_LARGE),
        (0, TOO_LARGE),
    ]
    assert len(server.seen) == len(all_), "none is asked again"


def test_a_server_is_checked_before_the_first_request(provider: str) -> None:
    with ProviderServer(provider) as server:
        for model in ("listed", "alias")[: 1 + (provider != "openai")]:
            check_server(server_of(server, model=model))
        with pytest.raises(PrerequisiteError, match=r"does not serve none.*it has listed"):
            check_server(server_of(server, model="none"))


def test_a_profile_names_a_provider_only(provider: str) -> None:
    entry = ModelServer.model_validate({"provider": provider})
    found = Servers({"mine": entry}).find("mine", "m")
    assert found == Servers().find(provider, "m").model_copy(update={"name": "mine"})
    assert found.url.startswith("https://")
    with pytest.raises(ValidationError, match="provider"):
        ModelServer.model_validate({"provider": [provider]})


def test_a_page_in_place_of_an_answer_shows_no_part_of_the_key(provider: str) -> None:
    # the place at which the text is cut is within the key
    page = Said(page="<" * 75 + KEY + ">" * 215 + KEY)
    with saying(provider, page) as server, pytest.raises(ServerDown) as caught:
        answer_of(server, patience_s=0.0)
    assert KEY[:5] not in str(caught.value)


def test_its_cached_tokens_are_cheaper(provider: str) -> None:
    model = {"openai": "gpt-5-2025-08-07", "anthropic": "claude-sonnet-4-5", "google": "gemini-2.5-pro"}
    whole, cached = (load_prices().cost(model[provider], 100_000, 1000, cached_in=n) for n in (0, 60_000))
    assert 0 < (cached or 0) < (whole or 0)


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
