"""Run an evaluation with or without an orchestrator."""

from __future__ import annotations

from functools import partial

from flows.evaluate_options import EvaluateOptions
from flows.evaluate_progress import RequestProgress
from flows.evaluate_result import EvaluationResult
from flows.evaluate_run import Evaluation
from infra.executor import InlineExecutor, ProcessExecutor
from infra.profile import Profile
from slvmeval.commands.running import log_to_stderr


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
            from infra.slurm.fits import require_fit

            require_fit(site, site.place)
        from infra.embedded_server import prefect_environment

        prefect_environment(site.prefect_api_url)
        from flows.evaluate import run_evaluate_flow

        return run_evaluate_flow(options, site, quiet)
