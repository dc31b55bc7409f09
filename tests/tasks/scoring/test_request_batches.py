"""Batches against servers that speak the providers' interfaces: lost handles, bad lines, kinds of errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storage_schemas.judgements import Failure
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.providers.batches import BatchProvider, open_batches
from tasks.llm.servers import ChatServer
from tasks.scoring.engine import CannotContinue
from tasks.scoring.request_batches import RequestBatches
from tasks.scoring.submitted import BatchRecords
from tests.tiny_models.batch_server import BatchServer
from tests.tiny_models.provider_server import KEY, Said

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
