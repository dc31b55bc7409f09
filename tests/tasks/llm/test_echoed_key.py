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


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage_schemas.secrets._reported", {})
    monkeypatch.setenv("MY_MODELS", KEY)


def asked(server: FaultyServer) -> ChatServer:
    return ChatServer(name="s", url=server.url, model="tiny", key_variable="MY_MODELS", patience_s=0.0)


def error(status: int, text: str) -> Reply:
    return Reply(status=status, body=json.dumps({"error": {"message": text}}).encode())


@pytest.mark.parametrize(
    "reply",
    [
        error(400, f"bad header Authorization: Bearer {KEY}"),
        # where the message is shortened, no part of the key may stay
        error(400, "x" * 295 + KEY),
        Reply(status=400, body=f"<p>{KEY}</p>".encode()),
        Reply(KEY, reasoning=f"the key is {KEY}", finish_reason=KEY),
    ],
    ids=["message", "at the limit", "page", "answer"],
)
def test_a_chat_answer_has_no_key(reply: Reply) -> None:
    with FaultyServer([reply], key=KEY) as server:
        client = ChatClient(asked(server))
        text = client.ask(ChatRequest(messages=({"role": "user", "content": "hello"},))).model_dump_json()
        client.close()
    assert "sk-0" not in text
    assert "[MY_M" in text


def test_other_servers_refusals_have_no_key() -> None:
    with FaultyServer([error(400, "x" * 170 + KEY), error(500, KEY)], key=KEY) as server:
        with pytest.raises(Refused, match=r"HTTP 400.*\[MY_M") as embedding:
            EmbeddingsClient(asked(server)).embed(["a"])
        with pytest.raises(RuntimeError, match=r"\[MY_MODELS removed\]") as clip:
            ServedClip(asked(server))._once("embeddings", {})
    assert "sk-0" not in f"{embedding.value} {clip.value}"


def test_a_list_of_models_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", KEY)
    with FaultyServer(models=(f"model-of-{KEY}",)) as server:
        found = list_models(ChatServer(name="s", url=server.url, model="", key_variable="MY_API_KEY"))
    assert found == ["model-of-[MY_API_KEY removed]"]
