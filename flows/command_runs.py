"""Run a declared flow for a command, in the command's process; Prefect is imported only if needed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from functools import partial
from typing import Any

from flows.declaration import FlowDeclaration, OptionsT, ResultT
from infra.executor import Executor, InlineExecutor
from infra.leftovers import end_left_jobs
from infra.prefect_server import log_level
from infra.profile import Profile


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
        Use local processes, without Prefect and Dask.
    quiet
        Do not draw progress bars.

    Raises
    ------
    SlvmevalError
        If the run cannot start or continue.
    """
    log_to_stderr(quiet)
    if direct:
        options = flow.without_cluster(options)
    with (
        flow.progress(options.open_store().cache, quiet) as progress,
        flow.prepared(options, progress) as run,
    ):
        if direct:
            result: ResultT = run.run(partial(flow.processes, site.workers))
            return result
        end_left_jobs(options.open_store(), site)
        if run.idle():
            # importing the orchestrator takes seconds, and there is no work for workers
            result = run.run(_inline)
            return result
        if site.pools:
            from infra.slurm.profile_check import require_fit

            require_fit(site, site.place)
        from infra.prefect_server import prefect_environment

        prefect_environment(site.prefect_api_url)
        from flows.shell import run_on_server

        return run_on_server(flow, run, progress, options, site)


def log_to_stderr(quiet: bool) -> None:
    """Log progress as lines if there is no terminal for bars: a job's log is read later."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if not quiet and not sys.stderr.isatty():
        log_level(logging.INFO)


def _inline(_pools: Collection[str] = ()) -> Executor:
    return InlineExecutor()
