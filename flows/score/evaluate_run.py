"""An evaluation, whoever runs its tasks: what is asked, minus what the store has, in tasks by source.

An evaluator that cannot be used, or stops, is said once and stops no other.

What an evaluation would take, before the first request: requests, images, tokens and dollars.

What the proxy study found, from the answers to exactly the requests that its evaluators are asked.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from flows.build.run import MOST_TASKS
from flows.score.evaluate_options import EvaluateOptions
from flows.score.results import AspectCount, EvaluationResult, EvaluatorResult, RequestProgress
from flows.stages import Item, through_stages
from infra.executor import Executor, InlineExecutor
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import canonical_json, digest_text
from storage_schemas.judgements import Failure, JudgementsStore, is_settled
from storage_schemas.provenance import utc_now
from storage_schemas.rng import keyed_rank
from storage_schemas.store import Store
from tasks.llm.shared_state import only_one
from tasks.llm.usage import Estimate, Prices, load_prices
from tasks.pairs.stages import Stage
from tasks.scoring.ask import Asker
from tasks.scoring.base import Evaluator
from tasks.scoring.judges.meta_sets.proxy_result import ProxyResult, proxy_result
from tasks.scoring.judges.meta_sets.proxy_study import ProxyPairs
from tasks.scoring.registry import EvaluatorChoice, check_different, check_labels, make_evaluator
from tasks.scoring.release_pairs import pairs_of_release
from tasks.scoring.request import (
    PairFacts,
    PairSet,
    Request,
    batches,
    changed_texts,
    make_requests,
    settings_digest,
)
from tasks.scoring.scorer_as_judge import ScoreCache
from tasks.scoring.work import EvaluationOutcome, EvaluationTask, EvaluationWork, evaluate_stage
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy

#: So many tasks whose processes died again and again end an evaluator's run.
MOST_DEAD_TASKS = 5


@dataclass
class Judge:
    """One evaluator of the run, with its requests; none where it cannot be used, and why.

    `basis` is what its estimate rests on, for a person.
    """

    chosen: EvaluatorChoice
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

    def _make(self, chosen: EvaluatorChoice, ask_servers: bool) -> Judge:
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
            asker = Asker(judge.evaluator, judge.label, self.prices, ScoreCache(), self.work.changed_texts)
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


@dataclass(frozen=True)
class EvaluatorEstimate:
    """One evaluator on one aspect; None where it does not say, and no dollars where there is no price.

    `requests` are answers of the evaluator, `calls` what it sends to servers for them: a description made
    first is a call of its own.
    """

    evaluator: str
    aspect: str
    requests: int
    calls: float | None = None
    images: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    usd: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-able, counts as whole numbers."""
        counts = {
            name: None if value is None else round(value)
            for name, value in (
                ("calls", self.calls),
                ("images", self.images),
                ("tokens_in", self.tokens_in),
                ("tokens_out", self.tokens_out),
            )
        }
        usd = None if self.usd is None else round(self.usd, 4)
        return {
            "evaluator": self.evaluator,
            "aspect": self.aspect,
            "requests": self.requests,
            **counts,
            "usd": usd,
        }


def estimate(
    evaluation: Evaluation, sample: int | None = None, step: Callable[[str], None] = lambda _: None
) -> list[EvaluatorEstimate]:
    """Return what the missing requests would take, by evaluator and aspect.

    Parameters
    ----------
    evaluation
        It has to be prepared.
    sample
        Reckon with so many pairs of each aspect, and conclude from their frames on the rest; None takes all.
    step
        Told what is being reckoned.
    """
    rows = []
    paid: set[str] = set()
    for judge in evaluation.judges:
        if judge.evaluator is not None:
            asker = _asker(evaluation, judge.evaluator, judge.label)
            known = evaluation.judgements.rows([judge.label])
            mine = [row for row in known if row.settings == asker.settings_of(row.aspect)]
            judge.basis = judge.evaluator.learn(mine)
        by_aspect: dict[str, list[Request]] = defaultdict(list)
        for request in evaluation.missing(judge) if judge.evaluator is not None else ():
            by_aspect[request.pair.aspect].append(request)
        for aspect, requests in sorted(by_aspect.items()):
            step(f"{judge.label}, {aspect}")
            rows.append(_row(evaluation, judge, aspect, requests, sample, paid))
    return rows


def _row(
    evaluation: Evaluation,
    judge: Judge,
    aspect: str,
    requests: Sequence[Request],
    sample: int | None,
    paid: set[str],
) -> EvaluatorEstimate:
    pairs = sorted(
        {request.pair.pair_id for request in requests}, key=lambda pair_id: keyed_rank("evaluate", pair_id)
    )
    tried = set(pairs[:sample])
    reckoned = [request for request in requests if request.pair.pair_id in tried]
    found = _estimates(evaluation, judge, reckoned, paid)
    if found is None:
        return EvaluatorEstimate(judge.label, aspect, len(requests))
    # images and tokens go with the frames
    share = sum(request.pair.frames for request in requests) / sum(r.pair.frames for r in reckoned)
    usd = evaluation.prices.of(found)
    return EvaluatorEstimate(
        judge.label,
        aspect,
        len(requests),
        calls=share * sum(one.requests for one in found),
        images=share * sum(one.images for one in found),
        tokens_in=share * sum(one.tokens_in for one in found),
        tokens_out=share * sum(one.tokens_out for one in found),
        usd=None if usd is None else share * usd,
    )


def _asker(evaluation: Evaluation, evaluator: Evaluator, label: str) -> Asker:
    return Asker(evaluator, label, evaluation.prices, ScoreCache(), evaluation.work.changed_texts)


def _estimates(
    evaluation: Evaluation, judge: Judge, requests: Sequence[Request], paid: set[str]
) -> list[Estimate] | None:
    """Return the estimates of some requests; None where the evaluator says nothing of one of them.

    What is `paid` for by another request is left out, and added to.
    """
    assert judge.evaluator is not None
    asker = _asker(evaluation, judge.evaluator, judge.label)
    found: list[Estimate] = []
    for request in requests:
        pair = evaluation.pairs.open(request.pair.pair_id)
        text = evaluation.work.text(request.pair.aspect, request.pair.dimension)
        said = asker.estimates(request, pair, text)
        if not said:
            return None
        found += [one for one in said if not one.once or one.once not in paid]
        paid.update(one.once for one in said if one.once)
    return found


def study_result(options: EvaluateOptions, study: ProxyPairs, ties: TiePolicy = DEFAULT_TIES) -> ProxyResult:
    """Return the result of a study; nobody is asked anything.

    Parameters
    ----------
    options
        As the study was run. Answers of other settings, samplings or texts in the store do not count.
    ties
        What an evaluator's tie counts.
    """
    evaluation = Evaluation(options, RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    wanted = {
        (request.key, request.pair.pair_id) for judge in evaluation.judges for request in judge.requests
    }
    rows = evaluation.judgements.rows(keys=[key for key, _ in wanted]) if wanted else []
    return proxy_result(study, [row for row in rows if (row.key, row.pair_id) in wanted], ties)
