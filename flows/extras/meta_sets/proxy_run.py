"""The result of a proxy study from the stored answers of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.score.evaluate_run import Evaluation
from flows.score.options import EvaluateOptions
from flows.score.results import RequestProgress
from tasks.extras.meta_sets.proxy_study import ProxyPairs
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy

if TYPE_CHECKING:
    from tasks.extras.meta_sets.proxy_result import ProxyResult


def study_result(options: EvaluateOptions, study: ProxyPairs, ties: TiePolicy = DEFAULT_TIES) -> ProxyResult:
    """Return the result of a study from its stored answers.

    Parameters
    ----------
    options
        The options of the study's run. Answers with other settings, samplings or texts do not count.
    ties
        Points for an evaluator's tie.
    """
    # it imports SciPy's statistics, which takes a second
    from tasks.extras.meta_sets.proxy_result import proxy_result

    evaluation = Evaluation(options, RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    wanted = {(request.key, request.pair.pair_id) for judge in evaluation.judges for request in judge.units}
    rows = evaluation.judgements.rows(keys=[key for key, _ in wanted]) if wanted else []
    return proxy_result(study, [row for row in rows if (row.key, row.pair_id) in wanted], ties)
