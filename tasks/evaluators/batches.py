"""How the requests of an evaluator become tasks: pairs of a source together, so that frames are read once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from tasks.evaluators.request import Request

#: Requests of a task for each one that may be under way: few wait for the slowest at its end.
_ROUNDS = 8


def batches(requests: Sequence[Request], concurrency: int, most: int) -> list[tuple[Request, ...]]:
    """Return requests in tasks: one source each, or several where that is too few requests or too many tasks.

    Parameters
    ----------
    requests
        In the order of their sources.
    concurrency
        How many the evaluator has under way at once.
    most
        About how many tasks there may be.
    """
    least = max(_ROUNDS * concurrency if concurrency > 1 else 1, math.ceil(len(requests) / max(most, 1)))
    found: list[tuple[Request, ...]] = []
    batch: list[Request] = []
    for _, some in groupby(requests, key=lambda request: request.pair.source_id):
        batch += some
        if len(batch) >= least:
            found.append(tuple(batch))
            batch = []
    return [*found, tuple(batch)] if batch else found
