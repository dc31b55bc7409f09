"""Tie calibration: the score difference below which a scorer's answer counts as a tie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class TieMargin:
    """The margin that maximises a scorer's agreement with gold answers that include ties.

    Parameters
    ----------
    n
        Number of pairs.
        margin
        Scores that differ by at most this count as equal; None if no pair should count as a tie.
    agreement
        Share of pairs that match the gold answer (better, worse, equal) at this margin.
    """

    n: int
    margin: float | None
    agreement: float


def best_tie_margin(differences: Sequence[float], gold_ties: Sequence[bool]) -> TieMargin | None:
    """Return the best margin, the smallest of equally good ones; None without pairs.

    This is pairwise accuracy with tie calibration (Deutsch, Foster and Freitag, EMNLP 2023), as reported by
    VideoGen-RewardBench. The margin is fitted on the pairs it is evaluated on, which favours the scorer:
    compare it only with other scorers, not with a judge that reports ties itself.

    Parameters
    ----------
    differences
        Score of the video that is better by the gold answer minus that of the other; either sign for gold
        ties.
    gold_ties
        Whether the gold answer is a tie.

    Raises
    ------
    ValueError
        If the lengths differ, or a difference is not finite.
    """
    if len(differences) != len(gold_ties):
        raise ValueError(f"{len(differences)} differences but {len(gold_ties)} gold answers")
    n = len(differences)
    if not n:
        return None
    values = np.asarray(differences, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("a difference is not a finite number")
    ties = np.asarray(gold_ties, dtype=bool)
    order = np.argsort(np.abs(values), kind="stable")
    sizes = np.abs(values)[order]
    right_as_tie = ties[order]
    right_as_choice = ~ties[order] & (values[order] > 0)
    # index k: the k smallest differences count as ties
    below = np.concatenate([[0], np.cumsum(right_as_tie)])
    above = np.concatenate([[0], np.cumsum(right_as_choice[::-1])])[::-1]
    right = below + above
    # equal differences become ties together
    allowed = np.concatenate([[True], sizes[1:] != sizes[:-1], [True]])
    best = int(np.argmax(np.where(allowed, right, -1)))
    return TieMargin(n, float(sizes[best - 1]) if best else None, float(right[best]) / n)
