"""The flow `evaluate-slvmeval`: what it is given, what runs, what its pages show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flows.declaration import Artifact, FlowDeclaration, RunLabel, artifact_key
from flows.score.evaluate_options import EvaluateOptions, EvaluateParameters
from flows.score.evaluate_run import Evaluation
from flows.score.results import EvaluationResult, RequestProgress
from infra.prefect_server import EVALUATE_FLOW_NAME
from infra.progress import BuildProgress


class EvaluateFlow(FlowDeclaration[EvaluateOptions, Evaluation, EvaluationResult]):
    """Lets evaluators judge pairs."""

    name = EVALUATE_FLOW_NAME
    parameters = EvaluateParameters
    progress = RequestProgress

    @contextmanager
    def prepared(self, options: EvaluateOptions, progress: BuildProgress) -> Iterator[Evaluation]:
        """Give a prepared evaluation."""
        assert isinstance(progress, RequestProgress)
        evaluation = Evaluation(options, progress)
        evaluation.prepare()
        yield evaluation

    def label(self, run: Evaluation) -> RunLabel:
        """Name the pairs and who judges them."""
        release, judges = run.pairs.name, ", ".join(judge.label for judge in run.judges)
        name = f"{release} · {len(run.wanted)} pairs · {judges}"
        return RunLabel(name, (f"release:{release}",), f"judge-{release}")

    def artifacts(self, run: Evaluation, result: EvaluationResult) -> Iterator[Artifact]:
        """Show in words and as a table what was answered."""
        key, says = artifact_key(run.pairs.name), result.in_words()
        yield Artifact(f"judged-{key}", says, markdown=says)
        yield Artifact(f"judgements-{key}", result.title, rows=result.rows())


EVALUATE = EvaluateFlow()
