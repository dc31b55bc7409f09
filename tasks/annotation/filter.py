"""The human filter: which pairs of a release stay, by the votes on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from storage_schemas.pair import PairRecord
from storage_schemas.votes import Decision, Rating, Standing, Vote, moment
from tasks.recipe import FilterRule


class Verdict(StrEnum):
    """What became of a pair. Stored in releases: never rename a value."""

    KEPT = "kept"
    #: more votes C than may be
    EXCLUDED_C = "excluded_c"
    #: A does not lead over B by as much as it has to
    EXCLUDED_A = "excluded_a"
    #: fewer votes than are needed
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One pair after the votes; `a`, `b` and `c` count the votes that count."""

    pair_id: str
    source_id: str
    aspect: str
    verdict: Verdict
    a: int = 0
    b: int = 0
    c: int = 0

    @property
    def votes(self) -> int:
        """Votes that count."""
        return self.a + self.b + self.c

    @property
    def kept(self) -> bool | None:
        """Whether the pair stays; None where it is undecided."""
        return None if self.verdict is Verdict.UNDECIDED else self.verdict is Verdict.KEPT


def verdict(ratings: Iterable[Rating], rule: FilterRule) -> Verdict:
    """Return what becomes of a pair with these ratings, in whatever order.

    Votes beyond the number that is needed count like the others.
    """
    counts = Counter(ratings)
    if counts.total() < rule.workers_per_pair:
        return Verdict.UNDECIDED
    if counts["C"] > rule.most_c:
        return Verdict.EXCLUDED_C
    if counts["A"] - counts["B"] < rule.least_lead:
        return Verdict.EXCLUDED_A
    return Verdict.KEPT


def standings(decisions: Iterable[Decision]) -> dict[tuple[str, str], Decision]:
    """Return the latest decision about each worker, by campaign and worker."""
    latest: dict[tuple[str, str], Decision] = {}
    for row in sorted(decisions, key=lambda row: (moment(row.at), row.decision_id)):
        latest[row.campaign, row.worker] = row
    return latest


def counting(votes: Iterable[Vote], decisions: Iterable[Decision], rule: FilterRule) -> list[Vote]:
    """Return the votes that count, by pair, worker and campaign.

    Votes on gold pairs are for judging workers, not pairs. Of a worker's votes on a pair, which may come
    from two campaigns, the first counts. Votes of workers whom a campaign excluded count unless the rule
    drops them.
    """
    excluded = (
        {who for who, row in standings(decisions).items() if row.decision is Standing.EXCLUDED}
        if rule.drop_excluded
        else set()
    )
    first: dict[tuple[str, str], Vote] = {}
    for vote in sorted(votes, key=lambda vote: (moment(vote.at), vote.campaign, vote.vote_id)):
        if not vote.gold and (vote.campaign, vote.worker) not in excluded:
            first.setdefault((vote.pair_id, vote.worker), vote)
    return [first[place] for place in sorted(first)]


def outcomes(records: Sequence[PairRecord], votes: Iterable[Vote], rule: FilterRule) -> list[Outcome]:
    """Return what becomes of each pair, in the order of `records`.

    Parameters
    ----------
    votes
        The votes that count, see :func:`counting`; those on other pairs are passed over.
    """
    ratings: dict[str, list[Rating]] = {}
    for vote in votes:
        ratings.setdefault(vote.pair_id, []).append(vote.rating)
    found = []
    for record in records:
        some = ratings.get(record.pair_id, [])
        a, b, c = (some.count(letter) for letter in ("A", "B", "C"))
        found.append(Outcome(record.pair_id, record.source_id, record.aspect, verdict(some, rule), a, b, c))
    return found
