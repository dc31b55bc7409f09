"""Events matched: the best of all matchings, the paper's product, and the penalty for a wrong order."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tasks.scoring.suites.locot2v.settings import MatchSettings
from tasks.scoring.suites.locot2v.text_alignment import inversions, match_events

ONES = np.ones((4, 3, 3))


def test_the_same_events_in_the_same_order() -> None:
    result = match_events(np.eye(3), ONES)
    assert result.value == 1
    assert result.inversions == 0
    assert [(m.prompt_event, m.video_event) for m in result.matches] == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("order", "turned"), [((0, 1, 2), 0), ((1, 0, 2), 1), ((1, 2, 0), 2), ((2, 1, 0), 3)]
)
def test_a_wrong_order_costs_its_share(order: tuple[int, ...], turned: int) -> None:
    result = match_events(np.eye(3)[:, list(np.argsort(order))], ONES, MatchSettings(order_penalty=0.6))
    assert result.inversions == turned == inversions([m.video_event for m in result.matches])
    assert result.value == pytest.approx(1 - 0.6 * turned / 3)


def test_a_score_is_the_description_times_the_mean_of_the_fields() -> None:
    fields = np.array([0.2, 0.4, 0.6, 0.8]).reshape(4, 1, 1)
    result = match_events(np.array([[0.5]]), fields)
    assert result.value == pytest.approx(0.25)
    assert result.matches[0].fields == pytest.approx(0.5)


def test_missing_events_count_where_that_is_wanted() -> None:
    description, fields = np.ones((4, 2)), np.ones((4, 4, 2))
    assert match_events(description, fields).value == 1
    assert match_events(description, fields, MatchSettings(over="prompt")).value == 0.5
    assert match_events(np.ones((2, 0)), np.ones((4, 2, 0))).value == 0
    assert match_events(np.ones((0, 2)), np.ones((4, 0, 2))).value is None


def test_shapes_have_to_fit() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        match_events(np.eye(3), np.ones((4, 2, 3)))


@given(arrays(np.float64, (4, 4), elements=st.floats(0, 1)))
def test_it_is_the_best_of_all_matchings(weights: np.ndarray) -> None:
    result = match_events(weights, np.ones((1, 4, 4)), MatchSettings(order_penalty=0))
    best = max(sum(weights[row, column] for row, column in enumerate(p)) for p in permutations(range(4)))
    assert result.value == pytest.approx(best / 4)
