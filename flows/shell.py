"""Run a declared flow under Prefect: for a deployment on a worker, or for a command in its process."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Collection
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar, cast
from uuid import UUID

from prefect import Flow, flow, tags
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext, TagsContext
from prefect.states import Completed, Failed
from prefect_dask.task_runners import DaskTaskRunner

from flows.board import RunBoard, StageArtifacts
from flows.declaration import Artifact, FlowDeclaration, NothingToDo, OptionsT, ResultT
from flows.parameters import FlowParameters
from flows.prefect_executor import PrefectExecutor, site_cluster
from flows.run_ends import TaskEnds, end_dead_runs, keep_termination
from infra.executor import Executor
from infra.leftovers import end_left_jobs
from infra.prefect_server import log_level, prefect_server, quiet_libraries
from infra.profile import Profile
from infra.progress import BuildProgress
from infra.slurm.profile_check import require_fit
from storage_schemas.errors import SlvmevalError
from storage_schemas.model import Frozen
from storage_schemas.secrets import strike_out, strike_out_of_logs, strike_out_row, struck_out_errors

log = logging.getLogger(__name__)

#: State of a run on a server that completed with items set aside or requests without an answer: the server's
#: pages and automations distinguish it from others.
INCOMPLETE = "Incomplete"
#: The exit code of a command in this case.
_SOME_SET_ASIDE = 3

_MAX_NAME = 200


def deployed(declared: FlowDeclaration[Any, Any, Any], function: str, module: str) -> Flow[..., Any]:
    """Return the Prefect flow for a deployment.

    Its parameters, and thus the form in Prefect's UI, are the fields of the declared parameters.

    Parameters
    ----------
    function, module
        Variable and module that hold the flow, where a worker finds it.
    """

    def run(**given: Any) -> State[Any]:
        log_level(logging.INFO)
        strike_out_of_logs()
        try:
            parameters = declared.parameters.of_form(given)
            site = parameters.site_on_worker()
            options = declared.options(parameters, site)
            with struck_out_errors(), keep_termination(), RunBoard() as board:
                return _run_on_worker(declared, board, options, site)
        except SlvmevalError as problem:
            # the message says what to do; a traceback would not help
            log.error("%s", problem)
            return Failed(message=str(problem))

    run.__name__ = run.__qualname__ = function
    run.__module__ = module
    run.__doc__ = _form_text(declared.parameters)
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # Prefect makes the form of it
        [
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
            )
            for name, (annotation, default, _) in declared.parameters.form().items()
        ]
    )
    return _prefect_flow(declared.name, run)


def _form_text(parameters: type[FlowParameters]) -> str:
    """Return a docstring in Google style, the only one from which Prefect reads parameter descriptions."""
    words = inspect.getdoc(parameters) or ""
    fields = (f"    {name}: {text}" for name, (_, _, text) in parameters.form().items())
    return "\n".join([words, "", "Args:", *fields])


def _prefect_flow(name: str, function: Callable[..., State[Any]]) -> Flow[..., Any]:
    # PrefectExecutor sets the task runner's cluster, if one is needed
    runner: Any = DaskTaskRunner()
    return flow(name=name, task_runner=runner, validate_parameters=True, persist_result=False)(function)


def run_on_server(
    declared: FlowDeclaration[OptionsT, Any, ResultT],
    run: Any,
    progress: BuildProgress,
    options: OptionsT,
    site: Profile,
) -> ResultT:
    """Run a prepared run as a flow of this process, on the configured server or an embedded one.

    Parameters
    ----------
    run
        A prepared run of the declaration.
    site
        The site's profile.
    """
    with prefect_server(), tags(progress.process_tag):
        progress.working_on()
        given = _of_command.set(lambda board: _run(declared, board, run, progress, options, site))
        try:
            # the data of a flow's returned state is its result
            return cast(
                ResultT,
                _prefect_flow(declared.name, _run_of_command)(
                    without_secrets(options), without_secrets(site)
                ),
            )
        finally:
            _of_command.reset(given)


#: The body of this process's flow. Prefect sends the flow's function to the workers with each stage, so the
#: function itself must not refer to objects of this process, such as locks.
_of_command: ContextVar[Callable[[RunBoard], Any]] = ContextVar("_of_command")


def _run_of_command(options: Any, site: Any) -> State[Any]:
    """Run the flow set by :func:`run_on_server`; the parameters are only displayed by Prefect."""
    quiet_libraries()
    # tags for the run, not for its tasks
    with TagsContext(), struck_out_errors(), keep_termination(), RunBoard() as board:
        end_dead_runs(board, options.open_store())
        result, summary = _of_command.get()(board)
    return Completed(message=strike_out(summary), data=result)


_Settings = TypeVar("_Settings", bound=Frozen)


def without_secrets(settings: _Settings) -> _Settings:
    """Return settings without the secrets in them, for Prefect's pages."""
    values = json.loads(settings.model_dump_json())
    struck = strike_out_row(values)
    return settings if struck == values else type(settings).model_validate_json(json.dumps(struck))


def _run_on_worker(
    declared: FlowDeclaration[Any, Any, Any], board: RunBoard, options: Any, site: Profile
) -> State[Any]:
    store = options.open_store()
    quiet_libraries()
    end_dead_runs(board, store)
    end_left_jobs(store, site)
    # no progress bars in a worker's log
    with declared.progress(store.cache, quiet=True, what=declared.runs_as) as progress:
        if (run_id := _run_id()) is not None:
            progress.note_flow_run(str(run_id))
        try:
            with declared.prepared(options, progress) as run:
                if site.pools and not run.idle():
                    require_fit(site)
                result, summary = _run(declared, board, run, progress, options, site)
        except NothingToDo as reason:
            return Completed(message=strike_out(str(reason)))
    more, artifacts = declared.finish_on_worker(result, site)
    for artifact in artifacts:
        show(board, artifact)
    name = INCOMPLETE if getattr(result, "exit_code", 0) == _SOME_SET_ASIDE else "Completed"
    return Completed(name=name, message=strike_out(summary + more), data=result)


def _run(
    declared: FlowDeclaration[Any, Any, ResultT],
    board: RunBoard,
    run: Any,
    progress: BuildProgress,
    options: Any,
    site: Profile,
) -> tuple[ResultT, str]:
    """Run a prepared run, showing name, tags, progress and artifacts; return its result, also in words."""
    run_id = _run_id()
    label = declared.label(run)
    if run_id is not None:
        progress.note_flow_run(str(run_id))
        _post_name(board, run_id, label.name[:_MAX_NAME], [*label.tags, f"site:{site.name}"])
    progress.listen(StageArtifacts(board, declared.counted))
    cluster = site_cluster(board, site, options.store, label.jobs, str(run_id), declared.one_loads)
    with TaskEnds(board, run_id) as ends:

        def open_executor(_pools: Collection[str] = ()) -> Executor:
            cores = site.pools[site.work_placement.pool("cpu")].cores if site.pools else site.workers
            return PrefectExecutor(site.workers, cluster, ends.note, declared.one_loads, cores)

        result: ResultT = run.run(open_executor)
    summary = result.in_words() + progress.unfit_in_words()
    progress.say(summary)
    for artifact in declared.artifacts(run, result):
        show(board, artifact)
    rows = [
        {"pool": pool, "node": node, "why": why}
        for pool, nodes in progress.unfit.items()
        for node, why in nodes.items()
    ]
    if rows:
        show(board, Artifact("unfit-nodes", "Nodes that were left out", rows=rows))
    return result, summary


def _run_id() -> UUID | None:
    context = FlowRunContext.get()
    return context.flow_run.id if context is not None and context.flow_run is not None else None


def _post_name(board: RunBoard, run_id: UUID, name: str, tags: list[str]) -> None:
    """Set the name and tags of a flow run."""

    def request() -> None:
        with get_client(sync_client=True) as client:
            client.update_flow_run(run_id, name=name, tags=tags)

    board.post("name of the run", request)


def show(board: RunBoard, artifact: Artifact) -> None:
    """Show an artifact in Prefect's UI, without secrets."""
    create: Callable[..., Any]
    if artifact.link:
        create = partial(create_link_artifact, link=artifact.link, link_text=artifact.key.capitalize())
    elif artifact.rows:
        create = partial(create_table_artifact, [strike_out_row(dict(row)) for row in artifact.rows])
    else:
        create = partial(create_markdown_artifact, strike_out(artifact.markdown))
    board.post(
        f"artifact {artifact.key}", partial(create, key=artifact.key, description=artifact.description)
    )
