"""What the proxy study found, from the answers to exactly the requests that its evaluators are asked."""

from __future__ import annotations

from flows.evaluate_options import EvaluateOptions
from flows.evaluate_progress import RequestProgress
from flows.evaluate_run import Evaluation
from tasks.evaluators.proxy_result import ProxyResult, proxy_result
from tasks.evaluators.proxy_study import ProxyPairs
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy


def study_result(options: EvaluateOptions, study: ProxyPairs, ties: TiePolicy = DEFAULT_TIES) -> ProxyResult:
    """Return the result of a study; nobody is asked anything.

    Parameters
    ----------
    options
        As the study was run. Answers of other settings, samplings or texts in the store do not count.
    ties
        What an evaluator's tie counts.
    """
    evaluation = Evaluation(options, RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    wanted = {
        (request.key, request.pair.pair_id) for judge in evaluation.judges for request in judge.requests
    }
    rows = evaluation.judgements.rows(keys=[key for key, _ in wanted]) if wanted else []
    return proxy_result(study, [row for row in rows if (row.key, row.pair_id) in wanted], ties)
