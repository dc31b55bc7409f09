"""The Prefect flow `build-slvmeval`, as a worker runs it for a deployment and as the command line does."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import cast

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed
from prefect_dask.task_runners import DaskTaskRunner

from flows.asked import remember
from flows.board import Board
from flows.build_release import BuildResult
from flows.build_run import Build
from flows.clusters import site_cluster
from flows.dashboard import FlowProgress, link_gallery, name_run, show_release
from flows.options import BuildOptions
from flows.prefect_executor import PrefectExecutor
from flows.resolve import DEFAULT_RECIPE, asked_of_worker
from flows.task_ends import TaskEnds, end_dead_runs
from flows.terminated import told_to_end
from infra.embedded_server import prefect_server
from infra.prefect_settings import FLOW_NAME, log_level, quiet_libraries
from infra.profile import Profile
from infra.slurm.fits import require_fit
from storage_schemas.errors import Reason, SlvmevalError
from storage_schemas.store import Store
from tasks.publish.gallery_once import gallery_once

log = logging.getLogger(__name__)


# The parameters are described in Google's style: the only one that Prefect reads for the form in its UI.
@flow(
    name=FLOW_NAME,
    task_runner=DaskTaskRunner(),  # type: ignore[arg-type] # PrefectExecutor tells it which cluster to start
    validate_parameters=True,
    persist_result=False,
)
def build_slvmeval(
    sources: tuple[str, ...] = (),
    recipe: str = DEFAULT_RECIPE,
    changes: tuple[str, ...] = (),
    release: str = "",
    store: str = "",
    profile: str = "",
    models: tuple[str, ...] = (),
    fresh: bool = False,
    retry: bool = False,
    settle_s: float = 0.0,
    gallery: str = "",
    workers: int = 0,
    quiet: bool = True,
) -> State[BuildResult | None]:
    """Build an SLVMEval release, or bring it up to date: only what is missing is made.

    What is empty or 0 is as the profile says. Paths are absolute, on the machine of the Prefect worker.

    Args:
        sources: Data sets, each KIND:PATH such as folder:/data/videos.
        recipe: cpu-approx, paper, paper-eight, paper-lightning, or the path of a .toml or .json file.
        changes: Single values of the recipe, each KEY=VALUE such as clips_per_pair=3.
        release: Name of the release; a new version extends the newest one of it.
        store: Folder of the store.
        profile: Path of the site's settings, a .toml file with store, sources and worker pools.
        models: Folders with weights.
        fresh: Extend no older version, draw all candidates anew.
        retry: Try again what failed in earlier builds.
        settle_s: Leave files for the next run that changed less than this many seconds ago.
        gallery: Folder into which the gallery is written.
        workers: How many sources are worked on at once where the profile has no worker pools.
        quiet: Draw no progress bars in the worker's own terminal.
    """
    log_level(logging.INFO)
    try:
        options, site = asked_of_worker(
            sources=sources,
            recipe=recipe,
            changes=changes,
            profile=profile,
            fresh=fresh,
            retry=retry,
            release=release,
            store=store,
            models=models,
            settle_s=settle_s,
            gallery=gallery,
            workers=workers,
        )
        with told_to_end(), Board() as board:
            result, says = _build(board, options, site, quiet, leave_unsettled=True)
            if result is not None and site.gallery is not None:
                says += _write_gallery(board, result, Path(site.gallery).expanduser(), site.gallery_url)
    except SlvmevalError as problem:
        # the message says what to do; how the program came to it helps nobody
        log.error("%s", problem)
        return Failed(message=str(problem))
    return Completed(message=says, data=result)


@flow(
    name=FLOW_NAME,
    task_runner=DaskTaskRunner(),  # type: ignore[arg-type]
    validate_parameters=True,
    persist_result=False,
)
def build_as_asked(options: BuildOptions, site: Profile, quiet: bool = False) -> State[BuildResult | None]:
    """Build an SLVMEval release as the command line asks for it.

    Parameters
    ----------
    options
        What to build, from what, and where it is kept.
    site
        Where it runs.
    quiet
        Draw no progress bars.
    """
    with told_to_end(), Board() as board:
        result, says = _build(board, options, site, quiet)
    return Completed(message=says, data=result)


def run_build_flow(options: BuildOptions, site: Profile, quiet: bool = False) -> BuildResult:
    """Run the flow in this process, on the Prefect server that is set, else on one that ends with it."""
    with prefect_server():
        # what a flow gives is the data of the state that it returns
        return cast(BuildResult, build_as_asked(options, site, quiet))


def _build(
    board: Board, options: BuildOptions, site: Profile, quiet: bool, leave_unsettled: bool = False
) -> tuple[BuildResult | None, str]:
    """Build, show it, and return with the result what there is to say of it.

    There is no result, and no version of a release, where all there is is still being written.

    Parameters
    ----------
    leave_unsettled
        Take no note of files that are still being written: the next run finds them. Else they are set aside.
    """
    context = FlowRunContext.get()
    run_id = context.flow_run.id if context is not None and context.flow_run is not None else None
    store = Store.create(Path(options.store))
    remember(store, options)
    quiet_libraries()
    end_dead_runs(board, store)
    with FlowProgress(board, store.cache, quiet) as progress:
        if run_id is not None:
            progress.note_flow_run(str(run_id))
        build = Build(options, progress)
        build.prepare()
        unsettled = [row for row in build.rows if row.reason is Reason.STILL_BEING_WRITTEN]
        if leave_unsettled:
            build.rows = [row for row in build.rows if row not in unsettled]
            if unsettled and not (build.sources or build.rows or build.newest):
                files = _counted(len(unsettled), "file")
                return None, f"Nothing to build yet: {files} still being written, left for the next run."
        if run_id is not None:
            name_run(board, run_id, build, site)
        if site.pools and not build.idle():
            require_fit(site, site.place)
        cluster = site_cluster(board, site, options.store, options.release, str(run_id))
        with TaskEnds(board, run_id) as ends:
            result = build.run(partial(PrefectExecutor, site.workers, cluster, ends.note))
        says = in_words(result, len(unsettled) if leave_unsettled else 0)
        progress.say(says)
    show_release(board, build, result, says)
    return result, says


def in_words(result: BuildResult, unsettled: int = 0) -> str:
    """Return in a sentence or two what a build made; `unsettled` files were left for the next one."""
    release = result.release
    made = release.manifest.content
    counts = f"{_counted(made['pairs'], 'pair')} of {_counted(made['sources'], 'source')}"
    if result.new:
        says = f"Version {release.version} of release {release.name} is written: {counts}"
    else:
        says = f"Nothing new: release {release.name} stays at version {release.version}, {counts}"
    if result.lost:
        says += f"; {_counted(result.lost, 'source or planned pair')} set aside"
    if unsettled:
        says += f"; {_counted(unsettled, 'file')} still being written, left for the next run"
    return says + "."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what.replace(' or ', 's or ')}s"


def _write_gallery(board: Board, result: BuildResult, folder: Path, url: str | None) -> str:
    """Write the gallery, link it, and return what there is to say of it."""
    try:
        page = gallery_once(result.release, folder)
    except (SlvmevalError, OSError):
        # the release is written, and only that must not be lost
        log.exception("the gallery could not be written into %s", folder)
        return f" The gallery could not be written into {folder}, see the log."
    link_gallery(board, page, url)
    return ""
