"""Krippendorff's α: how far raters agree beyond chance, with missing answers.

α = 1 − Dₒ/Dₑ. Dₒ is the mean difference of two answers on the same unit, Dₑ that of any two answers at all
(K. Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011). 1 is full agreement, 0 what chance gives.
A unit with one answer takes no part.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from storage_schemas.rng import KeyPart, keyed_rng
from tasks.statistics.intervals import Interval

#: Nominal: two answers are equal or not. Ordinal: they have an order, and differ by how many lie between.
MeasurementLevel = Literal["nominal", "ordinal"]
#: Draws of the bootstrap: the ends of a 95 % interval then rest on 25 draws each.
DRAWS = 1000
#: Draws that are computed together; bounds the memory.
_BATCH = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RaterAnswer:
    """One rater's value of one unit; missing answers have none."""

    unit: str
    rater: str
    value: str


@dataclass(frozen=True, slots=True)
class Alpha:
    """The agreement of some answers.

    Parameters
    ----------
    units, raters, answers
        What takes part: units with two answers or more, their raters and answers.
    alpha
        None where nothing can be paired, or where all answers are equal: chance then agrees as well.
    interval
        For 95 %; None where there is no α, or fewer than two clusters.
    """

    units: int
    raters: int
    answers: int
    alpha: float | None
    interval: Interval | None = None


def alpha_of(
    answers: Iterable[RaterAnswer],
    values: Sequence[str],
    level: MeasurementLevel = "nominal",
    *,
    key: Sequence[KeyPart] | None = None,
    cluster: Mapping[str, Hashable] | None = None,
    draws: int = DRAWS,
) -> Alpha:
    """Return α of answers.

    Parameters
    ----------
    values
        All values that there can be; in their order where the level is ordinal.
    level
        How two values differ.
    key
        Key of the bootstrap's draws; without one there is no interval. It draws clusters of units with
        replacement, and takes the middle 95 % of the α that come out.
    cluster
        What hangs together, by unit, such as the source of a pair; each unit on its own by default.

    Raises
    ------
    ValueError
        If a value is none of `values`, or a rater answers twice on a unit.
    """
    held = _paired(answers)
    units = list(held)
    counts = _counts(held, values)
    raters = {rater for some in held.values() for rater in some}
    tables = _tables(counts)
    found = float(_alphas(tables.sum(0)[None], level)[0])
    if not np.isfinite(found):
        return Alpha(len(units), len(raters), int(counts.sum()), None)
    interval = None
    if key is not None:
        names: list[Hashable] = [unit if cluster is None else cluster[unit] for unit in units]
        interval = _interval(tables, names, level, key, draws)
    return Alpha(len(units), len(raters), int(counts.sum()), found, interval)


def rater_alphas(
    answers: Iterable[RaterAnswer], values: Sequence[str], level: MeasurementLevel = "nominal"
) -> dict[str, Alpha]:
    """Return how far each rater agrees with the others on the same units.

    It is 1 − Dᵣ/Dₑ with Dᵣ the mean difference between the rater's answers and the others' on the same unit,
    and Dₑ that of any two answers of all raters. The mean of all raters' Dᵣ, each weighted by how many of the
    answers are the rater's, is Dₒ.

    Raises
    ------
    ValueError
        As :func:`alpha_of` does.
    """
    held = _paired(answers)
    counts = _counts(held, values)
    places = {value: place for place, value in enumerate(values)}
    total = counts.sum(0)
    difference = _differences(total[None], level)[0]
    expected = _expected(total, difference)
    sums: dict[str, list[float]] = {}
    for row, some in zip(counts, held.values(), strict=True):
        for rater, value in some.items():
            to_each = difference[places[value]]
            sums.setdefault(rater, []).append(float(row @ to_each) / (row.sum() - 1))
    return {
        rater: Alpha(
            len(some), len(sums), len(some), 1 - (sum(some) / len(some)) / expected if expected > 0 else None
        )
        for rater, some in sorted(sums.items())
    }


def _paired(answers: Iterable[RaterAnswer]) -> dict[str, dict[str, str]]:
    """Return values by unit and rater, of the units that have two or more; the order of arrival is lost."""
    held: dict[str, dict[str, str]] = {}
    for answer in answers:
        unit = held.setdefault(answer.unit, {})
        if answer.rater in unit:
            raise ValueError(f"{answer.rater} answers twice on {answer.unit}")
        unit[answer.rater] = answer.value
    return {unit: dict(sorted(held[unit].items())) for unit in sorted(held) if len(held[unit]) > 1}


def _counts(held: dict[str, dict[str, str]], values: Sequence[str]) -> Floats:
    """Return how often each value was given to each unit, ``(units, values)``."""
    places = {value: place for place, value in enumerate(values)}
    counts = np.zeros((len(held), len(places)))
    for row, some in enumerate(held.values()):
        for value in some.values():
            if value not in places:
                raise ValueError(f"{value!r} is none of the values {', '.join(values)}")
            counts[row, places[value]] += 1
    return counts


def _tables(counts: Floats) -> Floats:
    """Return each unit's share of the coincidence matrix, ``(units, values, values)``."""
    pairs = counts[:, :, None] * counts[:, None, :]
    places = np.arange(counts.shape[1])
    # an answer is not paired with itself
    pairs[:, places, places] -= counts
    shares: Floats = pairs / (counts.sum(1) - 1)[:, None, None]
    return shares


def _differences(totals: Floats, level: MeasurementLevel) -> Floats:
    """Return the squared difference of every two values, ``(draws, values, values)``, from their totals."""
    values = totals.shape[1]
    if level == "nominal":
        return np.broadcast_to(1.0 - np.eye(values), (len(totals), values, values))
    # between c and k lie all answers from c to k, the two ends counted half
    middle = np.cumsum(totals, axis=1) - totals / 2
    between: Floats = (middle[:, :, None] - middle[:, None, :]) ** 2
    return between


def _expected(total: Floats, difference: Floats) -> float:
    n = total.sum()
    return float(total @ difference @ total / (n * (n - 1))) if n > 1 else 0.0


def _alphas(tables: Floats, level: MeasurementLevel) -> Floats:
    """Return α of coincidence matrices ``(draws, values, values)``; not a number where there is none."""
    totals = tables.sum(2)
    n = totals.sum(1)
    difference = _differences(totals, level)
    seen = (tables * difference).sum((1, 2))
    chance = np.einsum("di,dij,dj->d", totals, difference, totals)
    with np.errstate(divide="ignore", invalid="ignore"):
        alphas: Floats = np.where(chance > 0, 1 - (n - 1) * seen / chance, np.nan)
    return alphas


def _interval(
    tables: Floats, names: list[Hashable], level: MeasurementLevel, key: Sequence[KeyPart], draws: int
) -> Interval | None:
    """Return the bootstrap's middle 95 %; draws in which all answers are equal have no α and do not count."""
    numbers: dict[Hashable, int] = {}
    labels = np.array([numbers.setdefault(name, len(numbers)) for name in names])
    clusters, values = len(numbers), tables.shape[1]
    if clusters < 2:
        return None
    sums = np.zeros((clusters, values * values))
    np.add.at(sums, labels, tables.reshape(len(tables), -1))
    rng = keyed_rng(*key, "krippendorff")
    found = []
    for begin in range(0, draws, _BATCH):
        size = min(_BATCH, draws - begin)
        drawn = rng.integers(clusters, size=(size, clusters)) + clusters * np.arange(size)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=size * clusters).reshape(size, clusters)
        found.append(_alphas((weights.astype(np.float64) @ sums).reshape(size, values, values), level))
    known = np.concatenate(found)
    known = known[np.isfinite(known)]
    if not len(known):
        return None
    low, high = np.quantile(known, [0.025, 0.975])
    return Interval(float(low), float(high))
