"""Consistency within and between events, from features with known cosines."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.scoring.suites.locot2v.event_consistency import (
    between_events,
    inter_event,
    intra_event,
    within_event,
)

EAST, NORTH = np.array([1.0, 0.0]), np.array([0.0, 1.0])
BETWEEN = np.array([1.0, 1.0])


def test_a_thing_that_stays_is_consistent() -> None:
    rows = np.stack([EAST, 2 * EAST, 7 * EAST])
    assert within_event(rows) == pytest.approx(1)
    assert within_event(rows[:1]) is None


def test_each_frame_is_held_against_the_first_and_the_one_before() -> None:
    half = np.sqrt(0.5)
    # frame 1: first and before are the same; frame 2: cosine 0 with the first, half with the one before
    assert within_event(np.stack([EAST, BETWEEN, NORTH])) == pytest.approx((half + half / 2) / 2)


def test_opposite_features_count_as_nothing_not_below() -> None:
    assert within_event(np.stack([EAST, -EAST])) == 0


def test_between_events_the_means_are_compared() -> None:
    thing = {0: np.stack([EAST, NORTH]), 2: np.stack([BETWEEN]), 5: np.stack([EAST])}
    half = np.sqrt(0.5)
    assert between_events(thing) == pytest.approx((1 + half + half) / 3)
    assert between_events({0: np.stack([EAST])}) is None


def test_what_was_found_nowhere_has_no_value() -> None:
    assert intra_event([]).value is None
    result = inter_event([{0: np.stack([EAST])}, {1: np.stack([NORTH, NORTH])}])
    assert result.value is None
    assert "two events" in result.why


def test_means_over_things_and_events() -> None:
    steady = {0: np.stack([EAST, EAST]), 1: np.stack([EAST, EAST])}
    broken = {0: np.stack([EAST, NORTH])}
    result = intra_event([steady, broken])
    assert result.value == pytest.approx(2 / 3)
    assert result.steps == 3
    assert inter_event([steady, broken]).value == pytest.approx(1)
