"""Requests that are handed over in batches and collected later."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

from storage_schemas.errors import SlvmevalError
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.providers.batches import Attempt, BatchProvider, NoAnswer, sorted_forbidden
from tasks.scoring.engine import CannotContinue, Row, U, Unit
from tasks.scoring.submitted import BatchAnswers, BatchService, HandOverUnknown

_Asked = TypeVar("_Asked", bound=Unit, contravariant=True)


class RequestMaker(Protocol[_Asked]):
    """Makes a request of each unit, and rows of the answers."""

    name: str

    def make_request(self, unit: _Asked) -> ChatRequest | Sequence[Row]:
        """Return the request of a unit, or the rows that say why there is none."""

    def answer(self, unit: _Asked, given: ChatAnswer) -> Sequence[Row]:
        """Return the rows of an answer."""


class RequestBatches(BatchService[U]):
    """Hands over requests, and makes rows of the answers as if they had come at once.

    Parameters
    ----------
    maker
        Makes requests and rows.
    provider
        The batches of the requests' server.
    """

    def __init__(self, maker: RequestMaker[U], provider: BatchProvider) -> None:
        self._maker, self._provider = maker, provider
        self.name = maker.name
        self.most, self.most_bytes = provider.most, provider.most_bytes
        self._lines: dict[str, bytes] = {}

    def prepare(self, unit: U) -> Sequence[Row]:
        """Make the request of a unit; return its row if that fails."""
        made = self._maker.make_request(unit)
        if not isinstance(made, ChatRequest):
            return made
        self._lines[unit.key] = self._provider.line(unit.key, made)
        return ()

    def size(self, unit: U) -> int:
        """Return the bytes of a prepared request."""
        return len(self._lines[unit.key])

    def hand_over(self, name: str, units: Sequence[U]) -> str:
        """Hand over requests."""
        try:
            handle = self._provider.hand_over(name, [self._lines[unit.key] for unit in units])
        except NoAnswer as problem:
            raise HandOverUnknown(str(problem)) from problem
        except SlvmevalError as problem:
            raise CannotContinue(str(problem)) from problem
        for unit in units:
            del self._lines[unit.key]
        return handle

    def find(self, attempt: Attempt, taken: Collection[str]) -> str | None:
        """Return the batch of an attempt."""
        try:
            return self._provider.find(attempt, taken)
        except SlvmevalError as problem:
            raise CannotContinue(str(problem)) from problem

    def collect(self, handle: str, units: Sequence[U]) -> BatchAnswers:
        """Return the rows of the answers that exist."""
        try:
            collected = self._provider.collect(handle)
        except SlvmevalError as problem:
            raise CannotContinue(
                f"{problem}. To ask again without batch {handle}: `slvmeval gc --set batch={handle}`"
            ) from problem
        answers = sorted_forbidden(collected.answers)
        rows = {
            unit.key: self._maker.answer(unit, answers[unit.key]) for unit in units if unit.key in answers
        }
        failed = collected.failed and f"batch {handle} of {self._maker.name}: {collected.failed}"
        notes = tuple(f"batch {handle} of {self.name}: {line} has no answer" for line in collected.bad)
        return BatchAnswers(rows, collected.ended, failed, collected.state, notes)
