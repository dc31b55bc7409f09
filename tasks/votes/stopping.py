"""When a pair has enough votes: at a fixed number, or as soon as they are certain."""

from __future__ import annotations

#: A pair gets at least this many votes fewer than usual but not only one, at most this many more, and in
#: between until it is certain: of five 3 to 7.
MARGIN = 2
#: Votes that a pair gets fewer than usual on average: 4.0 of five in the simulated campaign of
#: docs/annotation.md.
SAVED = 1
#: A pair is certain if its damage is clear, or is not, with this probability.
CERTAIN = 0.95


def is_certain(clear: float) -> bool:
    """Return whether it is certain that a pair's damage is clear, or that it is not."""
    return max(clear, 1 - clear) >= CERTAIN


def least_votes(usual: int) -> int:
    """Return the number of votes that each pair gets, where `usual` is the usual number."""
    return max(min(usual, MARGIN), usual - MARGIN)


def most_votes(usual: int) -> int:
    """Return the largest number of votes that a pair gets."""
    return usual + MARGIN


def enough(votes: int, clear: float, usual: int) -> bool:
    """Return whether a pair needs no further vote.

    Parameters
    ----------
    votes
        Number of votes that count.
    clear
        Probability that its damage is clear, see :meth:`tasks.votes.worker_model.WorkerModel.clear_by`.
    usual
        Votes that a pair usually gets.
    """
    return votes >= most_votes(usual) or (votes >= least_votes(usual) and is_certain(clear))


def wanted_votes(votes: int, clear: float, usual: int) -> int:
    """Return the number of votes that a pair should have as far as is known now: one more, or those it has.

    The parameters are those of :func:`enough`.
    """
    return votes if enough(votes, clear, usual) else max(least_votes(usual), votes + 1)
