"""Run a suite with or without an orchestrator."""

from __future__ import annotations

from flows.evaluate_progress import RequestProgress
from flows.suite_executor import SuiteExecutor
from flows.suite_options import SuiteOptions
from flows.suite_result import SuiteResult
from flows.suite_run import SuiteRun
from infra.executor import InlineExecutor
from infra.profile import Profile
from slvmeval.commands.running import log_to_stderr


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
            from infra.slurm.fits import require_fit

            require_fit(site, site.place)
        from infra.embedded_server import prefect_environment

        prefect_environment(site.prefect_api_url)
        from flows.suite import run_suite_flow

        return run_suite_flow(options, site, quiet)
