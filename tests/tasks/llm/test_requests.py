"""Requests of suites: each answer is kept, also over processes, and an answer that does not fit is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import Reason
from storage_schemas.judgements import Failure
from tasks.llm.answer_store import AnswerStore
from tasks.llm.chat import ChatClient
from tasks.llm.exchange import ChatAnswer
from tasks.llm.requests import AnswerNotStored, Calls, Parts, usage_of_kept
from tasks.llm.servers import ChatServer
from tasks.llm.usage import ModelUsage, NotJudged
from tasks.llm.vision_models import VlmModel
from tests.storage_schemas.full_disk import fill
from tests.tiny_models.faulty_server import FaultyServer, Reply

MODEL = VlmModel(model="tiny", server="s", context_tokens=60_000, answer_tokens=100, most_images=40)
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
Caller = Callable[..., Calls]


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Caller]:
    """Give what a process makes requests with; each call is another process."""
    made: list[ChatClient] = []

    def calls(server: FaultyServer, model: VlmModel = MODEL) -> Calls:
        made.append(ChatClient(ChatServer(name="s", url=server.url, model="tiny", patience_s=0.1)))
        return Calls(model, made[-1], AnswerStore(tmp_path))

    yield calls
    for client in made:
        client.close()


def scores(*all_: int) -> FaultyServer:
    return FaultyServer([Reply(json.dumps({"score": one})) for one in all_])


def words() -> Parts:
    return [{"type": "text", "text": "How good is it?"}]


def score(value: Any) -> int:
    result = value.get("score") if isinstance(value, dict) else None
    if not isinstance(result, int) or not 1 <= result <= 5:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"{result} is not a score from 1 to 5")
    return result


def test_an_answer_is_paid_for_once_also_by_another_process(calls: Caller) -> None:
    with scores(4) as server:
        first = calls(server).ask({"video": "a"}, "Score.", words, SCHEMA, score)
        again = calls(server).ask({"video": "a"}, "Score.", words, SCHEMA, score)
        assert len(server.seen) == 1
    assert (first.value, again.value, first.stored) == (4, 4, again.stored)
    assert (first.calls, again.calls, again.usage.tokens_in, again.usage.tokens_out) == (1, 0, 0, 0)


def test_a_kept_answer_has_the_prices_of_its_tokens(tmp_path: Path) -> None:
    server = ChatServer(name="s", url="http://127.0.0.1:1", model="tiny")
    calls = Calls(MODEL, ChatClient(server), AnswerStore(tmp_path))
    cached = ChatAnswer(text="{}", model="m", tokens_in=90, tokens_out=5, cached_in=60, written_in=20)
    calls.keep("cached", cached, {}, None, {})
    calls.keep("half", ChatAnswer(text="{}", model="m", tokens_out=5), {}, None, {"expected_in": 80})
    first, second = (usage_of_kept(one) for one in map(calls.answers.find, ("cached", "half")) if one)
    assert first == ModelUsage("m", tokens_in=90, tokens_out=5, cached_in=60, written_in=20)
    assert second == ModelUsage("m", tokens_out=5, uncounted=1, estimated_in=80)


def test_key_has_what_the_answer_depends_on_and_nothing_else(calls: Caller) -> None:
    asked: dict[str, Any] = {"what": {"video": "a"}, "system": "Score.", "schema": SCHEMA, "model": MODEL}

    def model(**changes: Any) -> dict[str, Any]:
        return {"model": MODEL.model_copy(update=changes)}

    with scores(4) as server:
        for requests, other in (
            (1, {}),
            (2, {"what": {"video": "b"}}),
            (3, {"system": "Score it well."}),
            (4, {"schema": {**SCHEMA, "additionalProperties": False}}),
            (5, model(temperature=0.5)),
            *(
                (5, model(**changes))
                for changes in ({"server": "t"}, {"thinking_tokens": 50}, {"schema_tokens": 9})
            ),
        ):
            one = asked | other
            calls(server, one["model"]).ask(one["what"], one["system"], words, one["schema"], score)
            assert len(server.seen) == requests, other


@pytest.mark.parametrize("text", ["Four.", '{"score": 1, "score": 3}', '{"score": 9}', '{"score": null}'])
def test_an_answer_that_does_not_fit_is_asked_again(calls: Caller, text: str) -> None:
    with FaultyServer([Reply(text), Reply(json.dumps({"score": 2}))]) as server:
        asking = calls(server)
        with pytest.raises(NotJudged) as problem:
            asking.ask({}, "Score.", words, SCHEMA, score)
        assert (problem.value.failure, problem.value.raw) == (Failure.NOT_UNDERSTOOD, text)
        assert asking.ask({}, "Score.", words, SCHEMA, score).value == 2
        assert len(server.seen) == 2


def test_cost_of_an_unkept_answer(tmp_path: Path, calls: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    with scores(4, 4) as server:
        asking = calls(server)
        with monkeypatch.context() as patched:
            fill(patched, tmp_path)
            with pytest.raises(AnswerNotStored, match="no space left below") as problem:
                asking.ask({}, "Score.", words, SCHEMA, score)
        assert problem.value.reason is Reason.OUT_OF_SPACE
        assert problem.value.usage.tokens() == (100, 20)
        assert asking.ask({}, "Score.", words, SCHEMA, score).calls == 1
