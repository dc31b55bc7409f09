"""Batches against servers that speak the providers' interfaces: lost handles, bad lines, kinds of errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storage_schemas.judgements import Failure
from storage_schemas.offline_batches import answers_path
from tasks.llm.answers import complete
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.providers.batches import Attempt, BatchProvider, OfflineBatches, open_batches
from tasks.llm.servers import ChatServer
from tasks.llm.usage import NotJudged
from tasks.scoring.engine import CannotContinue
from tasks.scoring.request_batches import RequestBatches
from tasks.scoring.submitted import BatchRecords
from tests.tiny_models.batch_server import BatchServer
from tests.tiny_models.provider_server import KEY, Said
from tests.tiny_models.provider_server import _openai as openai_message

PROVIDERS = ("anthropic", "google", "openai")
each_provider = pytest.mark.parametrize("provider", PROVIDERS)


class Killed(BaseException):
    """Ends a process at once, as kill -9 does."""


class Maker:
    """Makes requests of units, and rows that are the answers."""

    name = "mine"

    def make_request(self, unit: Any) -> ChatRequest:
        return ChatRequest(messages=({"role": "user", "content": unit.key},))

    def answer(self, unit: Any, given: ChatAnswer) -> Sequence[Any]:
        return [given]


def units(*keys: str) -> list[Any]:
    return [SimpleNamespace(key=key, ids=((key,),), shares="") for key in keys]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchRecords:
    monkeypatch.setenv("THE_KEY", KEY)
    return BatchRecords(tmp_path)


@pytest.fixture
def server(provider: str) -> Iterator[BatchServer]:
    with BatchServer(provider) as server:
        yield server


def provider_of(server: BatchServer) -> BatchProvider:
    given = {"url": server.url, "provider": server.protocol, "key_variable": "THE_KEY"}
    return open_batches(ChatServer(name="s", model="m", **given))


def handed_over(
    server: BatchServer, records: BatchRecords, *keys: str, killed: bool = False
) -> RequestBatches[Any]:
    """Hand over requests; `killed` ends the process before it knows that they arrived."""
    provider = provider_of(server)
    service = RequestBatches[Any](Maker(), provider)
    for unit in units(*keys):
        service.prepare(unit)
    if not killed:
        records.hand_over(service, units(*keys))
        return service
    whole = provider.hand_over

    def dying(name: str, lines: Sequence[bytes]) -> str:
        whole(name, lines)
        raise Killed

    provider.hand_over = dying  # type: ignore[method-assign]
    with pytest.raises(Killed):
        records.hand_over(service, units(*keys))
    return RequestBatches[Any](Maker(), provider_of(server))


@each_provider
def test_lost_hand_overs_are_told_apart(provider: str, server: BatchServer, records: BatchRecords) -> None:
    keys = ("a1", "a2"), ("b1", "b2")
    for some in keys:
        service = handed_over(server, records, *some, killed=True)
    every = [key for some in keys for key in some]
    running = records.of(service, every)
    assert {key for batch in running for key in batch.keys} == set(every), "none is handed over again"
    server.answer()
    found = records.of(service, every)
    assert len({batch.handle for batch in found}) == 2
    for batch in found:
        answers = service.collect(batch.handle, units(*batch.keys))
        assert set(answers.rows) == batch.keys
    assert {batch.id for batch in records.batches()} == {batch.handle for batch in found}, "at once on disk"


@pytest.mark.parametrize("provider", ["anthropic"])
def test_other_programs_batch_stays(provider: str, server: BatchServer, records: BatchRecords) -> None:
    service = handed_over(server, BatchRecords(records.folder / "theirs"), "x1", "x2")
    with pytest.raises(Killed):
        records.hand_over(_Dying(Maker(), provider_of(server)), units("a1", "a2"))
    assert [batch.handle for batch in records.of(service, {"a1", "a2"})] == [""], "it may be that one"
    server.answer()
    assert records.of(service, {"a1", "a2"}) == [], "it is not"


class _Dying(RequestBatches[Any]):
    def hand_over(self, name: str, units: Sequence[Any]) -> str:
        raise Killed


BAD_LINES = ["null", '{"custom_id": nu', "[1, 2]", '{"response": {}}', '{"custom_id": null, "key": 3}']


@each_provider
def test_bad_lines_are_named_others_kept(provider: str, server: BatchServer, records: BatchRecords) -> None:
    service = handed_over(server, records, "a", "b")
    server.bad_lines = "\n".join([*BAD_LINES, ""])
    server.answer()
    (batch,) = records.of(service, {"a", "b"})
    answers = service.collect(batch.handle, units("a", "b"))
    assert answers.ended
    assert {key: rows[0].text for key, rows in answers.rows.items()} == dict.fromkeys("ab", Said().text)
    # OpenAI has a second file, of errors
    assert len(answers.notes) == len(BAD_LINES) * (2 if provider == "openai" else 1)
    assert "line 2, '{\"custom_id\": nu'" in answers.notes[1]


@each_provider
@pytest.mark.parametrize(
    ("kind", "failure"),
    [
        ("bad", Failure.REFUSED),
        ("too-fast", Failure.SERVER_ERROR),
        ("overloaded", Failure.SERVER_ERROR),
        ("no-model", Failure.NOT_ALLOWED),
    ],
)
def test_errors_in_a_batch_are_of_the_same_kinds_as_live(
    provider: str, kind: str, failure: Failure, server: BatchServer, records: BatchRecords
) -> None:
    service = handed_over(server, records, "a")
    server.answer(lambda _: Said(error=kind))
    (batch,) = records.of(service, {"a"})
    ((row,),) = service.collect(batch.handle, units("a")).rows.values()
    assert row.failure is failure


@each_provider
def test_403_is_a_requests_unless_of_all(provider: str, server: BatchServer, records: BatchRecords) -> None:
    service = handed_over(server, records, "a", "b")
    for other, failure in (("bad", Failure.REFUSED), ("forbidden", Failure.NOT_ALLOWED)):
        server.batches["batch_0"].said.clear()
        server.answer(lambda number, other=other: Said(error=other if number else "forbidden"))  # type: ignore[misc]
        (batch,) = records.of(service, {"a", "b"})
        rows = service.collect(batch.handle, units("a", "b")).rows
        assert rows["a"][0].failure is failure


@each_provider
def test_a_batch_can_be_given_up(provider: str, server: BatchServer, records: BatchRecords) -> None:
    service = handed_over(server, records, "a", "b")
    (waiting,) = records.batches()
    assert (waiting.by, waiting.units, waiting.state) == ("mine", 2, "handed over")
    assert waiting.in_words().startswith(f"batch {waiting.id} of mine: 2 requests, handed over 0 min ago")
    assert records.give_up("another") == 0
    server.batches.clear()
    with pytest.raises(CannotContinue, match=f"gc --set batch={waiting.id}"):
        service.collect(waiting.id, units("a"))
    assert records.give_up(waiting.id) == 2
    assert records.waiting() == set()


@each_provider
@pytest.mark.usefixtures("records")
def test_a_batch_is_found_as_long_as_its_answers_can_be_collected(provider: str, server: BatchServer) -> None:
    batches, then = provider_of(server), datetime.now(UTC) - timedelta(days=10)
    id_ = batches.hand_over("ours", [batches.line("a", Maker().make_request(*units("a")))])
    server.batches["batch_0"].made_at = then
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
