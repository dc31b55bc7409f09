"""The input of a report: judgements joined with their pairs, of a release or of another set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Judgement
from tasks.statistics.intervals import FEW_SOURCES
from tasks.statistics.trials import DEFAULT_TIES, FailurePolicy, TiePolicy, Trial, Who, grouped

#: Length of the settings checksum that distinguishes two settings of one evaluator.
_SETTINGS = 6
#: What a failed request counts, in words.
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
        What failures count; `trials` and `all_trials` have it, too.
    """

    rows: tuple[Judgement, ...]
    names: Mapping[Who, str]
    trials: tuple[Trial, ...]
    all_trials: tuple[Trial, ...]
    ties: TiePolicy = DEFAULT_TIES
    failures: FailurePolicy = "ignored"

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


def rows_of(
    judgements: Sequence[Judgement], evaluators: Collection[str], what: str, advice: str
) -> tuple[Judgement, ...]:
    """Return the rows of some evaluators; of all if none is named.

    Parameters
    ----------
    what, advice
        What was judged, and what to do if nobody did, for messages.

    Raises
    ------
    UserInputError
        If there is no row, or an evaluator is named that has none.
    """
    known = sorted({row.evaluator for row in judgements})
    for name in evaluators:
        if name not in known:
            raise UserInputError(
                f"no judgement of {what} is from {name!r}: there are {', '.join(known) or 'none'}"
            )
    rows = tuple(row for row in judgements if not evaluators or row.evaluator in evaluators)
    if not rows:
        raise UserInputError(f"nobody has judged {what}: {advice}")
    return rows


def names_of(evaluators: Collection[Who]) -> dict[Who, str]:
    """Return the evaluators' display names in alphabetical order."""
    settings = grouped(sorted(evaluators), lambda who: who[0])
    return {
        who: who[0] if len(settings[who[0]]) == 1 else f"{who[0]} ({who[1][:_SETTINGS] or 'none'})"
        for who in sorted(evaluators)
    }


def small_sample(sources: int) -> str:
    """Return what a reader has to know of a sample of so few sources; empty for enough of them."""
    if sources >= FEW_SOURCES:
        return ""
    return (
        f"The judged pairs are of {sources} source{'' if sources == 1 else 's'}, fewer than {FEW_SOURCES}. "
        "What holds for so few may not hold for others."
    )
