"""An evaluation: which evaluators are asked about which pairs, and what came of it.

Also what an evaluation would take before the first request, and what the proxy study found.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.score.evaluate_options import EvaluateOptions
from flows.score.results import AspectCount, EvaluationResult, EvaluatorResult, RequestProgress
from flows.score.scoring_run import RunPart, ScoringRun
from infra.executor import Executor, InlineExecutor
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.judgements import Judgement, JudgementsStore
from storage_schemas.rng import keyed_rank
from storage_schemas.row_store import RowId
from storage_schemas.store import Store
from tasks.llm.prompt_files import require_prompts
from tasks.llm.usage import Estimate, Prices, load_prices
from tasks.scoring.base import Evaluator
from tasks.scoring.engine import reason_of
from tasks.scoring.judges.meta_sets.proxy_study import ProxyPairs
from tasks.scoring.judging import Judging, JudgingWork
from tasks.scoring.registry import EvaluatorChoice, check_different, check_labels, make_evaluator
from tasks.scoring.release_pairs import pairs_of_release
from tasks.scoring.request import (
    PairFacts,
    PairSet,
    Request,
    changed_texts,
    make_requests,
    settings_digest,
)
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy

if TYPE_CHECKING:
    from tasks.scoring.judges.meta_sets.proxy_result import ProxyResult


@dataclass
class Judge(RunPart[Request]):
    """One evaluator of the run with its requests.

    Parameters
    ----------
    choice
        How it was chosen.
    evaluator
        None where it cannot be made.
    basis
        What its estimate rests on, for a person.
    """

    choice: EvaluatorChoice = field(kw_only=True)
    evaluator: Evaluator | None = None
    basis: str = ""

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.name


@dataclass
class Evaluation(ScoringRun[Request]):
    """One run; call :meth:`prepare`, then :meth:`run`."""

    options: EvaluateOptions
    progress: RequestProgress
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    judges: list[Judge] = field(default_factory=list)
    store: Store = field(init=False)
    pairs: PairSet = field(init=False)
    wanted: list[PairFacts] = field(default_factory=list)
    prices: Prices = field(init=False)
    work: JudgingWork = field(init=False)

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
        options = self.options
        self.store = options.open_store()
        self.pairs = options.pairs_from or pairs_of_release(self.store, options.release, options.version)
        self.prices = load_prices(options.prices)
        self.wanted = options.selection.of(self.pairs.facts())
        require_prompts(options.prompts, {pair.aspect for pair in self.wanted})
        self.pairs.check(self.wanted)
        if not options.evaluators:
            raise UserInputError("no evaluator is named: `slvmeval evaluators` lists them")
        self.judges = [self._make(choice, ask_servers) for choice in options.evaluators]
        check_labels([judge.label for judge in self.judges])
        check_different((judge.label, judge.evaluator) for judge in self.judges if judge.evaluator)
        if all(judge.refused for judge in self.judges):
            raise PrerequisiteError("\n".join(f"{judge.label}: {judge.refused}" for judge in self.judges))
        self.work = JudgingWork(
            run=self.run_id,
            store_path=options.store,
            setup=options.setup,
            pairs=self.pairs,
            prices=self.prices,
            limits=options.limits,
            changed_texts=changed_texts(self.pairs, options.prompts),
            evaluators={judge.label: judge.choice for judge in self.judges},
            retry=options.retry,
            allow_cpu_models=options.allow_cpu_models,
        )
        texts = {pair.aspect: self.work.text(pair.aspect, pair.dimension) for pair in self.wanted}
        for judge in self.judges:
            if judge.evaluator is not None:
                judge.kind = Judging(judge.evaluator, judge.label, judge.choice, self.work)
                judge.units = [
                    request
                    for pair in self.wanted
                    for request in make_requests(judge.evaluator, pair, texts[pair.aspect], options.repeats)
                ]
        self.find_known()

    def _make(self, choice: EvaluatorChoice, ask_servers: bool) -> Judge:
        judge = Judge(choice.label or choice.use, choice=choice)
        try:
            evaluator = make_evaluator(choice, self.options.setup)
            judge.name = choice.label or evaluator.name
            if ask_servers:
                evaluator.check()
            judge.evaluator = evaluator
        except UserInputError:
            raise
        except Exception as problem:  # noqa: BLE001 - another package's code, which harms no other evaluator
            judge.refused = reason_of(problem)
            self.progress.say(f"{judge.label} cannot be used: {judge.refused}")
        return judge

    @property
    def parts(self) -> Sequence[Judge]:
        """The evaluators."""
        return self.judges

    @property
    def judgements(self) -> JudgementsStore:
        """The judgements."""
        return self.work.rows()

    def held(self, part: RunPart[Request]) -> Path:
        """Return what is held while an evaluator, under any label, is asked."""
        assert isinstance(part.kind, Judging)
        evaluator = part.kind.evaluator
        name = f"{evaluator.name} {settings_digest(evaluator)}"
        return self.store.cache / "rates" / f"{digest_text(name)[:32]}.held"

    def rows_by_id(self, keys: Collection[str]) -> Mapping[RowId, Judgement]:
        """Return the judgements of some requests."""
        return {(row.key, row.pair_id): row for row in self.judgements.rows(keys=keys)}

    def run(self, open_executor: Callable[[], Executor]) -> EvaluationResult:
        """Ask what is missing.

        Parameters
        ----------
        open_executor
            Called once, if there is work.
        """
        self.answer_missing(lambda _pools: open_executor())
        result = self._result()
        self.work.spending.remove()
        return result

    def _result(self) -> EvaluationResult:
        known = self.rows.known()
        found = []
        for judge in self.judges:
            aspects: dict[str, AspectCount] = {}
            for request in judge.units:
                count = aspects.setdefault(request.pair.aspect, AspectCount())
                count.add(known.get(request.ids[0]))
            found.append(
                EvaluatorResult(judge.label, aspects, found_before=judge.found_before, **self.spent(judge))
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
        Pairs of each aspect to look at; the rest is extrapolated from them. None takes all.
    step
        Called with what is being estimated.
    """
    rows = []
    paid: set[str] = set()
    known = evaluation.rows.known()
    for judge in evaluation.judges:
        if not isinstance(judge.kind, Judging) or judge.evaluator is None:
            continue
        own = evaluation.judgements.rows([judge.label])
        mine = [row for row in own if row.settings == judge.kind.settings_of(row.aspect)]
        judge.basis = judge.evaluator.learn(mine)
        by_aspect: dict[str, list[Request]] = defaultdict(list)
        for request in evaluation.missing(judge, known):
            by_aspect[request.pair.aspect].append(request)
        for aspect, requests in sorted(by_aspect.items()):
            step(f"{judge.label}, {aspect}")
            rows.append(_row(evaluation, judge.kind, aspect, requests, sample, paid))
    return rows


def _row(
    evaluation: Evaluation,
    kind: Judging,
    aspect: str,
    requests: Sequence[Request],
    sample: int | None,
    paid: set[str],
) -> EvaluatorEstimate:
    pairs = sorted(
        {request.pair.pair_id for request in requests}, key=lambda pair_id: keyed_rank("evaluate", pair_id)
    )
    tried = set(pairs[:sample])
    tried_requests = [request for request in requests if request.pair.pair_id in tried]
    found = _estimates(kind, tried_requests, paid)
    if found is None:
        return EvaluatorEstimate(kind.name, aspect, len(requests))
    # images and tokens go with the frames
    share = sum(request.pair.frames for request in requests) / sum(r.pair.frames for r in tried_requests)
    usd = evaluation.prices.of(found)
    return EvaluatorEstimate(
        kind.name,
        aspect,
        len(requests),
        calls=share * sum(one.requests for one in found),
        images=share * sum(one.images for one in found),
        tokens_in=share * sum(one.tokens_in for one in found),
        tokens_out=share * sum(one.tokens_out for one in found),
        usd=None if usd is None else share * usd,
    )


def _estimates(kind: Judging, requests: Sequence[Request], paid: set[str]) -> list[Estimate] | None:
    """Return the estimates of some requests; None where the evaluator says nothing of one of them.

    What is `paid` for by another request is left out, and added to.
    """
    found: list[Estimate] = []
    for request in requests:
        estimates = kind.estimates(request)
        if not estimates:
            return None
        found += [one for one in estimates if not one.once or one.once not in paid]
        paid.update(one.once for one in estimates if one.once)
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
    # it imports SciPy's statistics, for which every flow and every command on deployments would wait
    from tasks.scoring.judges.meta_sets.proxy_result import proxy_result

    evaluation = Evaluation(options, RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    wanted = {(request.key, request.pair.pair_id) for judge in evaluation.judges for request in judge.units}
    rows = evaluation.judgements.rows(keys=[key for key, _ in wanted]) if wanted else []
    return proxy_result(study, [row for row in rows if (row.key, row.pair_id) in wanted], ties)
