"""The judgements of one set of other people's or own pairs, joined with its answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from storage_schemas.judgements import Judgement, JudgementsStore
from storage_schemas.store import Store
from tasks.extras.meta_sets.agreement import Agreement, agreements, set_trials
from tasks.extras.meta_sets.base import MetaPair
from tasks.extras.meta_sets.provider import MetaSetPairs
from tasks.report.judged_pairs import Asides, JudgedPairs, names_of, rows_of
from tasks.statistics.trials import DEFAULT_TIES, FailurePolicy, TiePolicy, Trial, failures_count


@dataclass(frozen=True, kw_only=True)
class JudgedSet(JudgedPairs):
    """Judgements and pairs of a set. Accuracies are of the pairs in which one video is better.

    Parameters
    ----------
    gold
        The comparisons by the id of their pair.
    agreements
        Of each evaluator by aspect, with ties and without.
    """

    pairs: MetaSetPairs
    gold: Mapping[str, MetaPair]
    agreements: tuple[Agreement, ...]

    @property
    def title(self) -> str:
        """The set's name, and its file or folder."""
        return self.pairs.short_title


def load_judged_set(
    store: Store,
    pairs: MetaSetPairs,
    evaluators: Collection[str] = (),
    ties: TiePolicy = DEFAULT_TIES,
    failures: FailurePolicy = "ignored",
) -> JudgedSet:
    """Read and join the judgements on a set.

    Parameters
    ----------
    evaluators
        Names of the evaluators to include; all by default.
    failures
        Points for a request without an answer.

    Raises
    ------
    UserInputError
        If it has no judgements, an evaluator is named that did not, or the set cannot be read.
    """
    facts, gold = pairs.facts(), pairs.meta_pairs()
    asides = Asides.of(JudgementsStore(store).rows(pair_ids=list(gold)), evaluators)
    rows = rows_of(
        asides.own,
        evaluators,
        pairs.short_title,
        f"`slvmeval evaluate --pairs {quote(f'{pairs.name}:{pairs.path}')} -e NAME` does it",
    )

    def of_better(some: Sequence[Judgement]) -> Iterator[Trial]:
        found = failures_count(set_trials(some, facts, gold), failures)
        return (trial for trial in found if not trial.pair.gold_tie)

    trials = failures_count(set_trials(rows, facts, gold), failures)
    return JudgedSet(
        rows=rows,
        names=names_of({trial.who for trial in trials}),
        trials=tuple(trial for trial in trials if not trial.pair.gold_tie),
        all_trials=trials,
        ties=ties,
        failures=failures,
        pairs=pairs,
        gold=gold,
        agreements=agreements(rows, facts, gold, ties, failures),
        **asides.fields(of_better),
    )
