"""Workers' agreement: Krippendorff's α by aspect, and of each worker with the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from storage_schemas.votes import Rating, SideWord, Vote
from tasks.statistics.krippendorff import Alpha, RaterAnswer, alpha_of, rater_alphas

#: All aspects together.
ALL = "all"
#: The ratings in order: ordinal, since B is between A and C.
RATINGS: tuple[str, ...] = get_args(Rating)
SIDES: tuple[str, ...] = get_args(SideWord)


@dataclass(frozen=True, slots=True)
class VoteAgreement:
    """The agreement of the votes of one aspect.

    Parameters
    ----------
    pairs, votes, workers
        Numbers of pairs, votes and workers.
    ratings
        Ordinal α of A, B and C; its interval resamples sources.
    preferences
        Nominal α of the preferred video. It is low if nearly all are right, since chance agreement is
        nearly as high; read it together with `right`.
    unanimous
        Share of the pairs with at least two ratings on which all are equal; None without such pairs.
    right
        Share of votes that preferred the high-quality video; None without votes.
    """

    aspect: str
    pairs: int
    votes: int
    workers: int
    ratings: Alpha
    preferences: Alpha
    unanimous: float | None
    right: float | None


def agreement(votes: Sequence[Vote], seed: int = 0, order: Iterable[str] = ()) -> list[VoteAgreement]:
    """Return the agreement by aspect, and over all aspects.

    Parameters
    ----------
    votes
        The votes that count, at most one per worker and pair.
    seed
        The release's seed, for the bootstrap.
    order
        Order of the aspects; others follow by name.
    """
    aspects = {vote.aspect for vote in votes}
    wanted = [aspect for aspect in order if aspect in aspects]
    wanted += sorted(aspects - set(wanted))
    rows = [_of(aspect, [vote for vote in votes if vote.aspect == aspect], seed) for aspect in wanted]
    return [*rows, _of(ALL, votes, seed)] if rows else []


def worker_agreement(votes: Sequence[Vote]) -> dict[str, Alpha]:
    """Return each worker's ordinal agreement with the others' ratings on the same pairs.

    Of fewer than two pairs there is no α.
    """
    alphas = rater_alphas(_answers(votes, "rating"), RATINGS, "ordinal")
    return {worker: of_several(alpha) for worker, alpha in alphas.items()}


def of_several(alpha: Alpha) -> Alpha:
    """Return α, or none if it rests on one pair: that says nothing of others."""
    return alpha if alpha.units > 1 else replace(alpha, alpha=None, interval=None)


def _of(aspect: str, votes: Sequence[Vote], seed: int) -> VoteAgreement:
    sources = {vote.pair_id: vote.source_id for vote in votes}
    key = (seed, aspect, "agreement")
    ratings: dict[str, Counter[str]] = {}
    for vote in votes:
        ratings.setdefault(vote.pair_id, Counter())[vote.rating] += 1
    several = [counts for counts in ratings.values() if counts.total() > 1]
    return VoteAgreement(
        aspect=aspect,
        pairs=len(ratings),
        votes=len(votes),
        workers=len({vote.worker for vote in votes}),
        ratings=of_several(
            alpha_of(_answers(votes, "rating"), RATINGS, "ordinal", key=(*key, "rating"), cluster=sources)
        ),
        preferences=of_several(
            alpha_of(_answers(votes, "preferred"), SIDES, "nominal", key=(*key, "preferred"), cluster=sources)
        ),
        unanimous=sum(len(counts) == 1 for counts in several) / len(several) if several else None,
        right=sum(vote.preferred == "high" for vote in votes) / len(votes) if votes else None,
    )


def _answers(votes: Iterable[Vote], field: str) -> list[RaterAnswer]:
    return [RaterAnswer(vote.pair_id, vote.worker, getattr(vote, field)) for vote in votes]
