"""Whether workers have become faster than they were: Page's (1954) cumulative sum of their own times.

It is a reason for check tasks, never to list a worker: practice makes careful people faster too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate
from math import log, sqrt
from statistics import median

from storage_schemas.votes import Vote, moment

#: A worker who hurries is expected to be faster by this number of standard deviations of one task.
FASTER = 2.0
#: Tasks that tell how fast a worker is; largest log-likelihood ratio of one worker.
LEAST_TASKS, MOST = 5, 4.0
#: Smallest standard deviation of the logarithm of a worker's time; times further off than this many are
#: breaks or accidents.
LEAST_SPREAD, FAR = 0.1, 3.0
#: From the median absolute deviation to the standard deviation, of normal values.
_MEDIAN_TO_DEVIATION = 1.4826


def hurries(votes: Iterable[Vote]) -> dict[str, float]:
    """Return by worker the log-likelihood ratio of hurrying since some task, over working as before.

    Workers of whom too few tasks were timed are absent.
    """
    timed: dict[str, list[tuple[object, str, float]]] = defaultdict(list)
    for vote in votes:
        if vote.total_s and vote.pair_duration_s > 0:
            pace = log(vote.total_s / vote.pair_duration_s)
            timed[vote.worker].append((moment(vote.at), vote.vote_id, pace))
    paces = {
        worker: [pace for *_, pace in sorted(some)]
        for worker, some in timed.items()
        if len(some) > LEAST_TASKS
    }
    usual = {worker: median(some) for worker, some in paces.items()}
    off = [abs(pace - usual[worker]) for worker, some in paces.items() for pace in some]
    spread = max(_MEDIAN_TO_DEVIATION * median(off), LEAST_SPREAD) if off else LEAST_SPREAD
    return {
        worker: _hurries([min(max((pace - usual[worker]) / spread, -FAR), FAR) for pace in some])
        for worker, some in paces.items()
    }


def _hurries(paces: list[float]) -> float:
    """Return the sum after the last task; paces are in standard deviations."""
    ratio = 0.0
    for done, total in enumerate(accumulate(paces), 1):
        if done < LEAST_TASKS or done == len(paces):
            continue
        # how much slower than the next task the worker was before
        slower = (total / done - paces[done]) / sqrt(1 + 1 / done)
        ratio = min(max(0.0, ratio + FASTER * (slower - FASTER / 2)), MOST)
    return ratio
