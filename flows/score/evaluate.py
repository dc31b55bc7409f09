"""The Prefect flow `evaluate-slvmeval`, as a worker runs it for a deployment and as the command line does."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import ClassVar, cast

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed
from prefect_dask.task_runners import DaskTaskRunner

from flows.board import RunBoard
from flows.dashboard import FlowProgress, post_name
from flows.prefect_executor import PrefectExecutor, site_cluster
from flows.run_ends import TaskEnds, end_dead_runs, told_to_end
from flows.score.evaluate_options import EvaluateOptions, asked_of_worker
from flows.score.evaluate_run import Evaluation
from flows.score.results import EvaluationResult, RequestProgress
from infra.prefect_server import EVALUATE_FLOW_NAME, log_level, prefect_server, quiet_libraries
from infra.profile import Profile
from infra.slurm.profile_check import require_fit
from storage_schemas.errors import SlvmevalError

log = logging.getLogger(__name__)


class RequestFlowProgress(RequestProgress, FlowProgress):
    """Says the rate of requests, and shows progress in Prefect's UI."""

    counts: ClassVar[str] = "tasks"

    def __init__(self, board: RunBoard, cache: Path | None = None, quiet: bool = False) -> None:
        FlowProgress.__init__(self, board, cache, quiet)
        self._forget()


# The parameters are described in Google's style: the only one that Prefect reads for the form in its UI.
@flow(
    name=EVALUATE_FLOW_NAME,
    task_runner=DaskTaskRunner(),  # type: ignore[arg-type] # PrefectExecutor tells it which cluster to start
    validate_parameters=True,
    persist_result=False,
)
def evaluate_slvmeval(
    evaluators: tuple[str, ...] = (),
    evaluators_file: str = "",
    release: str = "",
    version: int = 0,
    pairs: str = "",
    aspects: tuple[str, ...] = (),
    strengths: tuple[str, ...] = (),
    clips: tuple[int, ...] = (),
    most_per_aspect: int = 0,
    repeats: int = 1,
    retry: bool = False,
    most_dollars: float = 0.0,
    most_tokens: int = 0,
    prices: str = "",
    descriptions: str = "",
    store: str = "",
    profile: str = "",
    models: tuple[str, ...] = (),
    workers: int = 0,
    quiet: bool = True,
) -> State[EvaluationResult]:
    """Let evaluators judge the pairs of a release: only what was not asked before is asked.

    What is empty or 0 is as the profile says, or has no limit. Paths are absolute, on the machine of the
    Prefect worker.

    Args:
        evaluators: Who judges, each NAME or NAME?key=value&key=value.
        evaluators_file: Path of a .toml file with evaluators and their settings.
        release: Name of the release; may be left out if there is one.
        version: Version of the release; the newest by default.
        pairs: Other pairs in place of a release's, NAME:PATH, such as uve:/data/UVE.
        aspects: Only pairs of these aspects.
        strengths: Only pairs of these severities.
        clips: Only pairs with so many degraded clips.
        most_per_aspect: At most so many pairs of each aspect, drawn.
        repeats: How often each request is made.
        retry: Ask again what an evaluator could not answer.
        most_dollars: End the run before it costs more.
        most_tokens: End the run before it takes more.
        prices: Path of a price list in place of ours.
        descriptions: Folder with texts on aspects in place of ours.
        store: Folder of the store.
        profile: Path of the site's settings, a .toml file with store, model servers and worker pools.
        models: Folders with weights.
        workers: How many tasks run at once where the profile has no worker pools.
        quiet: Draw no progress bars in the worker's own terminal.
    """
    log_level(logging.INFO)
    try:
        options, site = asked_of_worker(
            evaluators=evaluators,
            file=evaluators_file,
            profile=profile,
            settings={"store": store, "models": models, "workers": workers},
            release=release or None,
            version=version or None,
            pairs=pairs,
            selection={
                "aspects": aspects,
                "strengths": strengths,
                "clips": clips,
                "most_per_aspect": most_per_aspect or None,
            },
            repeats=repeats,
            retry=retry,
            limits={"usd": most_dollars or None, "tokens": most_tokens or None},
            prices=prices or None,
            descriptions=descriptions or None,
        )
        with told_to_end(), RunBoard() as board:
            result = _evaluate(board, options, site, quiet)
    except SlvmevalError as problem:
        # the message says what to do; how the program came to it helps nobody
        log.error("%s", problem)
        return Failed(message=str(problem))
    return Completed(message=result.in_words(), data=result)


@flow(
    name=EVALUATE_FLOW_NAME,
    task_runner=DaskTaskRunner(),  # type: ignore[arg-type]
    validate_parameters=True,
    persist_result=False,
)
def evaluate_as_asked(
    options: EvaluateOptions, site: Profile, quiet: bool = False
) -> State[EvaluationResult]:
    """Evaluate as the command line asks for it.

    Parameters
    ----------
    options
        Who judges which pairs.
    site
        Where it runs.
    quiet
        Draw no progress bars.
    """
    with told_to_end(), RunBoard() as board:
        result = _evaluate(board, options, site, quiet)
    return Completed(message=result.in_words(), data=result)


def run_evaluate_flow(options: EvaluateOptions, site: Profile, quiet: bool = False) -> EvaluationResult:
    """Run the flow in this process, on the Prefect server that is set, else on one that ends with it."""
    with prefect_server():
        # what a flow gives is the data of the state that it returns
        return cast(EvaluationResult, evaluate_as_asked(options, site, quiet))


def _evaluate(board: RunBoard, options: EvaluateOptions, site: Profile, quiet: bool) -> EvaluationResult:
    """Evaluate, and show what became of it."""
    context = FlowRunContext.get()
    run_id = context.flow_run.id if context is not None and context.flow_run is not None else None
    store = options.open_store()
    quiet_libraries()
    end_dead_runs(board, store)
    with RequestFlowProgress(board, store.cache, quiet) as progress:
        if run_id is not None:
            progress.note_flow_run(str(run_id))
        evaluation = Evaluation(options, progress)
        evaluation.prepare()
        release = evaluation.pairs.name
        if run_id is not None:
            labels = ", ".join(judge.label for judge in evaluation.judges)
            name = f"{release} · {len(evaluation.wanted)} pairs · {labels}"
            post_name(board, run_id, name[:200], [f"release:{release}", f"site:{site.name}"])
        if site.pools and not evaluation.idle():
            require_fit(site, site.place)
        cluster = site_cluster(board, site, options.store, f"judge-{release}", str(run_id))
        with TaskEnds(board, run_id) as ends:
            result = evaluation.run(partial(PrefectExecutor, site.workers, cluster, ends.note))
        progress.say(result.in_words())
    _show(board, release, result)
    return result


def _show(board: RunBoard, release: str, result: EvaluationResult) -> None:
    """Show what was answered in words and as a table."""
    key = "".join(c if c.isalnum() else "-" for c in release.lower())
    says, rows = result.in_words(), result.rows()
    board.post("judged", partial(create_markdown_artifact, says, key=f"judged-{key}", description=says))
    board.post(
        "judgements",
        partial(create_table_artifact, rows, key=f"judgements-{key}", description=result.title),
    )
