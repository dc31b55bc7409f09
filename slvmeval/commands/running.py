"""Run a build with or without an orchestrator, and remember how it was asked for."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from flows.build_run import Build, BuildResult
from flows.options import BuildOptions
from flows.source_roots import typed_options
from infra.executor import InlineExecutor, ProcessExecutor
from infra.progress import BuildProgress
from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store

_OUR_PACKAGES = ("storage_schemas", "tasks", "infra", "flows", "slvmeval")


def run_build(options: BuildOptions, workers: int, direct: bool, quiet: bool) -> BuildResult:
    """Build in processes of this machine, or through the flow where there is work for it.

    Raises
    ------
    SlvmevalError
        If the build cannot start or go on.
    """
    _log_to_stderr(quiet)
    # first of all: nothing is written into a folder that turns out to be no store
    store = Store.create(Path(options.store))
    write_atomic(_asked_path(store, options.release), options.model_dump_json(indent=1).encode())
    if direct:
        with BuildProgress(store.cache, quiet) as progress:
            build = Build(options, progress)
            build.prepare()
            return build.run(partial(ProcessExecutor, workers))
    # it runs from here on, also while the sources are read and the server starts
    with BuildProgress(store.cache, quiet=True) as silent:
        build = Build(options, silent)
        build.prepare()
        if build.idle():
            # importing the orchestrator alone takes seconds, and nothing is to be done
            return build.run(InlineExecutor)
        from infra.embedded_server import prefect_environment

        prefect_environment()
        from flows.build import run_build_flow

        return run_build_flow(options, workers, quiet)


def last_options(store: Store, release: str) -> BuildOptions:
    """Return what the last build of a release was asked to do.

    Raises
    ------
    UserInputError
        If none is known.
    """
    path = _asked_path(store, release)
    try:
        asked = BuildOptions.model_validate_json(path.read_bytes())
        # in JSON they have lost their types
        sources = tuple(
            root.model_copy(update={"options": typed_options(root.kind, root.options)})
            for root in asked.sources
        )
        return asked.model_copy(update={"sources": sources})
    except FileNotFoundError as problem:
        raise UserInputError(
            f"no build of release {release!r} was started in {store.root}: run `slvmeval build` first, or "
            "name another --release"
        ) from problem
    except ValidationError as problem:
        raise UserInputError(
            f"{path} was written by another version of this program: run `slvmeval build --retry` with "
            "the same options as before"
        ) from problem


def _asked_path(store: Store, release: str) -> Path:
    return store.cache / f"asked-{release}.json"


def _log_to_stderr(quiet: bool) -> None:
    """Where there is no terminal for bars, say in lines what is done; a job's log is read later."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if not quiet and not sys.stderr.isatty():
        for name in _OUR_PACKAGES:
            logging.getLogger(name).setLevel(logging.INFO)
