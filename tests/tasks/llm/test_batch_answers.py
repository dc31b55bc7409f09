from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from storage_schemas.judgements import Failure
from storage_schemas.offline_batches import answers_path
from tasks.llm.answers import complete
from tasks.llm.exchange import ChatRequest
from tasks.llm.providers.batches import Attempt, OfflineBatches, open_batches
from tasks.llm.servers import ChatServer
from tasks.llm.usage import NotJudged
from tests.tiny_models.batch_server import BatchServer
from tests.tiny_models.provider_server import KEY, Said
from tests.tiny_models.provider_server import _openai as openai_message


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_a_batch_is_found_as_long_as_its_answers_can_be_collected(
    provider: Literal["openai", "anthropic", "google"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    asked = ChatRequest(messages=({"role": "user", "content": "hello"},))
    then = datetime.now(UTC) - timedelta(days=10)
    with BatchServer(provider) as server:
        where = ChatServer(name="s", url=server.url, provider=provider, model="m", key_variable="THE_KEY")
        batches = open_batches(where)
        id_ = batches.hand_over("ours", [batches.line("a", asked)])
        for batch in server.batches.values():
            batch.made_at = then
        server.answer()
        attempt = Attempt("ours", frozenset("a"), 1, then)
        assert batches.find(attempt, ()) == id_, "what is not found is paid for again"


def test_two_answers_to_one_request_are_both_kept_and_neither_counts(tmp_path: Path) -> None:
    first, second = '{"better": "first"}', '{"better": "second"}'
    said = {"both": [first, second, first], "same": [first, first], "one": [second]}
    lines = [
        {"custom_id": id_, "response": {"status_code": 200, "body": openai_message(Said(text=text))}}
        for id_, texts in said.items()
        for text in texts
    ]
    answers_path(tmp_path, "b").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    provider = OfflineBatches(ChatServer(name="s", url="offline", model="m", offline=tmp_path))
    answers = provider.collect("b").answers
    assert [complete(answers[id_]).text for id_ in ("same", "one")] == [first, second]
    with pytest.raises(NotJudged, match="2 different answers") as told:
        complete(answers["both"])
    assert told.value.failure is Failure.NOT_UNDERSTOOD
    assert told.value.raw == f"{first}\n\n{second}"
