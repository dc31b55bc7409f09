"""The Prefect flow `build-slvmeval`, as a worker runs it for a deployment and as the command line does."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from prefect import flow
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed
from prefect_dask.task_runners import DaskTaskRunner

from flows.board import RunBoard
from flows.build.options import DEFAULT_RECIPE, BuildOptions, asked_of_worker, remember
from flows.build.run import Build, BuildResult
from flows.dashboard import FlowProgress, artifact_key, post_name
from flows.prefect_executor import PrefectExecutor, site_cluster
from flows.run_ends import TaskEnds, end_dead_runs, told_to_end
from infra.prefect_server import FLOW_NAME, log_level, prefect_server, quiet_libraries
from infra.profile import Profile
from infra.slurm.profile_check import require_fit
from storage_schemas.errors import Reason, SlvmevalError, StoreError
from storage_schemas.store import FRAMES, Store
from tasks.publish.gallery.write import gallery_once
from tasks.report.pictures import contact_sheet, data_uri


def name_run(board: RunBoard, run_id: UUID, build: Build, site: Profile) -> None:
    """Give a flow run a name that a person understands, and tags to look for."""
    sources = len(build.sources)
    words = (build.options.release, f"{sources} source{'' if sources == 1 else 's'}", build.recipe.name)
    tags = [f"recipe:{build.recipe.name}", f"release:{build.options.release}", f"site:{site.name}"]
    post_name(board, run_id, " · ".join(words), tags)


def show_release(board: RunBoard, build: Build, result: BuildResult, says: str) -> None:
    """Show what was made: in words, as a table with reasons, as a contact sheet an aspect, as a link."""
    release = result.release
    name, summary = release.name, release.summary()
    key = artifact_key(name)
    board.post("result", partial(create_markdown_artifact, says, key=f"result-{key}", description=says))
    board.post(
        "summary",
        partial(
            create_table_artifact,
            summary_rows(summary),
            key=f"summary-{key}",
            description=f"Release {name}, version {release.version}",
        ),
    )
    path = str(release.path)
    board.post(
        "place of the release",
        partial(
            # no link: from a page of a server, browsers open no files
            create_markdown_artifact,
            f"```\n{path}\n```\n",
            key=f"release-{key}",
            description=f"Folder of release {name}, version {release.version}: {path}",
        ),
    )
    for aspect in summary:
        # frames of an older source may have been evicted since
        records = [r for r in release.pairs(aspect) if build.store.has(FRAMES, r.frames_id)]
        if not records:
            continue
        clips = release.clips(records[0].source_id)
        try:
            sheet = data_uri(contact_sheet(build.store, records[0], clips))
        except StoreError:
            # the release is written: a picture of it that fails is no failed build
            log.exception("%s has no contact sheet", aspect)
            continue
        board.post(
            f"contact sheet of {aspect}",
            partial(
                create_markdown_artifact,
                f"### {aspect}\n\n![High quality above, degraded below]({sheet})\n",
                key=f"sheet-{key}-{artifact_key(aspect)}",
                description=f"{aspect}: high quality above, degraded below",
            ),
        )


def summary_rows(summary: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the table, from ``Release.summary``."""
    return [
        {
            "aspect": aspect,
            "planned": counts["planned"],
            "built": counts["built"],
            "set aside": counts["set_aside"],
            "reasons": ", ".join(f"{reason} {n}" for reason, n in counts["reasons"].items()),
        }
        for aspect, counts in summary.items()
    ]


def link_gallery(board: RunBoard, page: Path, url: str | None) -> None:
    """Link a gallery where it is served, else say where its first page is."""
    if url:
        link = f"{url.rstrip('/')}/{page.name}"
        request = partial(create_link_artifact, link=link, link_text="Gallery")
    else:
        says = f"```\n{page}\n```\n`gallery_url` in the profile makes this a link.\n"
        request = partial(create_markdown_artifact, says)
    board.post(
        "link to the gallery",
        partial(request, key="gallery", description=f"Pages to look at the release: {link if url else page}"),
    )


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
        with told_to_end(), RunBoard() as board:
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
    with told_to_end(), RunBoard() as board:
        result, says = _build(board, options, site, quiet)
    return Completed(message=says, data=result)


def run_build_flow(options: BuildOptions, site: Profile, quiet: bool = False) -> BuildResult:
    """Run the flow in this process, on the Prefect server that is set, else on one that ends with it."""
    with prefect_server():
        # what a flow gives is the data of the state that it returns
        return cast(BuildResult, build_as_asked(options, site, quiet))


def _build(
    board: RunBoard, options: BuildOptions, site: Profile, quiet: bool, leave_unsettled: bool = False
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


def _write_gallery(board: RunBoard, result: BuildResult, folder: Path, url: str | None) -> str:
    """Write the gallery, link it, and return what there is to say of it."""
    try:
        page = gallery_once(result.release, folder)
    except (SlvmevalError, OSError):
        # the release is written, and only that must not be lost
        log.exception("the gallery could not be written into %s", folder)
        return f" The gallery could not be written into {folder}, see the log."
    link_gallery(board, page, url)
    return ""
