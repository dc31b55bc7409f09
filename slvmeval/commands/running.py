"""Run a build with or without an orchestrator."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path

from flows.asked import remember
from flows.build_release import BuildResult
from flows.build_run import Build
from flows.options import BuildOptions
from infra.executor import InlineExecutor, ProcessExecutor
from infra.prefect_settings import log_level
from infra.profile import Profile
from infra.progress import BuildProgress
from storage_schemas.store import Store


def run_build(options: BuildOptions, site: Profile, direct: bool, quiet: bool) -> BuildResult:
    """Build in processes of this machine, or through the flow where there is work for it.

    Raises
    ------
    SlvmevalError
        If the build cannot start or go on.
    """
    log_to_stderr(quiet)
    # first of all: nothing is written into a folder that turns out to be no store
    store = Store.create(Path(options.store))
    remember(store, options)
    if direct:
        with BuildProgress(store.cache, quiet) as progress:
            build = Build(options, progress)
            build.prepare()
            return build.run(partial(ProcessExecutor, site.workers))
    # it runs from here on, also while the sources are read and the server starts
    with BuildProgress(store.cache, quiet=True) as silent:
        build = Build(options, silent)
        build.prepare()
        if build.idle():
            # importing the orchestrator alone takes seconds, and nothing is to be done
            return build.run(InlineExecutor)
        if site.pools:
            from infra.slurm.fits import require_fit

            require_fit(site, site.place)
        from infra.embedded_server import prefect_environment

        prefect_environment(site.prefect_api_url)
        from flows.build import run_build_flow

        return run_build_flow(options, site, quiet)


def log_to_stderr(quiet: bool) -> None:
    """Where there is no terminal for bars, say in lines what is done; a job's log is read later."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if not quiet and not sys.stderr.isatty():
        log_level(logging.INFO)
