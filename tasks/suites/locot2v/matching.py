"""Events of the prompt matched with events of the video (LoCoT2V-Bench, event-level alignment)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.optimize import linear_sum_assignment

from storage_schemas.model import Frozen

#: The fields that are compared one by one; the description of the event is compared apart.
FIELDS = ("subject", "setting", "action", "camera")

Similarities = NDArray[np.float64]


class MatchSettings(Frozen):
    """Constants of the matching.

    Parameters
    ----------
    order_penalty
        Share that is taken off where the order of the events is wholly turned round (not from the paper,
        which names a penalty and no number).
    over
        ``matched``: the mean is over matched pairs (the paper); ``prompt``: over all events of the prompt, so
        that a missing event counts 0.
    """

    order_penalty: float = Field(default=0.5, ge=0, le=1)
    over: Literal["matched", "prompt"] = "matched"


@dataclass(frozen=True, slots=True)
class Match:
    """One event of the prompt and the event of the video that it was matched with."""

    prompt_event: int
    video_event: int
    description: float
    fields: float

    @property
    def score(self) -> float:
        """Likeness of the descriptions times the mean likeness of the fields."""
        return self.description * self.fields


@dataclass(frozen=True, slots=True)
class Matched:
    """The best matching, and what it is worth.

    Parameters
    ----------
    inversions, most_inversions
        Pairs of matches whose order in the video is not that of the prompt, and how many there could be.
    value
        Between 0 and 1; None where the prompt has no events.
    """

    matches: tuple[Match, ...]
    inversions: int
    most_inversions: int
    value: float | None


def match_events(
    description: Similarities, fields: Similarities, settings: MatchSettings | None = None
) -> Matched:
    """Return the matching of greatest weight and the score of event-level alignment.

    Parameters
    ----------
    description
        Likeness of descriptions, ``(prompt events, video events)``; below 0 counts as 0.
    fields
        Likeness of each field, ``(fields, prompt events, video events)``.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    chosen = settings or MatchSettings()
    if fields.ndim != 3 or fields.shape[1:] != description.shape:
        raise ValueError(f"fields of shape {fields.shape} do not fit descriptions of {description.shape}")
    if not description.shape[0]:
        return Matched((), 0, 0, None)
    told = np.clip(description, 0, 1)
    shared = np.clip(fields, 0, 1).mean(0)
    rows, columns = linear_sum_assignment(told * shared, maximize=True)
    matches = tuple(
        Match(int(row), int(column), float(told[row, column]), float(shared[row, column]))
        for row, column in zip(rows, columns, strict=True)
    )
    found = inversions([match.video_event for match in matches])
    most = len(matches) * (len(matches) - 1) // 2
    over = len(matches) if chosen.over == "matched" else description.shape[0]
    mean = math.fsum(match.score for match in matches) / over if over else 0.0
    return Matched(matches, found, most, mean * (1 - chosen.order_penalty * (found / most if most else 0.0)))


def inversions(order: Sequence[int]) -> int:
    """Return how many pairs stand in the wrong order.

    Examples
    --------
    >>> inversions([0, 1, 2]), inversions([2, 1, 0]), inversions([1, 0, 2])
    (0, 3, 1)
    """
    return sum(order[first] > order[second] for second in range(len(order)) for first in range(second))
