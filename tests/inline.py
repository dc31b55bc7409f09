"""Flows run in this process, without any executor."""

from __future__ import annotations

from typing import Any

from flows.annotate.flow import ANNOTATE
from flows.annotate.options import AnnotateOptions
from flows.annotate.run import AnnotationResult
from flows.declaration import FlowDeclaration, OptionsT, ResultT
from flows.release.options import BuildOptions
from flows.release.result import BuildResult
from flows.release.run import Build
from flows.score.evaluate_run import EVALUATE
from flows.score.options import EvaluateOptions, SuiteOptions
from flows.score.results import EvaluationResult, SuiteResult
from flows.score.suite_run import SUITE
from infra.executor import InlineExecutor
from infra.progress import BuildProgress


def run_inline(
    flow: FlowDeclaration[OptionsT, Any, ResultT], options: OptionsT, progress: BuildProgress | None = None
) -> ResultT:
    with progress or flow.progress(quiet=True) as shown, flow.prepared(options, shown) as run:
        result: ResultT = run.run(lambda *_: InlineExecutor())
        return result


def build_inline(options: BuildOptions, progress: BuildProgress | None = None) -> BuildResult:
    with progress or BuildProgress(quiet=True) as shown:
        build = Build(options, shown)
        build.prepare()
        return build.run(InlineExecutor)


def evaluate_inline(options: EvaluateOptions, progress: BuildProgress | None = None) -> EvaluationResult:
    return run_inline(EVALUATE, options, progress)


def suite_inline(options: SuiteOptions, progress: BuildProgress | None = None) -> SuiteResult:
    return run_inline(SUITE, options, progress)


def annotate_inline(options: AnnotateOptions, progress: BuildProgress | None = None) -> AnnotationResult:
    return run_inline(ANNOTATE, options, progress)
