from __future__ import annotations

import pytest

from tasks.report.accuracy import marks_of
from tasks.report.judged_pairs import small_sample
from tasks.statistics.intervals import ClusteredInterval, wilson_interval


def compared(right: float | None, sources: int = 40) -> tuple[float, ClusteredInterval] | None:
    """Return an accuracy of that number of sources with its interval."""
    wilson = wilson_interval(right, sources)
    if right is None or wilson is None:
        return None
    return right, ClusteredInterval(wilson.low, wilson.high, sources, sources)


@pytest.mark.parametrize(
    ("accuracies", "marks", "plain"),
    [
        ([1.0, 0.7, 0.3], ["best", "second", ""], None),
        ([0.3, None, 1.0], ["second", "", "best"], None),
        # intervals overlap, so only the paper's form has a mark
        ([0.9, 0.8, 0.7], ["", "", ""], ["best", "second", ""]),
        ([1.0, 0.6, 0.55], ["best", "", ""], ["best", "second", ""]),
        # equal ones are not ranked by their names
        ([0.9, 0.9, 0.2], ["", "", ""], None),
        ([0.9, 0.2, 0.2], ["best", "", ""], None),
        ([0.9, 0.0], ["best", ""], None),
        ([0.0, 0.0, 0.0], ["", "", ""], None),
        ([0.9], [""], None),
        ([None, 0.9], ["", ""], None),
        ([], [], None),
    ],
)
def test_marks_say_something(
    accuracies: list[float | None], marks: list[str], plain: list[str] | None
) -> None:
    held = [compared(one) for one in accuracies]
    assert marks_of(held) == marks
    assert marks_of(held, clearly=False) == (plain or marks)


def test_few_sources_have_no_best() -> None:
    clear = [compared(1.0, 9), compared(0.0, 9)]
    assert marks_of(clear) == marks_of(clear, clearly=False) == ["", ""]
    assert marks_of([compared(1.0, 10), compared(0.0, 10)]) == ["best", ""]


def test_a_small_sample_is_called_small() -> None:
    assert "of 1 source," in small_sample(1)
    assert "of 19 sources," in small_sample(19)
    assert not small_sample(20)
