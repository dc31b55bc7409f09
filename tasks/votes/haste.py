"""Detects workers who have become faster, by Page's (1954) cumulative sum of their own times.

Haste is a reason for check tasks, never to list a worker: practice makes careful people faster too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate
from math import log, sqrt
from statistics import median

from storage_schemas.votes import Vote, moment

#: A hasty worker is faster by this number of standard deviations of one task.
FASTER = 2.0
#: Number of tasks after which a worker's pace is known; maximum log-likelihood ratio.
MIN_TASKS, MAX_RATIO = 5, 4.0
#: Smallest standard deviation of the logarithm of a worker's times.
MIN_SPREAD = 0.1
#: Standard deviations beyond which a time is a break or an accident.
FAR = 3.0
#: The standard deviation over the median absolute deviation, of normal values.
_NORMAL = 1.4826


def haste(votes: Iterable[Vote]) -> dict[str, float]:
    """Return by worker the log-likelihood ratio of haste since some task against an unchanged pace.

    Workers with too few timed tasks are absent.
    """
    timed: dict[str, list[tuple[datetime, str, float]]] = defaultdict(list)
    for vote in votes:
        if vote.total_s and vote.pair_duration_s > 0 and vote.at:
            pace = log(vote.total_s / vote.pair_duration_s)
            timed[vote.worker].append((moment(vote.at), vote.vote_id, pace))
    paces = {
        worker: [pace for *_, pace in sorted(some)] for worker, some in timed.items() if len(some) > MIN_TASKS
    }
    if not paces:
        return {}
    usual = {worker: median(some) for worker, some in paces.items()}
    off = {worker: [pace - usual[worker] for pace in some] for worker, some in paces.items()}
    spread = max(_NORMAL * median(abs(one) for some in off.values() for one in some), MIN_SPREAD)
    return {
        worker: _added_up([min(max(one / spread, -FAR), FAR) for one in some]) for worker, some in off.items()
    }


def _added_up(paces: Sequence[float]) -> float:
    """Return the cumulative sum after the last task; paces are in standard deviations."""
    ratio = 0.0
    for done, total in enumerate(accumulate(paces[:-1]), 1):
        if done >= MIN_TASKS:
            # how much faster the next task was than those before it
            faster = (total / done - paces[done]) / sqrt(1 + 1 / done)
            ratio = min(max(0.0, ratio + FASTER * (faster - FASTER / 2)), MAX_RATIO)
    return ratio
