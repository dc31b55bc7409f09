"""Consistency of subjects and backgrounds within events and between them (LoCoT2V-Bench, appendix B.7).

Each subject (and each background) has features in frames of the events in which it was found. Within an
event its features should stay, from one event to another they should be alike. Cosines are the paper's; how
they are put together is not in its text, and is ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tasks.suites.locot2v.pixel_metrics import Features, Measured

#: Features of one subject by event, each ``(frames, dimensions)``; an event without it is absent.
ByEvent = Mapping[int, NDArray[np.float64]]


def _unit(rows: Features) -> Features:
    found: Features = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
    return found


def within_event(rows: NDArray[np.float64]) -> float | None:
    """Return how stable a thing is in an event: mean cosine of each frame with the first and the one before.

    That is VBench's subject consistency, here of one event. None for fewer than two frames.
    """
    if len(rows) < 2:
        return None
    unit = _unit(np.asarray(rows, dtype=np.float64))
    to_first = unit[1:] @ unit[0]
    to_before = (unit[1:] * unit[:-1]).sum(1)
    return float(np.clip((to_first + to_before) / 2, 0, 1).mean())


def intra_event(things: Sequence[ByEvent]) -> Measured:
    """Return the mean stability over things and their events."""
    found = [
        value for thing in things for rows in thing.values() if (value := within_event(rows)) is not None
    ]
    if not found:
        return Measured(None, 0, "nothing was found in two frames of an event")
    return Measured(math.fsum(found) / len(found), len(found))


def between_events(thing: ByEvent) -> float | None:
    """Return the mean cosine of a thing's mean features in every two events; None for fewer than two."""
    means = [_unit(_unit(np.asarray(rows, dtype=np.float64)).mean(0)) for rows in thing.values() if len(rows)]
    if len(means) < 2:
        return None
    values = [float(np.clip(first @ second, 0, 1)) for first, second in combinations(means, 2)]
    return math.fsum(values) / len(values)


def inter_event(things: Sequence[ByEvent]) -> Measured:
    """Return the mean likeness over the things that were found in two events or more."""
    found = [value for thing in things if (value := between_events(thing)) is not None]
    if not found:
        return Measured(None, 0, "nothing was found in two events")
    return Measured(math.fsum(found) / len(found), len(found))
