from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.statistics.intervals import printed_per_cent
from tests.papers.printed_counts import counts_that_print
from tests.tasks.statistics.making import few


def test_counts_by_hand() -> None:
    assert counts_that_print("90.1", 564) == (508,)
    assert counts_that_print("50.3", 570) == ()
    assert counts_that_print("96.5", 1410) == (1360, 1361)
    assert counts_that_print("0.5", 10, scale=1) == (5,)
    assert counts_that_print("100.0", 7) == (7,)
    assert counts_that_print("0", 7) == (0,)


def test_a_half_fits_both_neighbours() -> None:
    assert counts_that_print("12.5", 400) == (50,)
    # 1 of 2,000 is 0.05 %
    assert 1 in counts_that_print("0.0", 2000)
    assert 1 in counts_that_print("0.1", 2000)


@few
@given(st.integers(1, 2000), st.data())
def test_what_is_printed_is_found_again(answers: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, answers))
    result = counts_that_print(printed_per_cent(Fraction(right, answers)), answers)
    assert right in result
    assert list(result) == list(range(result[0], result[-1] + 1))
    # a step of 1/answers is wider than a printed digit
    assert answers >= 1000 or len(result) == 1


@pytest.mark.parametrize(
    ("text", "answers", "message"), [("x", 5, "is not a number"), ("nan", 5, "finite"), ("1", 0, "0 answers")]
)
def test_what_is_not_printed(text: str, answers: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        counts_that_print(text, answers)
