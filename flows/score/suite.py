"""The Prefect flow `suite-slvmeval`: a suite scores videos, for a deployment and for the command line."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, cast

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed
from prefect_dask.task_runners import DaskTaskRunner

from flows.board import RunBoard
from flows.dashboard import post_name
from flows.prefect_executor import PrefectExecutor, site_cluster
from flows.run_ends import TaskEnds, end_dead_runs, told_to_end
from flows.score.evaluate import RequestFlowProgress
from flows.score.results import SuiteResult
from flows.score.suite_options import SuiteOptions, asked_of_worker
from flows.score.suite_run import SuiteRun
from infra.prefect_server import SUITE_FLOW_NAME, log_level, prefect_server, quiet_libraries
from infra.profile import Profile
from infra.slurm.profile_check import require_fit
from storage_schemas.errors import SlvmevalError
from tasks.report.suite_leaderboard import board_table
from tasks.scoring.suites.leaderboard import board_of, current, means_of

log = logging.getLogger(__name__)

#: So many rows of files that could not be used are shown.
_SHOWN_LEFT_OUT = 200


# The parameters are described in Google's style: the only one that Prefect reads for the form in its UI.
@flow(
    name=SUITE_FLOW_NAME,
    task_runner=DaskTaskRunner(),  # type: ignore[arg-type] # PrefectExecutor tells it which cluster to start
    validate_parameters=True,
    persist_result=False,
)
def suite_slvmeval(
    suite: str = "",
    videos: str = "",
    prompts: str = "",
    manifest: str = "",
    dimensions: tuple[str, ...] = (),
    generators: tuple[str, ...] = (),
    mini: int = 0,
    seed: int = 0,
    fps: str = "",
    long_side: int = 0,
    blur: float = 0.0,
    settings: tuple[str, ...] = (),
    repeats: int = 1,
    retry: bool = False,
    concurrency: int = 0,
    most_dollars: float = 0.0,
    most_tokens: int = 0,
    prices: str = "",
    store: str = "",
    profile: str = "",
    models: tuple[str, ...] = (),
    workers: int = 0,
    quiet: bool = True,
) -> State[SuiteResult]:
    """Score videos with a suite: what was scored before is not scored again.

    What is empty or 0 is as the profile or the suite says, or has no limit. Paths are absolute, on the
    machine of the Prefect worker.

    Args:
        suite: Name of the suite, such as video-bench.
        videos: Folder of the videos; paths of the manifest start here.
        prompts: Path of the prompts, as CSV, JSON Lines or as published.
        manifest: Path of the file that says which video is which; by default the one in that folder.
        dimensions: Only these dimensions.
        generators: Only videos of these models of the manifest.
        mini: Only so many prompts of each dimension, drawn.
        seed: Of that draw.
        fps: Frames a second at which videos are sampled, or native.
        long_side: Longer side of the frames in pixels.
        blur: Blur videos by so many pixels; such scores are kept apart.
        settings: Settings of the suite, each KEY=VALUE.
        repeats: How often each score is asked for.
        retry: Score again what a model could not.
        concurrency: Scores under way at once in one process.
        most_dollars: End the run before it costs more.
        most_tokens: End the run before it takes more.
        prices: Path of a price list in place of ours.
        store: Folder of the store.
        profile: Path of the site's settings, a .toml file with store, model servers and worker pools.
        models: Folders with weights.
        workers: How many tasks run at once where the profile has no worker pools.
        quiet: Draw no progress bars in the worker's own terminal.
    """
    log_level(logging.INFO)
    try:
        options, site = asked_of_worker(
            suite=suite,
            videos=videos,
            prompts=prompts,
            manifest=manifest,
            prices=prices,
            profile=profile,
            settings=settings,
            site_settings={"store": store, "models": models, "workers": workers},
            dimensions=dimensions,
            generators=generators,
            mini=mini or None,
            seed=seed,
            fps=fps,
            long_side=long_side or None,
            blur=blur,
            repeats=repeats,
            retry=retry,
            concurrency=concurrency or None,
            limits={"usd": most_dollars or None, "tokens": most_tokens or None},
        )
        with told_to_end(), RunBoard() as board:
            result = _score(board, options, site, quiet)
    except SlvmevalError as problem:
        # the message says what to do; how the program came to it helps nobody
        log.error("%s", problem)
        return Failed(message=str(problem))
    return Completed(message=result.in_words(), data=result)


@flow(
    name=SUITE_FLOW_NAME,
    task_runner=DaskTaskRunner(),  # type: ignore[arg-type]
    validate_parameters=True,
    persist_result=False,
)
def suite_as_asked(options: SuiteOptions, site: Profile, quiet: bool = False) -> State[SuiteResult]:
    """Score as the command line asks for it.

    Parameters
    ----------
    options
        Which suite scores which videos.
    site
        Where it runs.
    quiet
        Draw no progress bars.
    """
    with told_to_end(), RunBoard() as board:
        result = _score(board, options, site, quiet)
    return Completed(message=result.in_words(), data=result)


def run_suite_flow(options: SuiteOptions, site: Profile, quiet: bool = False) -> SuiteResult:
    """Run the flow in this process, on the Prefect server that is set, else on one that ends with it."""
    with prefect_server():
        # what a flow gives is the data of the state that it returns
        return cast(SuiteResult, suite_as_asked(options, site, quiet))


def _score(board: RunBoard, options: SuiteOptions, site: Profile, quiet: bool) -> SuiteResult:
    """Score, and show what became of it."""
    context = FlowRunContext.get()
    run_id = context.flow_run.id if context is not None and context.flow_run is not None else None
    store = options.open_store()
    quiet_libraries()
    end_dead_runs(board, store)
    with RequestFlowProgress(board, store.cache, quiet) as progress:
        if run_id is not None:
            progress.note_flow_run(str(run_id))
        run = SuiteRun(options, progress)
        run.prepare()
        if run_id is not None:
            name = f"{run.name} · {run.material.count} videos · {len(run.asked)} dimensions"
            post_name(board, run_id, name[:200], [f"suite:{run.name}", f"site:{site.name}"])
        if site.pools and not run.idle():
            require_fit(site, site.place)
        # several processes would load the same models several times
        cluster = site_cluster(
            board, site, options.store, f"suite-{options.suite}", str(run_id), one_loads=True
        )
        with TaskEnds(board, run_id) as ends:
            result = run.run(lambda _pools: PrefectExecutor(site.workers, cluster, ends.note, one_loads=True))
        progress.say(result.in_words())
    _show(board, run, result)
    return result


def _show(board: RunBoard, run: SuiteRun, result: SuiteResult) -> None:
    """Show what was scored in words, by dimension, as a leaderboard, and what of the files was left out."""
    key = "".join(c if c.isascii() and c.isalnum() else "-" for c in run.name.lower())
    says = result.in_words()
    board.post("scored", partial(create_markdown_artifact, says, key=f"scored-{key}", description=says))
    tables = {
        "dimensions": (result.title, result.rows()),
        "leaderboard": (f"{result.title}: leaderboard", leaderboard_rows(run)),
        "left-out": (
            f"What of the files was left out, the first {_SHOWN_LEFT_OUT} of {len(result.left_out)}",
            [vars(one) for one in result.left_out[:_SHOWN_LEFT_OUT]],
        ),
    }
    for name, (title, rows) in tables.items():
        if rows:
            board.post(name, partial(create_table_artifact, rows, key=f"{name}-{key}", description=title))


def leaderboard_rows(run: SuiteRun) -> list[dict[str, Any]]:
    """Return the leaderboard of all scores of the run's suite, a row a model."""
    rows, others = current(run.scores.rows(run.name))
    table = board_table(board_of(run.suite.title, run.suite.dimensions, means_of(rows), others))
    titles = [column.title for column in table.shown]
    return [dict(zip(titles, cells, strict=True)) for cells in table.cells()]
