"""A server that repeats the key of a request: it never leaves the client."""

from __future__ import annotations

import json

import pytest

from tasks.llm.chat import ChatClient
from tasks.llm.embeddings import EmbeddingsClient, Refused
from tasks.llm.exchange import ChatRequest
from tasks.llm.servers import ChatServer, list_models
from tasks.models.clip import ServedClip
from tests.tiny_models.faulty_server import FaultyServer, Reply

KEY = "sk-0123456789"
SHOWN = "[MY_MODELS removed]"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage_schemas.secrets._reported", {})
    monkeypatch.setenv("MY_MODELS", KEY)


def chat_server(server: FaultyServer) -> ChatServer:
    return ChatServer(name="s", url=server.url, model="tiny", key_variable="MY_MODELS", patience_s=0.1)


def error(text: str) -> bytes:
    return json.dumps({"error": {"message": text}}).encode()


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=400, body=error(f"bad header Authorization: Bearer {KEY}")),
        # where the message is shortened, no part of the key may stay
        Reply(status=400, body=error("x" * 295 + KEY)),
        Reply(status=400, body=f"<p>{KEY}</p>".encode()),
        Reply(KEY, reasoning=f"the key is {KEY}", finish_reason=KEY),
    ],
    ids=["message", "at the limit", "page", "answer"],
)
def test_a_chat_answer_has_no_key(reply: Reply) -> None:
    with FaultyServer([reply], key=KEY) as server:
        client = ChatClient(chat_server(server))
        answer = client.ask(ChatRequest(messages=({"role": "user", "content": "hello"},)))
        client.close()
    text = answer.model_dump_json()
    assert "sk-0" not in text
    assert "[MY_M" in text


@pytest.mark.usefixtures("asked")
def test_embeddings_have_no_key_in_their_refusal() -> None:
    with (
        FaultyServer([Reply(status=400, body=error("x" * 170 + KEY))], key=KEY) as server,
        pytest.raises(Refused, match="HTTP 400") as caught,
    ):
        EmbeddingsClient(chat_server(server)).embed(["a"])
    assert "sk-0" not in str(caught.value)
    assert "[MY_M" in str(caught.value)


@pytest.mark.usefixtures("asked")
def test_a_clip_server_has_no_key_in_its_refusal() -> None:
    with (
        FaultyServer([Reply(status=500, body=error(KEY))], key=KEY) as server,
        pytest.raises(RuntimeError) as caught,
    ):
        ServedClip(chat_server(server))._once("embeddings", {})
    assert SHOWN in str(caught.value)


def test_a_list_of_models_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage_schemas.secrets._reported", {})
    monkeypatch.setenv("MY_API_KEY", KEY)
    with FaultyServer(models=(f"model-of-{KEY}",)) as server:
        asked = ChatServer(name="s", url=server.url, model="", key_variable="MY_API_KEY")
        assert list_models(asked) == ["model-of-[MY_API_KEY removed]"]
