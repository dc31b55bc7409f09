"""Judgements of pairs as a kind of work: each request to an evaluator becomes a row."""

from __future__ import annotations

import json
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from storage_schemas.errors import PrerequisiteError, SetAside, SlvmevalError, StoreError, UserInputError
from storage_schemas.ids import canonical_json, digest_value
from storage_schemas.judgements import (
    CONTROL_KEY,
    PROBE_KEY,
    WORDING_KEY,
    Failure,
    Judgement,
    JudgementsStore,
    preferred,
)
from storage_schemas.provenance import utc_now
from storage_schemas.store import Store
from storage_schemas.value_problems import value_problem
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.limits import RateLimit
from tasks.llm.printed_prompts import prompts_label
from tasks.llm.providers.batches import open_batches
from tasks.llm.requests import AnswerNotStored, usage_of_kept
from tasks.llm.servers import ChatServer, require_address
from tasks.llm.usage import Estimate, ModelUsage, NotJudged, Usage, estimated_cost, usage_fields
from tasks.pairs.view import Pair, Side
from tasks.scoring.base import (
    AspectText,
    BatchJudge,
    DescribingJudge,
    Evaluator,
    JudgeAnswer,
    PairwiseJudge,
    PointwiseScorer,
    PrefixJudge,
    SharedBeginning,
    not_readable,
)
from tasks.scoring.described_first import DescribedFirst, Description
from tasks.scoring.engine import CannotContinue, Form, Kind, Row, Work
from tasks.scoring.probes import SWAPPED_NAMES, exchanged, probe_settings, probed, read_choice
from tasks.scoring.registry import EvaluatorChoice, make_evaluator
from tasks.scoring.request import PairSet, Request, beginnings, changed_texts, settings_digest
from tasks.scoring.request_batches import RequestBatches
from tasks.scoring.scorer_as_judge import ScoreCache
from tasks.scoring.setup import Setup
from tasks.scoring.submitted import BatchRecords, Submitted

log = logging.getLogger(__name__)

#: Possible choices of a judge.
CHOICES = ("first", "second", "tie")
_OPEN_PAIRS = 16
#: Maximum number of requests prepared concurrently for a batch, which decodes videos.
_MAX_PREPARED = 8

Done = TypeVar("Done")


@dataclass(frozen=True)
class JudgingWork(Work[Request]):
    """Context shared by all tasks of an evaluation.

    Parameters
    ----------
    setup
        Resources from which evaluators are made.
    pairs
        The pairs; frozen, and the same in every process.
    changed_texts
        Checksums of replaced descriptions by aspect: an evaluator with another description counts as another
        evaluator, with settings of its own.
    evaluators
        The evaluators by label.
    beginnings
        Which beginnings several requests of the run share, by :func:`~tasks.scoring.request.beginnings`.
    batch, collect_only
        Whether requests go in batches, and whether only those are collected that were handed over.
    """

    counts_folder: ClassVar[str] = "evaluations"

    setup: Setup = field(kw_only=True)
    pairs: PairSet = field(kw_only=True)
    changed_texts: Mapping[str, str] = field(default_factory=dict)
    evaluators: Mapping[str, EvaluatorChoice] = field(default_factory=dict)
    beginnings: frozenset[str] = frozenset()
    batch: bool = False
    collect_only: bool = False

    @property
    def collects(self) -> bool:
        """Whether it only collects what was handed over in batches."""
        return self.collect_only

    def rows(self) -> JudgementsStore:
        """Return this process's store of judgements."""
        return _judgements(self.store_path)

    def kind(self, name: str) -> Judging:
        """Return the judging of one evaluator; all tasks of this process share what it loads."""
        choice = self.evaluators[name]
        evaluator = _evaluator(choice.model_dump_json(), self.setup.model_dump_json())
        return Judging(evaluator, name, choice, self)

    def text(self, aspect: str, dimension: str, described_in: str | None = None) -> AspectText:
        """Return an aspect's description for evaluators.

        Parameters
        ----------
        described_in
            An evaluator's own folder of prompts; None for that of the run.
        """
        prompts = self.setup.prompts if described_in is None else described_in
        return self.pairs.text(aspect, dimension, prompts)


#: By a request's key, on which they depend: the keys of its two videos' descriptions.
_described: dict[str, tuple[str, str]] = {}


@cache
def _judgements(store_path: str) -> JudgementsStore:
    return JudgementsStore(Store(Path(store_path)))


@cache
def _evaluator(choice: str, setup: str) -> Evaluator:
    return make_evaluator(EvaluatorChoice.model_validate_json(choice), Setup.model_validate_json(setup))


class Judging(Kind[Request]):
    """Judging by one evaluator.

    Parameters
    ----------
    evaluator, label
        The evaluator, and its name in tables.
    choice
        How it runs.
    """

    def __init__(self, evaluator: Evaluator, label: str, choice: EvaluatorChoice, work: JudgingWork) -> None:
        self.evaluator, self.name, self.work = evaluator, label, work
        self.probe = choice.probe
        if self.probe == SWAPPED_NAMES:
            self.evaluator = exchanged(evaluator) or evaluator
        self.hardware, self.placement_name = evaluator.hardware, evaluator.name
        self.concurrency = choice.concurrency or evaluator.concurrency
        self.rate = RateLimit(
            work.cache / "rates", label, choice.requests_per_minute, choice.tokens_per_minute
        )
        self._settings = settings_digest(evaluator)
        own = choice.settings.get("prompts") or work.setup.prompts
        self._prompts = prompts_label(own, evaluator.prompt_areas)
        self._wording, self._described_in = choice.wording, choice.described_in
        self._changed_texts = work.changed_texts
        if self._described_in is not None:
            self._changed_texts = changed_texts(work.pairs, self._described_in)
        texts = dict(self._changed_texts)
        self._changed = digest_value({"settings": self._settings, "texts": texts})[:16]
        self._scores = ScoreCache()
        self._lock = threading.Lock()
        self._leaders: dict[str, str] = {}
        self._traced: set[str] = set()  # errors whose traceback is in the log
        self._pairs: dict[str, Pair] = {}
        self._texts: dict[str, AspectText] = {}

    def settings_of(self, aspect: str) -> str:
        """Return the settings checksum in rows on an aspect."""
        settings = self._changed if aspect in self._changed_texts else self._settings
        return probe_settings(settings, self.probe)

    def estimates(self, unit: Request) -> Sequence[Estimate]:
        """Return the evaluator's estimate of a request; empty if it has none."""
        try:
            pair, text = self._shown(unit)
            first, second = (pair.low, pair.high) if unit.order == "low_first" else (pair.high, pair.low)
            estimates = self._evaluator_of(unit).estimate(pair.prompt, first, second, text)
        except Exception as problem:  # noqa: BLE001 - the request itself will report the problem
            log.info("%s cannot estimate pair %s: %s", self.name, unit.pair.pair_id, problem)
            return ()
        return [estimates] if isinstance(estimates, Estimate) else estimates or ()

    @property
    def _shares(self) -> bool:
        return isinstance(self.evaluator, PrefixJudge) and self.evaluator.shares_beginnings

    def in_order(self, units: Sequence[Request]) -> Sequence[Request]:
        """Return requests so that those which begin alike are adjacent, source by source."""
        if not self._shares:
            return units
        ranks: dict[str, int] = {}
        placed = []
        for unit in units:
            keys = (unit.shares, *(key for _, key in beginnings(unit.pair, unit.order)))
            placed.append(tuple(ranks.setdefault(key, len(ranks)) for key in keys))
        order = sorted(range(len(units)), key=placed.__getitem__)
        return [units[index] for index in order]

    def leaders(self, units: Sequence[Request]) -> set[str]:
        """Return the requests after which a server may have the beginnings of the others in its cache."""
        if not self._shares:
            return set()
        return {unit.key for unit in units if len(self._beginning(unit).ends) > self._beginning(unit).read}

    def _beginning(self, unit: Request) -> SharedBeginning:
        """Return how a request begins like others; the first of a beginning in this process is its leader."""
        ends, read = [], 0
        for number, key in beginnings(unit.pair, unit.order):
            if key in self.work.beginnings:
                ends.append(number)
                with self._lock:
                    first = self._leaders.setdefault(key, unit.key) == unit.key
                read = read if first else number
        # what is asked in a batch may be asked at the same time
        return SharedBeginning(tuple(ends), 0 if self.work.batch else read)

    def _evaluator_of(self, unit: Request) -> Evaluator:
        """Return the evaluator for a request, which knows what that shares with others."""
        if not isinstance(self.evaluator, PrefixJudge) or not self._shares:
            return self.evaluator
        return self.evaluator.sharing(self._beginning(unit))

    @property
    def form(self) -> Form[Request]:
        """Live; with `batch`, in batches of the judge's server."""
        if not self.work.batch:
            return super().form
        judge, collect_only = self._batch_judge(), self.work.collect_only
        threads = min(self.concurrency, _MAX_PREPARED)
        try:
            service = RequestBatches(self, open_batches(judge.server))
            if not isinstance(judge, DescribingJudge):
                return Submitted(service, collect_only, threads)
            descriptions = RequestBatches(_Describer(self), open_batches(judge.descriptions.server))
        except SlvmevalError as problem:
            raise PrerequisiteError(f"{self.name}: {problem}") from problem
        answers, locks = judge.descriptions.answers, self.work.cache / "describing"
        return DescribedFirst(self, descriptions, service, answers, locks, collect_only, threads)

    def _batch_judge(self) -> BatchJudge:
        if not isinstance(self.evaluator, BatchJudge):
            raise UserInputError(
                f"{self.name} cannot be asked in batches: that takes a judge whose comparison is one request "
                "to a model's server, such as vlm-video and vlm-text. Leave out --batch, or this evaluator"
            )
        return self.evaluator

    def check(self) -> None:
        """Check, before any work, the evaluator and that it can be asked in the form that was chosen."""
        for server in self.servers:
            if self.work.batch:
                open_batches(server)
            else:
                require_address(server)
        self.evaluator.check()

    @property
    def servers(self) -> list[ChatServer]:
        """The servers of a judge that may be asked in batches; none for other evaluators.

        Raises
        ------
        UserInputError
            If batches were chosen, and it cannot be asked so.
        """
        judge = self._batch_judge() if self.work.batch else self.evaluator
        if not isinstance(judge, BatchJudge):
            return []
        describer = [judge.descriptions.server] if isinstance(judge, DescribingJudge) else []
        return list(dict.fromkeys([judge.server, *describer]))

    def in_batches(self, units: Sequence[Request]) -> list[Request]:
        """Return the units of which a request, or one for a description, waits in a batch."""
        waiting = BatchRecords(self.work.rows().path).waiting()
        judge = self.evaluator
        if isinstance(judge, DescribingJudge):
            described = BatchRecords(judge.descriptions.answers.folder).waiting()
            for one in self.missing_descriptions(units)[0] if described else ():
                if one.key in described:
                    waiting |= {unit.key for unit in one.wanted_by}
        return [unit for unit in units if unit.key in waiting]

    def missing_descriptions(self, units: Iterable[Request]) -> tuple[list[Description], list[Judgement]]:
        """Return what is missing for some units, and the rows of those whose videos cannot be read."""
        judge = self.evaluator
        assert isinstance(judge, DescribingJudge)
        unreadable: list[Judgement] = []
        missing: dict[str, tuple[bool, list[Request]]] = {}
        for unit in units:
            if unit.key not in _described:
                found = self.with_pair(unit, self._description_keys)
                if isinstance(found, list):
                    unreadable += found
                    continue
                _described[unit.key] = found
            high, low = _described[unit.key]
            # equal videos have one description
            for key, is_low in {low: True, high: False}.items():
                if judge.descriptions.answers.find(key) is None:
                    missing.setdefault(key, (is_low, []))[1].append(unit)
        return [Description(key, is_low, tuple(by)) for key, (is_low, by) in missing.items()], unreadable

    def _description_keys(self, pair: Pair, text: AspectText) -> tuple[str, str]:
        judge = self.evaluator
        assert isinstance(judge, DescribingJudge)
        return judge.descriptions.key(pair.high, text), judge.descriptions.key(pair.low, text)

    def answer(self, unit: Request, given: ChatAnswer | None = None) -> list[Judgement]:
        """Return the row of a request.

        Parameters
        ----------
        given
            The answer to what :meth:`make_request` made; None to ask now.

        Raises
        ------
        CannotContinue
            If no request of this evaluator can be answered.
        """
        began = time.perf_counter()

        def row(pair: Pair, text: AspectText) -> list[Judgement]:
            fields = self._fields(unit, pair, text, given)
            # a value of a wrong type is the evaluator's failure too
            return [self._row(unit, {"seconds": time.perf_counter() - began, **fields})]

        return self.with_pair(unit, row)

    def make_request(self, unit: Request) -> ChatRequest | list[Judgement]:
        """Return the request to the model; if it cannot be made, the row that says why.

        Raises
        ------
        CannotContinue
            If no request of this evaluator can be made.
        """
        self._batch_judge()
        judge = self._evaluator_of(unit)
        assert isinstance(judge, BatchJudge)
        return self.with_pair(
            unit, lambda pair, text: judge.make_request(pair.prompt, *_in_order(unit, pair), text)
        )

    def with_pair(
        self, unit: Request, work: Callable[[Pair, AspectText], Done | list[Judgement]]
    ) -> Done | list[Judgement]:
        """Return the result of `work` on a request's pair; if that fails, rows with the reason.

        Raises
        ------
        CannotContinue
            If no request of this evaluator can be made or answered.
        """
        try:
            pair, text = self._shown(unit)
        except (SlvmevalError, OSError) as problem:
            log.error("pair %s cannot be opened: %s", unit.pair.pair_id, problem)
            why = not_readable(problem)
            return self.failed(unit, why.failure, why.message)
        began = time.perf_counter()
        try:
            return work(pair, text)
        except NotJudged as problem:
            return [self._row(unit, {"seconds": 0.0, **self._not_judged(unit, problem)})]
        except AnswerNotStored as problem:
            paid = NotJudged(Failure.INTERNAL_ERROR, str(problem), usage=problem.usage)
            return [self._row(unit, {"seconds": 0.0, **self._not_judged(unit, paid)})]
        except (PrerequisiteError, UserInputError) as problem:
            raise CannotContinue(str(problem)) from problem
        except (SetAside, StoreError, OSError) as problem:
            why = not_readable(problem)
            fields = {"failure": why.failure, "message": why.message}
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a row: other requests are not affected
            message = _message(problem)
            said = message if message in self._traced else traceback.format_exc()
            self._traced.add(message)
            log.error("%s on pair %s failed:\n%s", self.name, unit.pair.pair_id, said)
            fields = {"failure": Failure.INTERNAL_ERROR, "message": message}
        return [self._row(unit, {"seconds": time.perf_counter() - began, "cost_usd": 0.0, **fields})]

    def failed(self, unit: Request, failure: Failure, message: str) -> list[Judgement]:
        """Return the row of a request without an answer, which costs nothing."""
        return [self._row(unit, {"failure": failure, "message": message, "cost_usd": 0.0})]

    def copied(self, row: Row, unit: Request, index: int) -> Judgement:
        """Return the row of an identical request on another pair, for instance of another release."""
        assert isinstance(row, Judgement)
        nothing = {"frames": 0, "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0, "seconds": 0.0}
        pair = {"pair_id": unit.pair.pair_id, "source_id": unit.pair.source_id}
        probability = {} if row.p_first is None else {"p_first": row.p_first}
        details = canonical_json({"answered_for": row.pair_id, **probability, **self._said(unit)})
        # a probe that shows one video twice has one answer for both orders
        way: dict[str, Any] = {"order": unit.order}
        if row.choice is not None:
            way["preferred"] = preferred(row.choice, unit.order)
        return row.model_copy(update={**nothing, **pair, **way, "details": details, "at": utc_now()})

    def _said(self, unit: Request) -> dict[str, Any]:
        """Return the information on pair and evaluator in a row's details."""
        control = {CONTROL_KEY: True} if unit.pair.control else {}
        probe = {PROBE_KEY: self.probe} if self.probe else {}
        own = self.name.removesuffix(f"+{self.probe}" if self.probe else "").removesuffix(f"+{self._wording}")
        wording = {WORDING_KEY: {"of": own, "name": self._wording}} if self._wording else {}
        return {**control, **probe, **wording}

    def _shown(self, unit: Request) -> tuple[Pair, AspectText]:
        """Return a pair as the evaluator is given it, and the description of its aspect."""
        pair = unit.pair
        with self._lock:
            if pair.aspect not in self._texts:
                self._texts[pair.aspect] = self.work.text(pair.aspect, pair.dimension, self._described_in)
            text, opened = self._texts[pair.aspect], self._open(pair.pair_id)
            lent = self._open(unit.prompt_of).prompt if unit.prompt_of else ""
        return probed(opened, self.probe, lent), text

    def _open(self, pair_id: str) -> Pair:
        """Return a pair; recently used ones stay open."""
        if pair_id not in self._pairs:
            while len(self._pairs) >= _OPEN_PAIRS:
                self._pairs.pop(next(iter(self._pairs)))
            self._pairs[pair_id] = self.work.pairs.open(pair_id)
        return self._pairs[pair_id]

    def _fields(
        self, request: Request, pair: Pair, text: AspectText, given: ChatAnswer | None
    ) -> dict[str, Any]:
        """Return the fields of an answer, or of the evaluator's failure."""
        try:
            return self._answer(request, pair, text, given)
        except NotJudged as problem:
            return self._not_judged(request, problem)

    def _not_judged(self, request: Request, problem: NotJudged) -> dict[str, Any]:
        return {
            "failure": problem.failure,
            "message": problem.message,
            "raw": problem.raw,
            "finish_reason": problem.finish_reason,
            **self._failed_usage(request, problem.usage, problem.details),
        }

    def _row(self, request: Request, fields: Mapping[str, Any]) -> Judgement:
        pair = request.pair
        if said := self._said(request):
            details = {**json.loads(fields.get("details", "{}")), **said}
            fields = {**fields, "details": canonical_json(details)}
        return Judgement(
            key=request.key,
            evaluator=self.name,
            settings=self.settings_of(pair.aspect),
            pair_id=pair.pair_id,
            source_id=pair.source_id,
            aspect=pair.aspect,
            order=request.order,
            repeat=request.repeat,
            prompts=self._prompts,
            use=self.evaluator.name,
            at=utc_now(),
            **fields,
        )

    def _failed_usage(self, request: Request, usage: Usage, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return the cost of a failed request; the model whose price applies is that of its estimate."""
        estimates = self.estimates(request) if usage.paid else ()
        model = estimates[-1].model if estimates else ""
        lost = {"lost": usage.lost} if usage.lost else {}
        return {
            "model": model,
            **usage_fields(self.work.prices, model, usage),
            "details": canonical_json({**details, **lost, **estimated_cost(self.work.prices, model, usage)}),
        }

    def _answer(
        self, request: Request, pair: Pair, text: AspectText, given: ChatAnswer | None
    ) -> dict[str, Any]:
        if isinstance(self.evaluator, PointwiseScorer):
            comparison = self._scores.compare(self.evaluator, request.pair, pair, text)
            prices, model, usages = self.work.prices, comparison.model, comparison.usages
            unknown = estimated_cost(prices, model, *usages)
            details = canonical_json({**comparison.details, **unknown})
            return {**comparison.fields, **usage_fields(prices, model, *usages), "details": details}
        if not isinstance(self.evaluator, PairwiseJudge):
            raise TypeError(f"{type(self.evaluator).__name__} is neither a judge nor a scorer")
        sides = _in_order(request, pair)
        judge = self._evaluator_of(request)
        assert isinstance(judge, PairwiseJudge)
        if given is None:
            answer = judge.compare(pair.prompt, *sides, text)
        else:
            paid = self._paid_descriptions(request, sides, text)
            try:
                assert isinstance(judge, BatchJudge)
                answer = judge.read_answer(given, pair.prompt, *sides, text)
            except NotJudged as problem:
                problem.usage = replace(problem.usage, others=(*problem.usage.others, *paid))
                raise
            answer = replace(answer, usage=replace(answer.usage, others=(*answer.usage.others, *paid)))
        if not isinstance(answer, JudgeAnswer) or answer.choice not in CHOICES:
            raise TypeError(
                f"it answered {answer!r:.200}, which is not a JudgeAnswer with first, second or tie"
            )
        choice = read_choice(answer.choice, self.probe)
        return {
            "choice": choice,
            "preferred": preferred(choice, request.order),
            "raw": answer.raw,
            "reasoning": answer.reasoning,
            "finish_reason": answer.finish_reason,
            "model": answer.model,
            "prompt_digest": answer.prompt_digest,
            **usage_fields(self.work.prices, answer.model, answer.usage),
            "details": canonical_json(
                {**answer.details, **estimated_cost(self.work.prices, answer.model, answer.usage)}
            ),
        }

    def _paid_descriptions(
        self, request: Request, videos: Iterable[Side], text: AspectText
    ) -> tuple[ModelUsage, ...]:
        """Return the tokens of the descriptions whose cost the row of a request counts."""
        judge = self.evaluator
        if not isinstance(judge, DescribingJudge):
            return ()
        keys = dict.fromkeys(judge.descriptions.key(video, text) for video in videos)
        found = [judge.descriptions.answers.find(key) for key in keys]
        return tuple(usage_of_kept(one) for one in found if one is not None and one.paid_by == request.key)


class _Describer:
    """Makes the requests for a judge's descriptions, and keeps the answers."""

    def __init__(self, judging: Judging) -> None:
        assert isinstance(judging.evaluator, DescribingJudge)
        self.name = judging.name
        self._judging, self._descriptions = judging, judging.evaluator.descriptions

    def make_request(self, unit: Description) -> ChatRequest | list[Judgement]:
        """Return the request for a description; if it cannot be made, the rows of what wants it."""

        def request(pair: Pair, text: AspectText) -> ChatRequest:
            return self._descriptions.make_request(unit.of(pair), text)

        return self._with_pair(unit, request)

    def answer(self, unit: Description, given: ChatAnswer) -> list[Judgement]:
        """Keep a description, and return no row; if there is none, the rows of what wants it."""

        def keep(pair: Pair, text: AspectText) -> list[Judgement]:
            self._descriptions.keep(given, unit.of(pair), text, unit.wanted_by[0].key)
            return []

        return self._with_pair(unit, keep)

    def _with_pair(
        self, unit: Description, work: Callable[[Pair, AspectText], Done | list[Judgement]]
    ) -> Done | list[Judgement]:
        """Return the input prepared from the pair; if that fails, a row for each request that needs it."""
        first, *others = unit.wanted_by
        made = self._judging.with_pair(first, work)
        if not isinstance(made, list) or not made:
            return made
        (row,) = made
        assert row.failure is not None
        rest = (self._judging.failed(other, row.failure, row.message) for other in others)
        return [row, *(one for rows in rest for one in rows)]


def _in_order(request: Request, pair: Pair) -> tuple[Side, Side]:
    """Return the videos of a pair in the order of a request."""
    return (pair.high, pair.low) if request.order == "high_first" else (pair.low, pair.high)


def _message(problem: BaseException) -> str:
    if isinstance(problem, ValidationError):
        first = problem.errors(include_url=False)[0]
        return f"it gave {'.'.join(map(str, first['loc']))} = {first['input']!r:.100}: {value_problem(first)}"
    return f"{type(problem).__name__}: {problem}"
