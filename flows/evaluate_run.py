"""An evaluation, whoever runs its tasks: what is asked, minus what the store has, in tasks by source.

An evaluator that cannot be used, or stops, is said once and stops no other.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from flows.build_run import MOST_TASKS
from flows.evaluate_options import EvaluateOptions
from flows.evaluate_progress import RequestProgress
from flows.evaluate_result import AspectCount, EvaluationResult, EvaluatorResult
from flows.through_stages import Item, through_stages
from infra.executor import Executor, InlineExecutor
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import canonical_json, digest_text
from storage_schemas.judgement import Failure
from storage_schemas.judgements_store import JudgementsStore, is_settled
from storage_schemas.provenance import utc_now
from storage_schemas.store import Store
from tasks.evaluators.ask import Asker
from tasks.evaluators.aspect_texts import changed_texts
from tasks.evaluators.base import Evaluator
from tasks.evaluators.batches import batches
from tasks.evaluators.chosen import Chosen, check_labels
from tasks.evaluators.prices import Prices, load_prices
from tasks.evaluators.registry import check_different, make_evaluator
from tasks.evaluators.release_pairs import pairs_of_release
from tasks.evaluators.request import PairFacts, PairSet, Request, make_requests, settings_digest
from tasks.evaluators.scored import Scores
from tasks.evaluators.shared_state import only_one
from tasks.evaluators.work import EvaluationOutcome, EvaluationTask, EvaluationWork, evaluate_stage
from tasks.pairs.stages import Stage

#: So many tasks whose processes died again and again end an evaluator's run.
MOST_DEAD_TASKS = 5


@dataclass
class Judge:
    """One evaluator of the run, with its requests; none where it cannot be used, and why.

    `basis` is what its estimate rests on, for a person.
    """

    chosen: Chosen
    label: str
    evaluator: Evaluator | None = None
    refused: str = ""
    basis: str = ""
    requests: list[Request] = field(default_factory=list)


@dataclass
class Evaluation:
    """One run; call :meth:`prepare`, then :meth:`run`."""

    options: EvaluateOptions
    progress: RequestProgress
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    judges: list[Judge] = field(default_factory=list)
    store: Store = field(init=False)
    pairs: PairSet = field(init=False)
    wanted: list[PairFacts] = field(default_factory=list)
    prices: Prices = field(init=False)
    work: EvaluationWork = field(init=False)
    judgements: JudgementsStore = field(init=False)
    found_before: Counter[str] = field(default_factory=Counter)
    _deaths: Counter[str] = field(default_factory=Counter)
    _again: list[Item[EvaluationTask]] = field(default_factory=list)

    def prepare(self, ask_servers: bool = True) -> None:
        """Open the release, make the evaluators, and find what has been asked before.

        Parameters
        ----------
        ask_servers
            Whether evaluators check that all they need is there.

        Raises
        ------
        UserInputError, StoreError, IntegrityError, PrerequisiteError
            If the run cannot start at all; nothing was asked then.
        """
        asked = self.options
        self.store = asked.open_store()
        self.pairs = asked.pairs_from or pairs_of_release(self.store, asked.release, asked.version)
        self.prices = load_prices(asked.prices)
        self.work = EvaluationWork(
            run=self.run_id,
            setup=asked.setup,
            pairs=self.pairs,
            prices=self.prices,
            limits=asked.limits,
            descriptions=asked.descriptions,
            changed_texts=changed_texts(self.pairs, asked.descriptions),
            retry=asked.retry,
            allow_cpu_models=asked.allow_cpu_models,
        )
        self.wanted = asked.selection.of(self.pairs.facts())
        self.pairs.check(self.wanted)
        self.judgements = JudgementsStore(self.store)
        if not asked.evaluators:
            raise UserInputError("no evaluator is named: `slvmeval evaluators` lists them")
        self.judges = [self._make(chosen, ask_servers) for chosen in asked.evaluators]
        check_labels([judge.label for judge in self.judges])
        check_different((judge.label, judge.evaluator) for judge in self.judges if judge.evaluator)
        if all(judge.refused for judge in self.judges):
            raise PrerequisiteError("\n".join(f"{judge.label}: {judge.refused}" for judge in self.judges))
        texts = {pair.aspect: self.work.text(pair.aspect, pair.dimension) for pair in self.wanted}
        for judge in self.judges:
            if judge.evaluator is not None:
                judge.requests = [
                    request
                    for pair in self.wanted
                    for request in make_requests(judge.evaluator, pair, texts[pair.aspect], asked.repeats)
                ]
        self._share_answers()
        for judge in self.judges:
            self.found_before[judge.label] = len(judge.requests) - len(self.missing(judge))

    def _make(self, chosen: Chosen, ask_servers: bool) -> Judge:
        judge = Judge(chosen, chosen.label or chosen.use)
        try:
            evaluator = make_evaluator(chosen, self.options.setup)
            judge.label = chosen.label or evaluator.name
            if ask_servers:
                evaluator.check()
            judge.evaluator = evaluator
        except UserInputError:
            raise
        except PrerequisiteError as problem:
            judge.refused = str(problem)
        except Exception as problem:  # noqa: BLE001 - another package's code, which harms no other evaluator
            judge.refused = f"{type(problem).__name__}: {problem}"
        if judge.refused:
            self.progress.say(f"{judge.label} cannot be used: {judge.refused}")
        return judge

    def missing(self, judge: Judge) -> list[Request]:
        """Return the requests that are to be made; of those with the same key the first."""
        known = self.judgements.known()
        found = {
            request.key: request
            for request in reversed(judge.requests)
            if not is_settled(known.get((request.key, request.pair.pair_id)), self.options.retry)
        }
        wanted = set(map(id, found.values()))
        return [request for request in judge.requests if id(request) in wanted]

    def _share_answers(self) -> None:
        """Let answers to identical requests on other pairs, such as another release's, stand for these."""
        known = self.judgements.known()
        by_key = {key: pair_id for (key, pair_id), failure in known.items() if not failure}
        lacking = {
            (request.key, request.pair.pair_id): request
            for judge in self.judges
            for request in judge.requests
            if request.key in by_key and known.get((request.key, request.pair.pair_id)) != ""
        }
        keys = {key for key, _ in lacking}
        found = self.judgements.rows(keys=keys) if keys else []
        rows = {row.key: row for row in found if row.answered}
        nothing = {"frames": 0, "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0, "seconds": 0.0}
        self.judgements.add(
            rows[key].model_copy(
                update={
                    **nothing,
                    "pair_id": request.pair.pair_id,
                    "source_id": request.pair.source_id,
                    "details": canonical_json({"answered_for": rows[key].pair_id}),
                    "at": utc_now(),
                }
            )
            for (key, _), request in lacking.items()
        )

    def idle(self) -> bool:
        """Return whether nothing has to be asked."""
        return not any(self.missing(judge) for judge in self.judges)

    def run(self, open_executor: Callable[[], Executor]) -> EvaluationResult:
        """Ask what is missing.

        Parameters
        ----------
        open_executor
            Called once, if there is work.
        """
        with ExitStack() as stack:
            for judge in self.judges:
                if self.missing(judge) and not stack.enter_context(only_one(self._held(judge))):
                    judge.refused = "another run asks it now: run this again when that one has ended"
                    self.progress.say(f"{judge.label} is left out: {judge.refused}")
            return self._run(open_executor)

    def _held(self, judge: Judge) -> Path:
        """Return what is held while an evaluator, under any label, is asked: two runs would pay twice."""
        name = f"{judge.evaluator.name} {settings_digest(judge.evaluator)}" if judge.evaluator else ""
        return self.store.cache / "rates" / f"{digest_text(name)[:32]}.held"

    def _run(self, open_executor: Callable[[], Executor]) -> EvaluationResult:
        tasks = self._tasks()
        if tasks:
            self.progress.watch(self.work.spending, sum(len(item.source.requests) for item in tasks))
            for label, count in Counter(item.source.label for item in tasks).items():
                self.progress.expect(label, count)
            with open_executor() as executor:
                while tasks:
                    self._again = []
                    through_stages(executor, self.work, tasks, self.progress, lambda _: False, self._died)
                    tasks = self._again
                    for item in tasks:
                        self.progress.expect(item.source.label, 1)
            self._share_answers()
        self.judgements.pack(lambda task: task.startswith(self.run_id))
        result = self._result()
        self.work.spending.remove()
        return result

    def _tasks(self) -> list[Item[EvaluationTask]]:
        usable = [judge for judge in self.judges if judge.evaluator is not None and not judge.refused]
        most = max(MOST_TASKS // max(len(usable), 1), 1)
        items: list[Item[EvaluationTask]] = []
        for judge in usable:
            assert judge.evaluator is not None
            threads = judge.chosen.concurrency or judge.evaluator.concurrency
            stage = Stage(judge.label, judge.evaluator.pool, cast(Any, evaluate_stage))
            for requests in batches(self.missing(judge), threads, most):
                sources = len({request.pair.source_id for request in requests})
                title = f"{requests[0].pair.source_id}" + (f" and {sources - 1} more" if sources > 1 else "")
                task = EvaluationTask(
                    f"{self.run_id}-{len(items)}", title, judge.chosen, judge.label, requests
                )
                items.append(Item(task, (), [stage]))
        return items

    def _died(self, item: Item[EvaluationTask], message: str) -> EvaluationOutcome:
        """Make failures of the requests that its processes died of, and let the others be made again."""
        task = item.source
        self.progress.say(message)
        suspects = self.judgements.begun(task.id)
        known = self.judgements.known()
        (judge,) = [judge for judge in self.judges if judge.label == task.label]
        lost: list[Request] = []
        others: list[Request] = []
        for request in task.requests:
            if not is_settled(known.get((request.key, request.pair.pair_id)), self.options.retry):
                (lost if request.key in suspects else others).append(request)
        if judge.evaluator is not None:
            asker = Asker(judge.evaluator, judge.label, self.prices, Scores(), self.work.changed_texts)
            fields = {"failure": Failure.INTERNAL_ERROR, "message": message, "cost_usd": 0.0}
            self.judgements.add(asker.row(request, fields) for request in lost)
        self._deaths[task.label] += 1
        if self._deaths[task.label] >= MOST_DEAD_TASKS:
            self.work.spending.stop(
                task.label, f"its processes died again and again; the last time: {message}"
            )
        elif lost and others:
            rest = replace(task, id=f"{task.id}-{self._deaths[task.label]}", requests=tuple(others))
            self._again.append(Item(rest, (), list(item.stages)))
        return EvaluationOutcome(task.id, rows=tuple(request.key for request in lost))

    def _result(self) -> EvaluationResult:
        known, counts = self.judgements.known(), self.work.spending.counts()
        found = []
        for judge in self.judges:
            aspects: dict[str, AspectCount] = {}
            for request in judge.requests:
                count = aspects.setdefault(request.pair.aspect, AspectCount())
                count.add(known.get((request.key, request.pair.pair_id)))
            spent = counts.get(judge.label, {})
            found.append(
                EvaluatorResult(
                    label=judge.label,
                    aspects=aspects,
                    found_before=self.found_before[judge.label],
                    asked=spent.get("asked", 0),
                    usd=None if spent.get("unpriced") else spent.get("usd", 0.0),
                    tokens=spent.get("tokens", 0),
                    stopped=judge.refused or spent.get("stopped", ""),
                )
            )
        return EvaluationResult(self.pairs.title, len(self.wanted), tuple(found), self.progress.seconds)


def evaluate_inline(options: EvaluateOptions, progress: RequestProgress | None = None) -> EvaluationResult:
    """Evaluate in this process, without any executor: for tests and small things."""
    with progress or RequestProgress(quiet=True) as shown:
        evaluation = Evaluation(options, shown)
        evaluation.prepare()
        return evaluation.run(InlineExecutor)
