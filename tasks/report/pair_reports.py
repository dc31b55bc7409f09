"""Reports on pairs that are not a release's.

A package adds them by an entry point in the group ``slvmeval.pair_reports``. Its name is that of its entry
point in ``slvmeval.pair_sets``; its value is ``module:factory``, which returns :class:`PairReports`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from storage_schemas.store import Store
from tasks.plugins import added_points
from tasks.report.accuracy import DEFAULT_INTERVAL, IntervalKind
from tasks.report.judged_pairs import JudgedPairs
from tasks.report.published import Published
from tasks.report.write import Report
from tasks.scoring.pair_sets import pairs_from_text, split_name
from tasks.scoring.registry import load_factory
from tasks.statistics.equivalence import MARGIN
from tasks.statistics.trials import DEFAULT_TIES, FailurePolicy, TiePolicy

#: Entry-point group of the factories.
GROUP = "slvmeval.pair_reports"


class PairReports(Protocol):
    """Joins judgements with the pairs of one kind of set, and reports on them."""

    def judged(
        self,
        store: Store,
        pairs: Any,
        evaluators: Collection[str],
        ties: TiePolicy,
        failures: FailurePolicy,
    ) -> JudgedPairs:
        """Return the judgements on some pairs."""

    def report(
        self, judged: Any, interval: IntervalKind, published: Published | None, margin: float
    ) -> Report:
        """Return the report on what `judged` returned, compared with published values if given."""


def judged_set(
    store: Store,
    text: str,
    evaluators: Collection[str] = (),
    ties: TiePolicy = DEFAULT_TIES,
    failures: FailurePolicy = "ignored",
) -> JudgedPairs:
    """Read and join the judgements on the pairs of ``NAME:LOCATION``.

    Parameters
    ----------
    evaluators
        Names of the evaluators to include; all by default.
    failures
        Points for a request without an answer.

    Raises
    ------
    UserInputError
        If the name has no report, nothing of it is judged, or a named evaluator judged nothing of it.
    """
    return _reports(text).judged(store, pairs_from_text(text), evaluators, ties, failures)


def report_of_set(
    text: str,
    judged: JudgedPairs,
    interval: IntervalKind = DEFAULT_INTERVAL,
    published: Published | None = None,
    margin: float = MARGIN,
) -> Report:
    """Return the report on the judgements of ``NAME:LOCATION``, compared with published values if given."""
    return _reports(text).report(judged, interval, published, margin)


def _reports(text: str) -> PairReports:
    name, _ = split_name(text)
    points = added_points(GROUP, (), "report on pairs")
    made: PairReports = load_factory("report on the set of pairs", name, {}, points)()
    return made
