"""Judgements whose requests are handed over in batches and collected later."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from storage_schemas.errors import SlvmevalError
from storage_schemas.judgements import Judgement
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.providers.batches import BatchProvider, NoAnswer
from tasks.scoring.engine import CannotGoOn
from tasks.scoring.request import Request
from tasks.scoring.submitted import BatchAnswers, BatchService, HandOverUnknown


class RequestMaker(Protocol):
    """Makes the requests of one judge, and rows of the answers."""

    name: str

    def make_request(self, unit: Request) -> ChatRequest | list[Judgement]:
        """Return the request of a unit, or the row that says why there is none."""

    def answer(self, unit: Request, given: ChatAnswer | None = None) -> list[Judgement]:
        """Return the row of an answer."""


class JudgingBatches(BatchService[Request]):
    """Hands over a judge's requests, and makes rows of the answers as if they had come at once.

    Parameters
    ----------
    judging
        Makes requests and rows.
    provider
        The batches of the judge's server.
    """

    def __init__(self, judging: RequestMaker, provider: BatchProvider) -> None:
        self._judging, self._provider = judging, provider
        self._lines: dict[str, bytes] = {}

    def prepare(self, unit: Request) -> Sequence[Judgement]:
        """Make the request of a unit; return its row if that fails."""
        made = self._judging.make_request(unit)
        if not isinstance(made, ChatRequest):
            return made
        self._lines[unit.key] = self._provider.line(unit.key, made)
        return ()

    def fits(self, units: Sequence[Request]) -> bool:
        """Return whether a batch takes some prepared requests, at least one."""
        size = sum(len(self._lines[unit.key]) for unit in units)
        return len(units) <= 1 or (len(units) <= self._provider.most and size <= self._provider.most_bytes)

    def hand_over(self, name: str, units: Sequence[Request]) -> str:
        """Hand over requests."""
        try:
            handle = self._provider.hand_over(name, [self._lines[unit.key] for unit in units])
        except NoAnswer as problem:
            raise HandOverUnknown(str(problem)) from problem
        except SlvmevalError as problem:
            raise CannotGoOn(str(problem)) from problem
        for unit in units:
            del self._lines[unit.key]
        return handle

    def find(self, name: str, count: int, taken: Collection[str]) -> str | None:
        """Return the batch of a name."""
        try:
            return self._provider.find(name, count, taken)
        except SlvmevalError as problem:
            raise CannotGoOn(str(problem)) from problem

    def collect(self, handle: str, units: Sequence[Request]) -> BatchAnswers:
        """Return the rows of the answers that there are."""
        try:
            collected = self._provider.collect(handle)
        except SlvmevalError as problem:
            raise CannotGoOn(str(problem)) from problem
        rows = {
            unit.key: self._judging.answer(unit, collected.answers[unit.key])
            for unit in units
            if unit.key in collected.answers
        }
        failed = collected.failed and f"batch {handle} of {self._judging.name}: {collected.failed}"
        return BatchAnswers(rows, collected.ended, failed)
