"""The Prefect flow `annotate-slvmeval`: translate, publish, collect, filter, each as far as it is due."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed
from prefect_dask.task_runners import DaskTaskRunner

from flows.annotate.options import AnnotateOptions, asked_of_worker
from flows.annotate.run import AnnotationResult, annotation, table
from flows.board import RunBoard
from flows.dashboard import FlowProgress, post_name
from flows.prefect_executor import PrefectExecutor, site_cluster
from flows.run_ends import TaskEnds, end_dead_runs, told_to_end
from infra.prefect_server import ANNOTATE_FLOW_NAME, log_level, quiet_libraries
from infra.profile import Profile
from infra.slurm.profile_check import require_fit
from storage_schemas.errors import SlvmevalError
from storage_schemas.store import Store

log = logging.getLogger(__name__)


# The parameters are described in Google's style: the only one that Prefect reads for the form in its UI.
@flow(
    name=ANNOTATE_FLOW_NAME,
    task_runner=DaskTaskRunner(),  # type: ignore[arg-type] # PrefectExecutor tells it which cluster to start
    validate_parameters=True,
    persist_result=False,
)
def annotate_slvmeval(
    release: str = "",
    version: int = 0,
    campaign: str = "",
    settings: str = "",
    database: str = "",
    private_audience: bool = False,
    translate_into: str = "",
    translation_model: str = "",
    translation_server: str = "",
    translation_prompt: str = "",
    plain_sampling: bool = False,
    filter_when: str = "complete",
    filtered: str = "",
    store: str = "",
    profile: str = "",
    workers: int = 0,
    quiet: bool = True,
) -> State[AnnotationResult]:
    """Put a release before people, take over their votes, and filter the release when they are complete.

    What is done already is not done again, so it may run every hour. What is empty or 0 is as the profile
    says. Paths are absolute, on the machine of the Prefect worker.

    Args:
        release: Name of the release; may be left out if there is one.
        version: Version of the release; the newest by default.
        campaign: Name of the campaign, RELEASE-VERSION by default.
        settings: Path of a .toml file with settings of the campaign.
        database: Address of the database behind the pages; SQLite in the store by default.
        private_audience: Also show sources that may not be passed on: all who come are under your agreement.
        translate_into: Language into which captions are translated, such as ja; empty translates nothing.
        translation_model: The model that translates.
        translation_server: Its server in the profile's model_servers, by default translation.
        translation_prompt: Path of a prompt in place of ours.
        plain_sampling: Send the translating server nothing that only vLLM knows.
        filter_when: When the release is filtered, complete (every pair has its votes), now or never.
        filtered: Name of the filtered release, RELEASE-filtered by default.
        store: Folder of the store.
        profile: Path of the site's settings, a .toml file with store, model servers and worker pools.
        workers: How many tasks run at once where the profile has no worker pools.
        quiet: Draw no progress bars in the worker's own terminal.
    """
    log_level(logging.INFO)
    try:
        options, site = asked_of_worker(
            profile=profile,
            settings={"store": store, "workers": workers},
            database=database,
            translate_into=translate_into,
            translation_model=translation_model,
            translation_server=translation_server,
            translation_prompt=translation_prompt,
            plain_sampling=plain_sampling,
            filter_when=filter_when,
            release=release or None,
            version=version or None,
            campaign=campaign,
            campaign_settings=settings,
            private_audience=private_audience,
            filtered=filtered,
        )
        with told_to_end(), RunBoard() as board:
            result = _annotate(board, options, site, quiet)
    except SlvmevalError as problem:
        # the message says what to do; how the program came to it helps nobody
        log.error("%s", problem)
        return Failed(message=str(problem))
    return Completed(message=result.in_words(), data=result)


def _annotate(board: RunBoard, options: AnnotateOptions, site: Profile, quiet: bool) -> AnnotationResult:
    """Annotate, and show what became of it."""
    context = FlowRunContext.get()
    run_id = context.flow_run.id if context is not None and context.flow_run is not None else None
    store = Store.open(Path(options.store))
    quiet_libraries()
    end_dead_runs(board, store)
    with FlowProgress(board, store.cache, quiet) as progress:
        if run_id is not None:
            progress.note_flow_run(str(run_id))
        with annotation(options, progress) as made:
            name = made.campaign.name
            if run_id is not None:
                pairs = len(made.shown.records)
                tags = [f"release:{made.release.name}", f"campaign:{name}", f"site:{site.name}"]
                post_name(board, run_id, f"{name} · {pairs} pairs", tags)
            if site.pools and made.missing():
                require_fit(site, site.place)
            cluster = site_cluster(board, site, options.store, f"annotate-{name}", str(run_id))
            with TaskEnds(board, run_id) as ends:
                result = made.run(partial(PrefectExecutor, site.workers, cluster, ends.note))
    _show(board, name, result)
    return result


def _show(board: RunBoard, campaign: str, result: AnnotationResult) -> None:
    """Show in words and as a table what was done."""
    key = "".join(c if c.isascii() and c.isalnum() else "-" for c in campaign.lower())
    says = result.in_words()
    board.post("annotated", partial(create_markdown_artifact, says, key=f"annotated-{key}", description=says))
    board.post(
        "votes",
        partial(create_table_artifact, table(result), key=f"votes-{key}", description=f"Campaign {campaign}"),
    )
