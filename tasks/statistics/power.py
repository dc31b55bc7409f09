"""How many pairs a difference needs, and which difference a number of pairs shows.

All tests are two-sided at 5 %, and `power` is the chance that a true difference is found. They are normal
approximations; an exact test needs a few pairs more where the numbers are small. Pairs are of different
sources: if several are of one source, give their effective number.
"""

from __future__ import annotations

import math

from scipy import stats
from scipy.optimize import brentq

from tasks.statistics.intervals import ALPHA

POWER = 0.8


def pairs_for_two_evaluators(difference: float, discordant: float, power: float = POWER) -> int:
    """Return how many *same* pairs distinguish two evaluators (McNemar's test, Connor 1987).

    Parameters
    ----------
    difference
        Difference of the two accuracies.
    discordant
        Share of pairs on which exactly one of the two is right.

    Raises
    ------
    ValueError
        If the difference is 0 or greater than `discordant`, or a number is out of range.
    """
    _check_share(discordant)
    _check_difference(difference)
    if abs(difference) > discordant + 1e-12:
        raise ValueError(f"a difference of {difference} with only {discordant} discordant")
    left = math.sqrt(max(0.0, discordant - difference**2))
    spread = _z_alpha() * math.sqrt(discordant) + _z_power(power) * left
    return math.ceil((spread / difference) ** 2 - 1e-9)


def difference_shown(pairs: float, discordant: float, power: float = POWER) -> float | None:
    """Return the smallest difference of two evaluators on the same pairs that this number of pairs shows.

    Returns
    -------
    float or None
        None if not even a difference as great as `discordant` is shown.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    _check_share(discordant)
    _check_pairs(pairs)
    alpha, beta = _z_alpha(), _z_power(power)

    def missing(difference: float) -> float:
        left = math.sqrt(max(0.0, discordant - difference**2))
        return alpha * math.sqrt(discordant) + beta * left - difference * math.sqrt(pairs)

    if discordant == 0 or missing(discordant) > 0:
        return None
    return float(brentq(missing, 0.0, discordant, xtol=1e-12))


def accuracy_shown(pairs: float, power: float = POWER, chance: float = 0.5) -> float | None:
    """Return the smallest accuracy that this number of pairs distinguishes from chance; None if not even 1.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    _check_share(chance)
    _check_pairs(pairs)
    alpha, beta = _z_alpha(), _z_power(power)

    def missing(accuracy: float) -> float:
        spread = alpha * math.sqrt(chance * (1 - chance)) + beta * math.sqrt(accuracy * (1 - accuracy))
        return spread - (accuracy - chance) * math.sqrt(pairs)

    if missing(1.0) > 0:
        return None
    return float(brentq(missing, chance, 1.0, xtol=1e-12))


def _z_alpha() -> float:
    return float(stats.norm.isf(ALPHA / 2))


def _z_power(power: float) -> float:
    if not 0.5 <= power < 1:
        raise ValueError(f"a power of {power}: it lies from 0.5 to under 1")
    return float(stats.norm.ppf(power))


def _check_share(*shares: float) -> None:
    for share in shares:
        if not 0 <= share <= 1:
            raise ValueError(f"{share} is not a share between 0 and 1")


def _check_difference(difference: float) -> None:
    if difference == 0:
        raise ValueError("no number of pairs shows that there is no difference")


def _check_pairs(pairs: float) -> None:
    if pairs < 1:
        raise ValueError(f"{pairs} pairs")
