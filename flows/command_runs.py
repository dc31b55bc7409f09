"""Run a declared flow for a command, in the command's process; Prefect is imported only if needed."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection
from functools import partial
from typing import Any

from flows.declaration import FlowDeclaration, OptionsT, ResultT
from infra.executor import Executor, InlineExecutor, require_worker_processes
from infra.leftovers import end_left_jobs
from infra.prefect_server import log_level, prefect_environment
from infra.profile import Profile
from infra.progress import read_runs
from storage_schemas.extras import is_installed, require_package
from storage_schemas.store import Store

log = logging.getLogger(__name__)

#: Maximum time after which an idle run reports a killed one to Prefect's server, in seconds.
TOLD_S = 30.0


def run_flow(
    flow: FlowDeclaration[OptionsT, Any, ResultT],
    options: OptionsT,
    site: Profile,
    direct: bool = False,
    quiet: bool = False,
) -> ResultT:
    """Prepare a flow once and run it in this process.

    If there is work, it runs on the configured Prefect server, or on one that ends with the run.

    Parameters
    ----------
    site
        The site's profile.
    direct
        Use local processes, without Prefect and Dask. Runs on this machine do so too if these are not
        installed.
    quiet
        Do not draw progress bars.

    Raises
    ------
    SlvmevalError
        If the run cannot start or continue; a PrerequisiteError if it needs Prefect, which is not installed.
    """
    log_to_stderr(quiet)
    direct = direct or not needs_prefect(site)
    if direct:
        options = flow.without_cluster(options)
    with (
        flow.progress(options.open_store().cache, quiet, flow.runs_as) as progress,
        flow.prepared(options, progress) as run,
    ):
        if direct:
            result: ResultT = run.run(partial(flow.processes, site.workers))
            return result
        end_left_jobs(options.open_store(), site)
        if run.idle():
            end_last_run(options.open_store(), site)
            # importing Prefect takes seconds, and there is no work for workers
            result = run.run(inline)
            return result
        if site.pools:
            from infra.slurm.profile_check import require_fit

            require_fit(site)
        else:
            # Prefect would print a traceback when the cluster cannot start
            require_worker_processes()
        prefect_environment(site.prefect_api_url)
        progress.working_on("the start of Prefect")
        from flows.shell import run_on_server

        return run_on_server(flow, run, progress, options, site)


def needs_prefect(site: Profile) -> bool:
    """Return whether a command's run uses Prefect; a local run does not if Prefect is not installed."""
    if site.pools or site.prefect_api_url or os.environ.get("PREFECT_API_URL") or is_installed("prefect"):
        require_package("prefect")
        return True
    return False


def end_last_run(store: Store, site: Profile) -> None:
    """Tell the configured Prefect server if the previous run was killed.

    A run on the server does so when it starts; a run with nothing to do is not one.
    """
    before = [run for run in read_runs(store.cache) if run["pid"] != os.getpid()][:1]
    killed = any(run["over"] and run["status"] != "ended" for run in before)
    if not killed or not (site.prefect_api_url or os.environ.get("PREFECT_API_URL")):
        return
    prefect_environment(site.prefect_api_url)
    from flows.board import RunBoard
    from flows.run_ends import end_dead_runs

    with RunBoard(TOLD_S) as board:
        end_dead_runs(board, store)


def log_to_stderr(quiet: bool) -> None:
    """Log progress as lines if there is no terminal for progress bars: a job's log is read later."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if not quiet and not sys.stderr.isatty():
        log_level(logging.INFO)


def inline(_pools: Collection[str] = ()) -> Executor:
    """Return an executor that works in this process, in place of any pools."""
    return InlineExecutor()
