from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage_schemas.judgements import Failure
from storage_schemas.offline_batches import answers_path
from tasks.llm.answers import complete
from tasks.llm.providers.batches import OfflineBatches
from tasks.llm.servers import ChatServer
from tasks.llm.usage import NotJudged
from tests.tiny_models.provider_server import Said
from tests.tiny_models.provider_server import _openai as openai_message


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
