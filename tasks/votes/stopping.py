"""When a pair has enough votes: at a fixed number, or as soon as they are certain."""

from __future__ import annotations

#: Votes a pair gets at least and at most; in between it gets them until it is certain.
LEAST_VOTES, MOST_VOTES = 3, 7
#: A pair is certain if its damage is clear, or is not, with this probability.
CERTAIN = 0.95


def is_certain(clear: float) -> bool:
    """Return whether it is certain that a pair's damage is clear, or that it is not."""
    return max(clear, 1 - clear) >= CERTAIN


def enough(votes: int, clear: float) -> bool:
    """Return whether a pair needs no further vote.

    Parameters
    ----------
    votes
        Number of votes that count.
    clear
        Probability that its damage is clear, see :meth:`tasks.votes.worker_model.WorkerModel.clear_by`.
    """
    return votes >= MOST_VOTES or (votes >= LEAST_VOTES and is_certain(clear))
