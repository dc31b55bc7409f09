from __future__ import annotations

import pytest

from tasks.report.accuracy import marks_of
from tasks.report.write import small_sample


@pytest.mark.parametrize(
    ("accuracies", "marks"),
    [
        ([0.9, 0.8, 0.7], ["best", "second", ""]),
        ([0.7, None, 0.9], ["second", "", "best"]),
        # who shares a mark is not second to anybody, and a shared second place says little
        ([0.9, 0.9, 0.7], ["best", "best", ""]),
        ([0.9, 0.7, 0.7], ["best", "", ""]),
        ([0.9, 0.0], ["best", ""]),
        ([0.5, 0.5], ["", ""]),
        ([0.0, 0.0, 0.0], ["", "", ""]),
        ([0.9], [""]),
        ([None, 0.9], ["", ""]),
        ([], []),
        # equal but for rounding
        ([0.1 + 0.2, 0.3, 0.1], ["best", "best", ""]),
    ],
)
def test_marks_say_something(accuracies: list[float | None], marks: list[str]) -> None:
    assert marks_of(accuracies) == marks


def test_a_small_sample_is_called_small() -> None:
    assert "of 1 source." in small_sample(1)
    assert "of 19 sources." in small_sample(19)
    assert not small_sample(20)
