"""Scores and gold answers with ties: from which difference on a scorer should say that one is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class TieMargin:
    """The margin at which a scorer agrees best with gold answers that have ties.

    Parameters
    ----------
    n
        Pairs.
    margin
        Scores that differ by no more count as equal; None where no pair shall count so.
    agreement
        Share of pairs with the gold answer (better, worse, equal) at that margin.
    """

    n: int
    margin: float | None
    agreement: float


def best_tie_margin(differences: Sequence[float], gold_ties: Sequence[bool]) -> TieMargin | None:
    """Return the best margin, the smallest of equally good ones; None for no pairs.

    It is pairwise accuracy with tie calibration (Deutsch, Foster and Freitag, EMNLP 2023), as
    VideoGen-RewardBench reports it. The margin is chosen on the pairs that it is measured on, which flatters
    the scorer: compare it with other scorers' only, and not with a judge that says by itself what is equal.

    Parameters
    ----------
    differences
        Score of the better video by the gold answer, less the other's; either way where both are equal.
    gold_ties
        Whether both are equal by the gold answer.

    Raises
    ------
    ValueError
        If the two do not have one length, or a difference is no finite number.
    """
    if len(differences) != len(gold_ties):
        raise ValueError(f"{len(differences)} differences but {len(gold_ties)} gold answers")
    n = len(differences)
    if not n:
        return None
    found = np.asarray(differences, dtype=np.float64)
    if not np.isfinite(found).all():
        raise ValueError("a difference is no finite number")
    ties = np.asarray(gold_ties, dtype=bool)
    order = np.argsort(np.abs(found), kind="stable")
    sizes = np.abs(found)[order]
    right_as_tie = ties[order]
    right_as_choice = ~ties[order] & (found[order] > 0)
    # place k: the k smallest differences count as ties
    below = np.concatenate([[0], np.cumsum(right_as_tie)])
    above = np.concatenate([[0], np.cumsum(right_as_choice[::-1])])[::-1]
    right = below + above
    # equal differences become ties together
    allowed = np.concatenate([[True], sizes[1:] != sizes[:-1], [True]])
    best = int(np.argmax(np.where(allowed, right, -1)))
    return TieMargin(n, float(sizes[best - 1]) if best else None, float(right[best]) / n)
