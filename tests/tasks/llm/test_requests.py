"""Requests of suites: each answer is kept, also over processes, and an answer that does not fit is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import Reason
from storage_schemas.judgements import Failure
from tasks.llm.answer_store import AnswerStore
from tasks.llm.chat import ChatClient
from tasks.llm.requests import AnswerNotStored, Calls, Parts
from tasks.llm.servers import ChatServer
from tasks.llm.usage import NotJudged
from tasks.llm.vision_models import VlmModel
from tests.storage_schemas.full_disk import fill
from tests.tiny_models.faulty_server import FaultyServer, Reply

MODEL = VlmModel(model="tiny", server="s", context_tokens=60_000, answer_tokens=100, most_images=40)
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


@pytest.fixture
def clients() -> Iterator[list[ChatClient]]:
    made: list[ChatClient] = []
    yield made
    for client in made:
        client.close()


def calls(server: FaultyServer, clients: list[ChatClient], folder: Path, model: VlmModel = MODEL) -> Calls:
    clients.append(ChatClient(ChatServer(name="s", url=server.url, model="tiny", patience_s=0.1)))
    return Calls(model, clients[-1], AnswerStore(folder))


def words() -> Parts:
    return [{"type": "text", "text": "How good is it?"}]


def score(value: Any) -> int:
    result = value.get("score") if isinstance(value, dict) else None
    if not isinstance(result, int) or not 1 <= result <= 5:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"{result} is no score from 1 to 5")
    return result


def test_an_answer_is_paid_for_once_also_by_another_process(
    tmp_path: Path, clients: list[ChatClient]
) -> None:
    with FaultyServer([Reply(json.dumps({"score": 4}))]) as server:
        first = calls(server, clients, tmp_path).ask({"video": "a"}, "Score.", words, SCHEMA, score)
        # what another process would find on the disk
        again = calls(server, clients, tmp_path).ask({"video": "a"}, "Score.", words, SCHEMA, score)
        assert len(server.seen) == 1
    assert (first.value, again.value, first.stored) == (4, 4, again.stored)
    assert (first.calls, again.calls, again.usage.tokens_in, again.usage.tokens_out) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    "other",
    [
        {"what": {"video": "b"}},
        {"system": "Score it well."},
        {"model": MODEL.model_copy(update={"temperature": 0.5})},
        {"schema": {**SCHEMA, "additionalProperties": False}},
    ],
)
def test_what_the_answer_depends_on_is_in_its_key(
    tmp_path: Path, clients: list[ChatClient], other: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"what": {"video": "a"}, "system": "Score.", "schema": SCHEMA, "model": MODEL}
    with FaultyServer([Reply(json.dumps({"score": 4}))]) as server:
        for one in (asked, asked | other):
            made = calls(server, clients, tmp_path, one["model"])
            made.ask(one["what"], one["system"], words, one["schema"], score)
        assert len(server.seen) == 2


def test_what_changes_no_answer_is_not_in_the_key(tmp_path: Path, clients: list[ChatClient]) -> None:
    with FaultyServer([Reply(json.dumps({"score": 4}))]) as server:
        for other in ({"server": "t"}, {"thinking_tokens": 50}, {"schema_tokens": 9}):
            model = MODEL.model_copy(update=other)
            calls(server, clients, tmp_path, model).ask({"video": "a"}, "Score.", words, SCHEMA)
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "text", ["Four.", '{"score": 1, "score": 3}', json.dumps({"score": 9}), json.dumps({"score": None})]
)
def test_an_answer_that_does_not_fit_is_asked_again(
    tmp_path: Path, clients: list[ChatClient], text: str
) -> None:
    with FaultyServer([Reply(text), Reply(json.dumps({"score": 2}))]) as server:
        asking = calls(server, clients, tmp_path)
        with pytest.raises(NotJudged) as problem:
            asking.ask({}, "Score.", words, SCHEMA, score)
        assert problem.value.failure is Failure.NOT_UNDERSTOOD
        assert problem.value.raw == text
        assert asking.ask({}, "Score.", words, SCHEMA, score).value == 2
        assert len(server.seen) == 2


def test_what_an_answer_took_is_known_where_it_cannot_be_kept(
    tmp_path: Path, clients: list[ChatClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyServer([Reply(json.dumps({"score": 4}))] * 2) as server:
        asking = calls(server, clients, tmp_path)
        with monkeypatch.context() as patched:
            fill(patched, tmp_path)
            with pytest.raises(AnswerNotStored, match="no space left below") as problem:
                asking.ask({}, "Score.", words, SCHEMA, score)
        assert problem.value.reason is Reason.OUT_OF_SPACE
        assert (problem.value.usage.tokens_in, problem.value.usage.tokens_out) == (100, 20)
        assert asking.ask({}, "Score.", words, SCHEMA, score).calls == 1
