"""Krippendorff's α: agreement of raters beyond chance, with missing answers.

α = 1 − Dₒ/Dₑ. Dₒ is the mean difference of two answers on the same unit, Dₑ that of any two answers
(K. Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011). 1 is full agreement, 0 is chance level.
Units with a single answer are ignored.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from storage_schemas.rng import KeyPart, keyed_rng
from tasks.statistics.intervals import Interval

#: Nominal: answers are equal or not. Ordinal: answers are ordered and differ by the number of those between.
MeasurementLevel = Literal["nominal", "ordinal"]
#: Bootstrap draws: each end of a 95 % interval then rests on 25 draws.
DRAWS = 1000
#: Draws computed at once, which bounds memory.
_BATCH = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RaterAnswer:
    """One rater's value for one unit; missing answers have no row."""

    unit: str
    rater: str
    value: str


@dataclass(frozen=True, slots=True)
class Alpha:
    """Agreement of raters.

    Parameters
    ----------
    units, raters, answers
        Numbers of units with at least two answers, of their raters and of their answers.
    alpha
        None if no answers can be paired, or all are equal, so that chance agreement is perfect too.
    interval
        95 % interval; None without α or with fewer than two clusters.
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
        All possible values, in order if the level is ordinal.
    level
        Measurement level.
    key
        Key of the bootstrap's draws; without one there is no interval. Clusters of units are drawn with
        replacement; the interval is the middle 95 % of the resulting α.
    cluster
        Cluster of each unit, such as the source of a pair; by default each unit is its own cluster.

    Raises
    ------
    ValueError
        If a value is not in `values`, or a rater answers a unit twice.
    """
    by_unit = _paired(answers)
    units = list(by_unit)
    counts = _counts(by_unit, values)
    raters = {rater for some in by_unit.values() for rater in some}
    tables = _tables(counts)
    alpha = float(_alphas(tables.sum(0)[None], level)[0])
    if not np.isfinite(alpha):
        return Alpha(len(units), len(raters), int(counts.sum()), None)
    interval = None
    if key is not None:
        names: list[Hashable] = [unit if cluster is None else cluster[unit] for unit in units]
        interval = _interval(tables, names, level, key, draws)
    return Alpha(len(units), len(raters), int(counts.sum()), alpha, interval)


def rater_alphas(
    answers: Iterable[RaterAnswer], values: Sequence[str], level: MeasurementLevel = "nominal"
) -> dict[str, Alpha]:
    """Return each rater's agreement with the others on the same units.

    It is 1 − Dᵣ/Dₑ with Dᵣ the mean difference between the rater's answers and the others' on the same unit,
    and Dₑ that of any two answers of all raters. The mean of all raters' Dᵣ, each weighted by how many of the
    answers are the rater's, is Dₒ.

    Raises
    ------
    ValueError
        As :func:`alpha_of` does.
    """
    by_unit = _paired(answers)
    counts = _counts(by_unit, values)
    indices = {value: index for index, value in enumerate(values)}
    total = counts.sum(0)
    difference = _differences(total[None], level)[0]
    expected = _expected(total, difference)
    sums: dict[str, list[float]] = {}
    for row, some in zip(counts, by_unit.values(), strict=True):
        for rater, value in some.items():
            to_each = difference[indices[value]]
            sums.setdefault(rater, []).append(float(row @ to_each) / (row.sum() - 1))
    return {
        rater: Alpha(
            len(some), len(sums), len(some), 1 - (sum(some) / len(some)) / expected if expected > 0 else None
        )
        for rater, some in sorted(sums.items())
    }


def _paired(answers: Iterable[RaterAnswer]) -> dict[str, dict[str, str]]:
    """Return values by unit and rater, for units with at least two; independent of the input order."""
    by_unit: dict[str, dict[str, str]] = {}
    for answer in answers:
        unit = by_unit.setdefault(answer.unit, {})
        if answer.rater in unit:
            raise ValueError(f"{answer.rater} answers twice on {answer.unit}")
        unit[answer.rater] = answer.value
    return {unit: dict(sorted(by_unit[unit].items())) for unit in sorted(by_unit) if len(by_unit[unit]) > 1}


def _counts(by_unit: dict[str, dict[str, str]], values: Sequence[str]) -> Floats:
    """Return how often each value was given to each unit, ``(units, values)``."""
    indices = {value: index for index, value in enumerate(values)}
    counts = np.zeros((len(by_unit), len(indices)))
    for row, some in enumerate(by_unit.values()):
        for value in some.values():
            if value not in indices:
                raise ValueError(f"{value!r} is none of the values {', '.join(values)}")
            counts[row, indices[value]] += 1
    return counts


def _tables(counts: Floats) -> Floats:
    """Return each unit's share of the coincidence matrix, ``(units, values, values)``."""
    pairs = counts[:, :, None] * counts[:, None, :]
    indices = np.arange(counts.shape[1])
    # an answer is not paired with itself
    pairs[:, indices, indices] -= counts
    shares: Floats = pairs / (counts.sum(1) - 1)[:, None, None]
    return shares


def _differences(totals: Floats, level: MeasurementLevel) -> Floats:
    """Return the squared differences of all pairs of values, ``(draws, values, values)``, from the totals."""
    values = totals.shape[1]
    if level == "nominal":
        return np.broadcast_to(1.0 - np.eye(values), (len(totals), values, values))
    # all answers from c to k lie between, with the two ends counted half
    middle = np.cumsum(totals, axis=1) - totals / 2
    between: Floats = (middle[:, :, None] - middle[:, None, :]) ** 2
    return between


def _expected(total: Floats, difference: Floats) -> float:
    n = total.sum()
    return float(total @ difference @ total / (n * (n - 1))) if n > 1 else 0.0


def _alphas(tables: Floats, level: MeasurementLevel) -> Floats:
    """Return α of coincidence matrices ``(draws, values, values)``; NaN if undefined."""
    totals = tables.sum(2)
    n = totals.sum(1)
    difference = _differences(totals, level)
    observed = (tables * difference).sum((1, 2))
    chance = np.einsum("di,dij,dj->d", totals, difference, totals)
    with np.errstate(divide="ignore", invalid="ignore"):
        alphas: Floats = np.where(chance > 0, 1 - (n - 1) * observed / chance, np.nan)
    return alphas


def _interval(
    tables: Floats, names: list[Hashable], level: MeasurementLevel, key: Sequence[KeyPart], draws: int
) -> Interval | None:
    """Return the bootstrap's middle 95 %, ignoring draws without α because all answers are equal."""
    numbers: dict[Hashable, int] = {}
    labels = np.array([numbers.setdefault(name, len(numbers)) for name in names])
    clusters, values = len(numbers), tables.shape[1]
    if clusters < 2:
        return None
    sums = np.zeros((clusters, values * values))
    np.add.at(sums, labels, tables.reshape(len(tables), -1))
    rng = keyed_rng(*key, "krippendorff")
    draws_done = []
    for begin in range(0, draws, _BATCH):
        size = min(_BATCH, draws - begin)
        drawn = rng.integers(clusters, size=(size, clusters)) + clusters * np.arange(size)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=size * clusters).reshape(size, clusters)
        draws_done.append(_alphas((weights.astype(np.float64) @ sums).reshape(size, values, values), level))
    alphas = np.concatenate(draws_done)
    alphas = alphas[np.isfinite(alphas)]
    if not len(alphas):
        return None
    low, high = np.quantile(alphas, [0.025, 0.975])
    return Interval(float(low), float(high))
