"""Run a build, an evaluation or a suite, with or without an orchestrator, and say what it made."""

from __future__ import annotations

import json
import logging
import sys
from functools import partial
from pathlib import Path
from typing import Any

from flows.build.options import BuildOptions, remember
from flows.build.run import Build, BuildResult
from flows.score.evaluate_options import EvaluateOptions
from flows.score.evaluate_run import Evaluation
from flows.score.results import EvaluationResult, RequestProgress, SuiteResult
from flows.score.suite_options import SuiteOptions
from flows.score.suite_run import SuiteExecutor, SuiteRun
from infra.executor import InlineExecutor, ProcessExecutor
from infra.prefect_server import log_level
from infra.profile import Profile
from infra.progress import BuildProgress
from slvmeval.cli.terminal import console, counted, say, table
from storage_schemas.commit import write_atomic
from storage_schemas.set_aside import SetAsideRow
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
            from infra.slurm.profile_check import require_fit

            require_fit(site, site.place)
        from infra.prefect_server import prefect_environment

        prefect_environment(site.prefect_api_url)
        from flows.build.flow import run_build_flow

        return run_build_flow(options, site, quiet)


def log_to_stderr(quiet: bool) -> None:
    """Where there is no terminal for bars, say in lines what is done; a job's log is read later."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if not quiet and not sys.stderr.isatty():
        log_level(logging.INFO)


def run_evaluation(options: EvaluateOptions, site: Profile, direct: bool, quiet: bool) -> EvaluationResult:
    """Evaluate in processes of this machine, or through the flow where there is something to ask.

    Raises
    ------
    SlvmevalError
        If the run cannot start or go on.
    """
    log_to_stderr(quiet)
    with RequestProgress(options.open_store().cache, quiet=quiet or not direct) as progress:
        evaluation = Evaluation(options, progress)
        evaluation.prepare()
        if direct:
            return evaluation.run(partial(ProcessExecutor, site.workers))
        if evaluation.idle():
            # importing the orchestrator alone takes seconds, and nothing is to be asked
            return evaluation.run(InlineExecutor)
        if site.pools:
            from infra.slurm.profile_check import require_fit

            require_fit(site, site.place)
        from infra.prefect_server import prefect_environment

        prefect_environment(site.prefect_api_url)
        from flows.score.evaluate import run_evaluate_flow

        return run_evaluate_flow(options, site, quiet)


def run_suite(options: SuiteOptions, site: Profile, direct: bool, quiet: bool) -> SuiteResult:
    """Score in processes of this machine, or through the flow where there is something to score.

    Raises
    ------
    SlvmevalError
        If the run cannot start or go on.
    """
    log_to_stderr(quiet)
    # without the site's pools a GPU is looked for here
    here = options.model_copy(update={"pools": ()}) if direct else options
    with RequestProgress(here.open_store().cache, quiet=quiet or not direct) as progress:
        run = SuiteRun(here, progress)
        run.prepare()
        if direct:
            return run.run(lambda pools: SuiteExecutor(site.workers, pools))
        if run.idle():
            # importing the orchestrator alone takes seconds, and nothing is to be scored
            return run.run(lambda _pools: InlineExecutor())
        if site.pools:
            from infra.slurm.profile_check import require_fit

            require_fit(site, site.place)
        from infra.prefect_server import prefect_environment

        prefect_environment(site.prefect_api_url)
        from flows.score.suite import run_suite_flow

        return run_suite_flow(options, site, quiet)


_MOST_LINES = 20


def build_summary(result: BuildResult, gallery: Path | None = None) -> dict[str, Any]:
    """Return what a build made and set aside, JSON-able."""
    release = result.release
    return {
        "release": release.name,
        "version": release.version,
        "new": result.new,
        "store": str(release.store.root),
        "path": str(release.path),
        "recipe": release.info["recipe"],
        "content_checksum": release.manifest.content_checksum,
        "aspects": release.summary(),
        "sources": {
            "used": len(release.sources()),
            "set_aside": [
                {"source": row.source_id or row.location, "reason": row.reason.value, "message": row.message}
                for row in whole_sources(result.set_aside)
            ],
        },
        "gallery": None if gallery is None else str(gallery),
    }


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary as JSON; a reader sees the old file or the new one."""
    write_atomic(path.absolute(), (json.dumps(summary, indent=1, ensure_ascii=False) + "\n").encode())


def whole_sources(rows: tuple[SetAsideRow, ...] | list[SetAsideRow]) -> list[SetAsideRow]:
    """Return the rows that concern a whole source."""
    return [row for row in rows if not row.aspect]


def print_summary(result: BuildResult) -> None:
    """Print aspect by aspect what was planned, built and set aside, and the sources set aside."""
    release = result.release
    state = "new" if result.new else "unchanged"
    rows = [
        (aspect, counts["planned"], counts["built"], counts["set_aside"], counted(counts["reasons"]))
        for aspect, counts in release.summary().items()
    ]
    title = f"release {release.name}, version {release.version} ({state}), {len(release.sources())} sources"
    console().print(table(title, ("aspect", "planned", "built", "set aside", "reasons"), rows, numbers=3))
    print_set_aside(whole_sources(result.set_aside))


def print_set_aside(rows: list[SetAsideRow]) -> None:
    """Print the sources that were set aside, each with its reason."""
    if not rows:
        return
    say(f"{len(rows)} {'source was' if len(rows) == 1 else 'sources were'} set aside:")
    for row in rows[:_MOST_LINES]:
        say(f"  {row.reason.value}: {row.message}")
    if len(rows) > _MOST_LINES:
        say(f"  … and {len(rows) - _MOST_LINES} more: see --summary FILE or `slvmeval status`")
