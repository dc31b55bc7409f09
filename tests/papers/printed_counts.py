"""Counts behind a printed accuracy: which whole numbers of right answers print as it does."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction


def counts_that_print(printed: str, answers: int, scale: int = 100) -> tuple[int, ...]:
    """Return every count of right answers whose share of `answers` prints as `printed`.

    Parameters
    ----------
    printed
        The number as it stands in a table, with all its digits, such as ``"90.1"``.
    answers
        How many answers there were.
    scale
        What all right prints as: 100 for per cent.

    Returns
    -------
    tuple of int
        Rising; empty if none fits. Where a share lies just between two printed numbers it fits both,
        because papers round a half either way.

    Raises
    ------
    ValueError
        If there are no answers, or `printed` is not a number.
    """
    if answers < 1:
        raise ValueError(f"{answers} answers")
    try:
        number = Decimal(printed)
    except ArithmeticError as error:
        raise ValueError(f"{printed!r} is not a number") from error
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{printed!r} is not a finite number")
    half = Fraction(10) ** exponent / 2
    value = Fraction(number)
    low, high = ((value + sign * half) * answers / scale for sign in (-1, 1))
    first, last = max(0, math.ceil(low)), min(answers, math.floor(high))
    return tuple(range(first, last + 1))
