"""The flow `evaluate-slvmeval`: which evaluators are asked about which pairs, and the result.

Also estimates an evaluation before its first request.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flows.declaration import Artifact, FlowDeclaration, RunLabel, artifact_key
from flows.score.adaptive_rounds import AdaptiveJudge, searches_of
from flows.score.options import EvaluateOptions, evaluate_options
from flows.score.parameters import EvaluateParameters
from flows.score.results import AspectCount, EvaluationResult, EvaluatorResult, RequestProgress
from flows.score.scoring_run import RunPart, ScoringRun
from infra.prefect_server import EVALUATE_FLOW_NAME
from infra.profile import Profile
from infra.progress import BuildProgress
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text, digest_value
from storage_schemas.judgements import Judgement, JudgementsStore
from storage_schemas.offline_batches import waiting_batches
from storage_schemas.rng import keyed_rank
from storage_schemas.row_store import RowId
from storage_schemas.store import Store
from tasks.llm.prompt_files import require_prompts
from tasks.llm.usage import Estimate, Prices, load_prices
from tasks.scoring.base import Evaluator, PrefixJudge
from tasks.scoring.engine import Task, answer_stage
from tasks.scoring.estimates import EstimatedCost, not_counted
from tasks.scoring.judging import Judging, JudgingWork
from tasks.scoring.probes import lenders, probe_problem, probe_requests, probe_settings
from tasks.scoring.registry import EvaluatorChoice, check_different, check_labels, make_evaluator
from tasks.scoring.release_pairs import ReleasePairs, pairs_of_release
from tasks.scoring.request import (
    PairFacts,
    PairSet,
    Request,
    changed_texts,
    settings_digest,
    shared_beginnings,
)
from tasks.scoring.submitted import DESCRIPTIONS, BatchRecords
from tasks.statistics.trials import grouped


@dataclass
class Judge(RunPart[Request]):
    """One evaluator of the run with its requests.

    Parameters
    ----------
    choice
        How it was chosen.
    evaluator
        None if it cannot be created.
    basis
        Basis of its estimate, for people.
    adaptive
        Which pairs it is asked about next; None if it is asked about all.
    """

    choice: EvaluatorChoice = field(kw_only=True)
    evaluator: Evaluator | None = None
    basis: str = ""
    adaptive: AdaptiveJudge | None = None

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.name


@dataclass
class Evaluation(ScoringRun[Request, EvaluationResult]):
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
        """Open the release, create the evaluators, and find the requests that have answers.

        Parameters
        ----------
        ask_servers
            Whether evaluators check that everything they need is present.

        Raises
        ------
        UserInputError, StoreError, IntegrityError, PrerequisiteError
            If the run cannot start; no request was made.
        """
        options = self.options
        self.store = options.open_store()
        self.pairs = options.pairs_from or pairs_of_release(self.store, options.release, options.version)
        self.prices = load_prices(options.prices)
        if options.batch:
            self.prices = self.prices.in_batches()
        self.wanted = self._selected()
        require_prompts(options.prompts)
        self.pairs.check(self.wanted)
        if not options.evaluators:
            raise UserInputError("no evaluator is named: `slvmeval list evaluators` lists them")
        self.judges = [self._make(choice) for choice in options.evaluators]
        check_labels([judge.label for judge in self.judges])
        for probe in dict.fromkeys(judge.choice.probe for judge in self.judges):
            same = [judge for judge in self.judges if judge.choice.probe == probe]
            check_different(
                (judge.label, judge.evaluator, self._described(judge)) for judge in same if judge.evaluator
            )
        self._require_one()
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
            placement=options.placement,
            allow_cpu_models=options.allow_cpu_models,
            batch=options.batch,
            beginnings=self._shared_beginnings(),
        )
        others = lenders(self.pairs.facts())
        for judge in self.judges:
            if judge.evaluator is not None:
                judge.kind = Judging(judge.evaluator, judge.label, judge.choice, self.work)
                probe, repeats = judge.choice.probe, options.repeats
                described_in = judge.choice.described_in
                texts = {
                    one.aspect: self.work.text(one.aspect, one.dimension, described_in) for one in self.wanted
                }
                try:
                    judge.units = [
                        request
                        for pair in self.wanted
                        for request in probe_requests(
                            judge.evaluator, pair, texts[pair.aspect], repeats, probe, others
                        )
                    ]
                except UserInputError as problem:
                    # no other prompt to use: the other evaluators are asked
                    self.refuse(judge, problem)
        if options.adaptive:
            self._begin_searches()
        self.find_known()
        self._leave_out_batches()
        if ask_servers:
            self.check_missing()
            self._require_one()

    def display_name(self, shares: str) -> str:
        """Return the title of a release's source."""
        return self.pairs.release.source(shares).title if isinstance(self.pairs, ReleasePairs) else shares

    def _described(self, judge: Judge) -> str:
        """Return the checksum of a wording's descriptions of aspects; empty if they equal the run's."""
        prompts = judge.choice.described_in
        if prompts is None:
            return ""
        texts = changed_texts(self.pairs, prompts)
        return "" if texts == changed_texts(self.pairs, self.options.prompts) else digest_value(texts)[:16]

    def _shared_beginnings(self) -> frozenset[str]:
        """Return the shared prefixes of requests; none unless a judge puts the shared part first."""
        judges = [judge.evaluator for judge in self.judges]
        if any(isinstance(judge, PrefixJudge) and judge.shares_beginnings for judge in judges):
            return shared_beginnings(self.wanted, self.options.repeats)
        return frozenset()

    def _selected(self) -> list[PairFacts]:
        """Return the pairs that may be asked about."""
        selection = self.options.selection
        if self.options.adaptive:
            # this limits the pairs asked about, not those to choose from
            selection = selection.model_copy(update={"most_per_aspect": None})
        return selection.of(self.pairs.facts())

    def _begin_searches(self) -> None:
        """Keep each evaluator's requests for pairs already asked about, or in the first round."""
        assert isinstance(self.pairs, ReleasePairs)
        options = self.options
        searches = searches_of(
            self.wanted,
            self.pairs.title,
            int(self.pairs.release.recipe.get("clips_per_pair", 1)),
            options.precision,
            options.selection.most_per_aspect,
        )
        if left := sorted({pair.aspect for pair in self.wanted} - set(searches)):
            self.progress.say(f"left out, because they have only one severity: {', '.join(left)}")
        if any(pair.control for pair in self.wanted):
            self.progress.say("controls are left out: they have no threshold")
        if any(pair.length for pair in self.wanted):
            self.progress.say(
                "excerpts are left out: their damage weighs more or less than in the whole film"
            )
        self.wanted = [
            pair for pair in self.wanted if pair.aspect in searches and not pair.control and not pair.length
        ]
        for judge in self.judges:
            if judge.usable:
                requests = grouped(judge.units, lambda request: request.pair.pair_id)
                judge.adaptive = AdaptiveJudge(searches, requests, options.round_pairs)
        # answers to equal requests on other pairs count too
        self.copy_known()
        for judge in self.judges:
            judge.units = []
        self._choose_next([judge for judge in self.judges if judge.adaptive is not None])

    def _choose_next(self, judges: Sequence[Judge]) -> bool:
        """Give evaluators the requests of their next rounds; return whether any needs requests.

        A round is followed by the next if equal requests on other pairs already answer all its requests.
        """
        while True:
            before = sum(len(judge.units) for judge in judges)
            for judge in judges:
                assert judge.adaptive is not None
                assert isinstance(judge.kind, Judging)
                every = [one for some in judge.adaptive.requests.values() for one in some]
                rows = self.rows_by_id([one.key for one in every])
                waiting = {one.key for one in judge.kind.in_batches(every)}
                judge.units = judge.adaptive.next_requests(rows, self.work.retry, waiting)
            if sum(len(judge.units) for judge in judges) <= before:
                return False
            self.copy_known()
            failures = self.rows.failures()
            if any(self.missing(judge, failures) for judge in judges):
                return True

    def next_round(self) -> bool:
        """Choose the next pairs for all evaluators that were not stopped, once everything is answered."""
        if not self.options.adaptive:
            return False
        self.wait_for_batches()
        if self.options.batch and not self.options.wait:
            return False
        self.copy_known()
        for judge in self.judges:
            if judge.usable and (why := self.work.spending.stopped(judge.name)):
                judge.refused = why
        return self._choose_next([judge for judge in self.judges if judge.usable])

    def _leave_out_batches(self) -> None:
        """Leave out evaluators with requests in batches if this run would send, and pay for, them again."""
        for judge in () if self.options.batch else self.judges:
            if judge.usable and (waiting := len(self._in_batches(judge))):
                why = f"{waiting} of its requests wait in a batch: collect them first, with --batch"
                self.refuse(judge, PrerequisiteError(why))

    def _in_batches(self, judge: Judge, failures: Mapping[RowId, str] | None = None) -> list[Request]:
        """Return the missing requests that wait in batches, or depend on descriptions that do."""
        assert isinstance(judge.kind, Judging)
        return judge.kind.in_batches(self.missing(judge, failures))

    def _require_one(self) -> None:
        if all(judge.refused for judge in self.judges):
            raise PrerequisiteError("\n".join(f"{judge.label}: {judge.refused}" for judge in self.judges))

    def check_part(self, part: RunPart[Request]) -> None:
        """Check an evaluator's models and servers."""
        assert isinstance(part.kind, Judging)
        part.kind.check()

    def _make(self, choice: EvaluatorChoice) -> Judge:
        judge = Judge(choice.label or choice.use, choice=choice)
        try:
            evaluator = make_evaluator(choice, self.options.setup)
            judge.name = f"{choice.label or evaluator.name}{choice.suffix}"
            if problem := probe_problem(evaluator, choice.probe):
                self.refuse(judge, PrerequisiteError(problem))
            else:
                judge.evaluator = evaluator
        except UserInputError:
            raise
        except Exception as problem:  # noqa: BLE001 - code of another package; the other evaluators continue
            self.refuse(judge, problem)
        return judge

    @property
    def parts(self) -> Sequence[Judge]:
        """The evaluators."""
        return self.judges

    @property
    def judgements(self) -> JudgementsStore:
        """The judgements."""
        return self.work.rows()

    def lock_file(self, part: RunPart[Request]) -> Path:
        """Return the file that is locked while an evaluator is asked, under any label."""
        assert isinstance(part.kind, Judging)
        evaluator = part.kind.evaluator
        assert isinstance(part, Judge)
        name = f"{evaluator.name} {probe_settings(settings_digest(evaluator), part.kind.probe)}"
        name += self._described(part)
        return self.store.cache / "rates" / f"{digest_text(name)[:32]}.held"

    def wait_for_batches(self) -> None:
        """Collect submitted batches until all have ended; no worker is occupied meanwhile."""
        if self.options.batch:
            self._say_what_answers()
        if not self.options.batch or not self.options.wait:
            return
        collecting = replace(self.work, collect_only=True)
        reported = -1
        for number in itertools.count():
            failures = self.rows.failures()
            tasks = [
                Task(f"{self.run_id}-collected{number}-{index}", judge.name, judge.name, units)
                for index, judge in enumerate(self.judges)
                if judge.usable and (units := tuple(self._in_batches(judge, failures)))
            ]
            count = sum(len(task.units) for task in tasks)
            if not count:
                return
            if count != reported:
                self.progress.say(
                    f"{count} requests are waiting in batches, which may take a day. This run collects "
                    "them; if it is stopped, the same command collects them later"
                )
                reported = count
            time.sleep(self.options.batch_poll_s)
            for task in tasks:
                self._came(answer_stage(collecting, task))

    def _say_what_answers(self) -> None:
        """Print the command that answers batches for models without a server."""
        kinds = [judge.kind for judge in self.judges if judge.usable]
        servers = [server for kind in kinds if isinstance(kind, Judging) for server in kind.servers]
        names = {one.name for one in servers if one.offline is not None and waiting_batches(one.offline)}
        for name in sorted(names):
            command = f"slvmeval serve-llm MODEL --set name={name} --batch --submit"
            self.progress.say(f"batches of {name} wait for a job: `{command}`")

    def rows_by_id(self, keys: Collection[str]) -> Mapping[RowId, Judgement]:
        """Return the judgements of some requests."""
        return {(row.key, row.pair_id): row for row in self.judgements.rows(keys=keys)}

    def result(self) -> EvaluationResult:
        """Return what has been answered."""
        failures = self.rows.failures()
        results = []
        for judge in self.judges:
            aspects: dict[str, AspectCount] = {}
            for request in judge.units:
                count = aspects.setdefault(request.pair.aspect, AspectCount())
                count.add(failures.get(request.ids[0]))
            results.append(
                EvaluatorResult(judge.label, aspects, found_before=judge.found_before, **self.spent(judge))
            )
        labels = {judge.label for judge in self.judges}
        folders = (self.judgements.path, self.store.root / DESCRIPTIONS)
        waiting = [one for folder in folders for one in BatchRecords(folder).batches() if one.by in labels]
        return EvaluationResult(
            self.pairs.title, len(self.wanted), tuple(results), self.progress.seconds, tuple(waiting)
        )


@dataclass(frozen=True)
class EvaluatorEstimate:
    """One evaluator on one aspect.

    Parameters
    ----------
    requests
        Number of missing answers of the evaluator.
    cost
        Their usage; a description that is requested first is a separate call.
    """

    evaluator: str
    aspect: str
    requests: int
    cost: EstimatedCost

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-serialisable."""
        return {
            "evaluator": self.evaluator,
            "aspect": self.aspect,
            "requests": self.requests,
            **self.cost.as_json(),
        }


def estimate(
    evaluation: Evaluation, sample: int | None = None, step: Callable[[str], None] = lambda _: None
) -> list[EvaluatorEstimate]:
    """Return the cost of the missing requests, by evaluator and aspect.

    Parameters
    ----------
    evaluation
        A prepared evaluation.
    sample
        Number of pairs of each aspect to look at; the rest is extrapolated. None looks at all.
    step
        Called with the name of what is being estimated.
    """
    rows = []
    counted: set[str] = set()
    failures = evaluation.rows.failures()
    for judge in evaluation.judges:
        if not isinstance(judge.kind, Judging) or judge.evaluator is None:
            continue
        own = evaluation.judgements.rows([judge.label])
        same_settings = [row for row in own if row.settings == judge.kind.settings_of(row.aspect)]
        judge.basis = judge.evaluator.learn(same_settings)
        by_aspect: dict[str, list[Request]] = defaultdict(list)
        for request in _expected(evaluation, judge, failures):
            by_aspect[request.pair.aspect].append(request)
        for aspect, requests in sorted(by_aspect.items()):
            step(f"{judge.label}, {aspect}")
            cost = _cost(judge.kind, requests, evaluation.prices, sample, counted)
            rows.append(EvaluatorEstimate(judge.label, aspect, len(requests), cost))
    return rows


def _expected(evaluation: Evaluation, judge: Judge, failures: Mapping[RowId, str]) -> list[Request]:
    """Return the missing requests; for an adaptive evaluation as many as a typical evaluator is asked."""
    if judge.adaptive is None:
        return evaluation.missing(judge, failures)
    found: list[Request] = []
    for aspect, search in judge.adaptive.searches.items():
        pairs = sorted(search.pairs, key=lambda pair: keyed_rank("evaluate", pair.pair_id))
        requests = [judge.adaptive.requests[pair.pair_id] for pair in pairs]
        # answered pairs first: they count towards the expected number
        requests.sort(key=lambda some: any(one.ids[0] not in failures for one in some))
        some = [one for part in requests[: judge.adaptive.expected_pairs(aspect)] for one in part]
        found += [one for one in some if one.ids[0] not in failures]
    return found


def _cost(
    kind: Judging, requests: Sequence[Request], prices: Prices, sample: int | None, counted: set[str]
) -> EstimatedCost:
    """Return the cost of some requests; unknown if the evaluator estimates nothing for one of them."""
    pairs = sorted(
        {request.pair.pair_id for request in requests}, key=lambda pair_id: keyed_rank("evaluate", pair_id)
    )
    sampled = set(pairs[:sample])
    estimates: list[Estimate] = []
    frames = 0
    for request in requests:
        if request.pair.pair_id in sampled:
            own = kind.estimates(request)
            if not own:
                return EstimatedCost()
            estimates += not_counted(own, counted)
            frames += request.pair.frames
    # images and tokens are proportional to the frames
    return EstimatedCost.of(estimates, prices, sum(request.pair.frames for request in requests) / frames)


class EvaluateFlow(FlowDeclaration[EvaluateOptions, Evaluation, EvaluationResult]):
    """Lets evaluators judge pairs."""

    name = EVALUATE_FLOW_NAME
    runs_as = "evaluation"
    parameters = EvaluateParameters
    progress = RequestProgress

    def options(self, parameters: EvaluateParameters, site: Profile) -> EvaluateOptions:
        """Resolve parameters into options."""
        return evaluate_options(parameters, site)

    @contextmanager
    def prepared(self, options: EvaluateOptions, progress: BuildProgress) -> Iterator[Evaluation]:
        """Yield a prepared evaluation."""
        assert isinstance(progress, RequestProgress)
        evaluation = Evaluation(options, progress)
        evaluation.prepare()
        yield evaluation

    def label(self, run: Evaluation) -> RunLabel:
        """Return the label: the pairs and their judges."""
        release, judges = run.pairs.name, ", ".join(judge.label for judge in run.judges)
        name = f"{release} · {len(run.wanted)} pairs · {judges}"
        return RunLabel(name, (f"release:{release}",), f"judge-{release}")

    def artifacts(self, run: Evaluation, result: EvaluationResult) -> Iterator[Artifact]:
        """Yield a summary and a table of the answers."""
        key, summary = artifact_key(run.pairs.name), result.in_words()
        yield Artifact(f"judged-{key}", summary, markdown=summary)
        yield Artifact(f"judgements-{key}", result.title, rows=result.rows())


EVALUATE = EvaluateFlow()
