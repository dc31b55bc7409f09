from __future__ import annotations

from fractions import Fraction

import pytest

from tasks.statistics.intervals import printed_per_cent


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.5, "50.0"),
        (Fraction(1, 3), "33.3"),
        (Fraction(5, 10000), "0.1"),
        (-0.123, "-12.3"),
        (-0.0001, "0.0"),
        (1, "100.0"),
    ],
)
def test_printing(share: Fraction | float, text: str) -> None:
    assert printed_per_cent(share) == text


def test_printing_other_digits() -> None:
    assert printed_per_cent(Fraction(1, 8), digits=0) == "13"
    assert printed_per_cent(Fraction(1, 8), digits=3) == "12.500"
