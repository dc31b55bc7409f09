"""The retention table: how many pairs of each aspect stayed, and why the others did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.annotation.filter import Outcome, Verdict

#: All aspects together.
TOTAL = "all"


@dataclass(frozen=True, slots=True)
class Retention:
    """One row of the table (SLVMEval, table 3).

    Parameters
    ----------
    initial
        Pairs of the aspect.
    excluded_c, excluded_a
        Pairs that were left out for votes C, and of the others those in which A does not lead over B.
    undecided
        Pairs with too few votes.
    final
        Pairs that stay.
    """

    aspect: str
    initial: int
    excluded_c: int
    excluded_a: int
    undecided: int
    final: int

    @property
    def rate(self) -> float | None:
        """Share of the decided pairs that stay; None where none is decided."""
        decided = self.initial - self.undecided
        return self.final / decided if decided else None


def retention(outcomes: Iterable[Outcome]) -> list[Retention]:
    """Return a row for each aspect, in order of first appearance, and one for all."""
    counts: dict[str, dict[Verdict, int]] = {}
    for outcome in outcomes:
        held = counts.setdefault(outcome.aspect, dict.fromkeys(Verdict, 0))
        held[outcome.verdict] += 1
    total = {kind: sum(held[kind] for held in counts.values()) for kind in Verdict}
    return [_row(aspect, held) for aspect, held in counts.items()] + [_row(TOTAL, total)]


def _row(aspect: str, counts: Mapping[Verdict, int]) -> Retention:
    return Retention(
        aspect,
        sum(counts.values()),
        counts[Verdict.EXCLUDED_C],
        counts[Verdict.EXCLUDED_A],
        counts[Verdict.UNDECIDED],
        counts[Verdict.KEPT],
    )
