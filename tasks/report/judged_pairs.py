"""The input of a report: judgements joined with their pairs, of a release or of another set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Judgement
from tasks.statistics.intervals import FEW_SOURCES
from tasks.statistics.trials import DEFAULT_TIES, FailurePolicy, TiePolicy, Trial, Who, grouped

#: Length of the settings checksum that distinguishes two settings of one evaluator.
_SETTINGS = 6
#: How a failed request counts, in words.
FAILURE_WORDS: Mapping[FailurePolicy, str] = {
    "ignored": "neither as right nor as wrong",
    "half": "half a point",
    "wrong": "as wrong",
}


@dataclass(frozen=True, kw_only=True)
class JudgedPairs(ABC):
    """Judgements and what they are about.

    Parameters
    ----------
    names
        Display name of each evaluator; two settings of one name are distinguished.
    trials
        Those that accuracies are of.
    all_trials
        Of all pairs.
    failures
        What failures count; also applied in `trials` and `all_trials`.
    probe_trials
        Those of probes on the pairs of accuracies.
    wording_trials
        Those of evaluators in other wordings on the pairs of accuracies: by the evaluator's name in its own
        words, and the wording's.
    aside_rows
        Rows of probes and other wordings; `rows` has none of them.
    """

    rows: tuple[Judgement, ...]
    names: Mapping[Who, str]
    trials: tuple[Trial, ...]
    all_trials: tuple[Trial, ...]
    ties: TiePolicy = DEFAULT_TIES
    failures: FailurePolicy = "ignored"
    probe_trials: tuple[Trial, ...] = ()
    wording_trials: Mapping[tuple[str, str], tuple[Trial, ...]] = field(default_factory=dict)
    aside_rows: tuple[Judgement, ...] = ()

    @property
    @abstractmethod
    def title(self) -> str:
        """What was judged, in words."""

    @property
    def aspects(self) -> list[str]:
        """The aspects that were judged, in order."""
        return sorted({trial.pair.aspect for trial in self.all_trials})

    def by_who(self, trials: Sequence[Trial] | None = None) -> dict[Who, list[Trial]]:
        """Return trials by evaluator, in the order of their names."""
        held = grouped(self.trials if trials is None else trials, lambda trial: trial.who)
        return {who: held[who] for who in self.names if who in held}


@dataclass(frozen=True)
class Asides:
    """Judgements excluded from all accuracies: of probes, and of evaluators in other wordings.

    Parameters
    ----------
    own
        The other judgements: of unmodified evaluators.
    rows
        Those of some evaluators, see :meth:`of`.
    """

    own: tuple[Judgement, ...]
    rows: tuple[Judgement, ...]

    @classmethod
    def of(cls, judgements: Iterable[Judgement], evaluators: Collection[str] = ()) -> Asides:
        """Separate judgements.

        Parameters
        ----------
        evaluators
            Names of the evaluators, in their own words and without a probe; all if empty.
        """
        own, rows = [], []
        for row in judgements:
            if not row.probe and row.wording is None:
                own.append(row)
                continue
            name = row.wording[0] if row.wording else row.evaluator.removesuffix(f"+{row.probe}")
            if not evaluators or name in evaluators:
                rows.append(row)
        return cls(tuple(own), tuple(rows))

    def fields(self, trials_of: Callable[[Sequence[Judgement]], Iterable[Trial]]) -> dict[str, Any]:
        """Return the fields of :class:`JudgedPairs` that have them.

        Parameters
        ----------
        trials_of
            Returns the trials of judgements on the pairs of accuracies.
        """
        probes = [row for row in self.rows if row.probe]
        wordings = grouped((row for row in self.rows if not row.probe), lambda row: row.wording)
        return {
            "aside_rows": self.rows,
            "probe_trials": tuple(trials_of(probes)),
            "wording_trials": {name: tuple(trials_of(some)) for name, some in wordings.items()},
        }


def rows_of(
    judgements: Sequence[Judgement], evaluators: Collection[str], what: str, advice: str
) -> tuple[Judgement, ...]:
    """Return the rows of some evaluators; of all if none is named.

    Parameters
    ----------
    what, advice
        What was judged, and what to do without judgements, for messages.

    Raises
    ------
    UserInputError
        If there is no row, or an evaluator is named that has none.
    """
    names = sorted({row.evaluator for row in judgements})
    for name in evaluators:
        if name not in names:
            raise UserInputError(
                f"no judgement of {what} is from {name!r}: there are {', '.join(names) or 'none'}"
            )
    rows = tuple(row for row in judgements if not evaluators or row.evaluator in evaluators)
    if not rows:
        raise UserInputError(f"no judgements yet for {what}: {advice}")
    return rows


def names_of(evaluators: Collection[Who]) -> dict[Who, str]:
    """Return the evaluators' display names in alphabetical order."""
    settings = grouped(sorted(evaluators), lambda who: who[0])
    return {
        who: who[0] if len(settings[who[0]]) == 1 else f"{who[0]} ({who[1][:_SETTINGS] or 'none'})"
        for who in sorted(evaluators)
    }


def small_sample(sources: int) -> str:
    """Return a warning about a sample of few sources; empty for enough or none."""
    if not 0 < sources < FEW_SOURCES:
        return ""
    return (
        f"The judged pairs are of {sources} source{'' if sources == 1 else 's'}, fewer than {FEW_SOURCES}. "
        "Results on so few sources may not hold for others."
    )
