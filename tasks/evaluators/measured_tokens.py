"""What the answers of a language model took, so that estimates rest on measurements where there are any."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from storage_schemas.judgement import Judgement

#: From so many answers on, an aspect has a mean of its own; before that all aspects share one.
OWN_MEAN = 30
#: A normal distribution's two-sided 95 %.
_Z = 1.96


@dataclass(frozen=True)
class Taken:
    """Tokens of one answer.

    Parameters
    ----------
    aspect
        The aspect that was asked about.
    tokens_out
        Tokens of the answer with its thoughts.
    tokens_in, expected_in
        Tokens of the request as the server counted them, and as they were reckoned; 0 where one is not known.
    """

    aspect: str
    tokens_out: int
    tokens_in: int = 0
    expected_in: int = 0


@dataclass(frozen=True)
class MeasuredTokens:
    """What some answers took, on the mean; without answers it says nothing."""

    answers: tuple[Taken, ...] = ()
    _by_aspect: dict[str, list[int]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for one in self.answers:
            self._by_aspect[one.aspect].append(one.tokens_out)

    def tokens_out(self, aspect: str, otherwise: float) -> int:
        """Return the mean length of an answer on an aspect, in tokens; of all aspects where it has few."""
        own = self._by_aspect.get(aspect, [])
        if len(own) >= OWN_MEAN:
            return round(statistics.fmean(own))
        return round(self._mean_out if self.answers else otherwise)

    def tokens_in(self, expected: float) -> int:
        """Return the tokens of a request by those that were reckoned."""
        return round(expected * self._ratio_in)

    @cached_property
    def _mean_out(self) -> float:
        return statistics.fmean(one.tokens_out for one in self.answers)

    @cached_property
    def _ratio_in(self) -> float:
        known = [one for one in self.answers if one.tokens_in and one.expected_in]
        expected = sum(one.expected_in for one in known)
        return sum(one.tokens_in for one in known) / expected if expected else 1.0

    def says(self, what: str) -> str:
        """Return for a person on what an estimate rests; there has to be an answer.

        The share after ± is half of the mean's 95 % interval, by the normal distribution.
        """
        lengths = [one.tokens_out for one in self.answers]
        wide = ""
        if len(lengths) > 1 and self._mean_out:
            share = _Z * statistics.stdev(lengths) / math.sqrt(len(lengths)) / self._mean_out
            wide = f" ± {share:.0%}"
        return (
            f"by {len(lengths)} {what} in the store: {self._mean_out:,.0f} tokens out each{wide}, "
            f"tokens in {self._ratio_in:.2f} times those reckoned"
        )


def of_judgements(rows: Iterable[Judgement]) -> MeasuredTokens:
    """Return what the answers of a judge took that notes it in the details' ``tokens``.

    A request that failed was paid for as well, so its answer counts; how many tokens it was expected to have
    is not kept.
    """
    found = []
    for row in rows:
        noted = json.loads(row.details).get("tokens", {})
        if noted:
            found.append(Taken(row.aspect, noted["out"], noted["in"], noted["expected_in"]))
        elif row.failure is not None and row.tokens_out:
            found.append(Taken(row.aspect, row.tokens_out))
    return MeasuredTokens(tuple(found))
