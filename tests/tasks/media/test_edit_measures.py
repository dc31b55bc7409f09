"""The measures of an edit are exact where the edit is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from storage_schemas.frames import Planes
from tasks.aspects.color_edit import NOTABLE, measure_edit

PICTURES = arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)))


def noise(low: int = 60, high: int = 180) -> Planes:
    return np.random.default_rng(0).integers(low, high, (40, 60, 3), dtype=np.uint8)


def test_a_patch_counts_by_its_area_and_the_rest_by_its_mean() -> None:
    assert measure_edit(noise(), noise()) == (0.0, 0.0, pytest.approx(1.0))
    before = np.full((40, 60, 3), 100, np.uint8)
    after = before.copy()
    after[:10, :20] = (200, 20, 20)
    after[20:] += 4
    result = measure_edit(before, after)
    assert result.changed_share == 200 / 2400
    assert result.rest_shift == pytest.approx(4 * 1200 / 2200)
    assert result.edges_kept == 0.0  # a flat picture got edges
    # where all changes there is no rest, and a negative keeps its outlines
    before = noise(0, 60)
    assert measure_edit(before, 255 - before) == (1.0, 0.0, pytest.approx(1.0, abs=0.01))


def test_lost_moved_and_kept_outlines_differ() -> None:
    before = noise()
    assert measure_edit(before, np.full_like(before, 128)).edges_kept == 0.0
    assert abs(measure_edit(before, np.roll(before, 7, axis=1)).edges_kept) < 0.2
    assert measure_edit(before, before[..., ::-1].copy()).edges_kept > 0.5
    assert measure_edit(np.zeros_like(before), np.zeros_like(before)).edges_kept == 1.0


def test_notable_is_between_a_shade_and_the_next_colour() -> None:
    gray = np.full((1, 1, 3), 128, np.uint8)
    assert measure_edit(gray, gray + 20).changed_share == 0.0
    assert measure_edit(gray, gray + 80).changed_share == 1.0
    assert NOTABLE == 20


@settings(max_examples=50, deadline=None)
@given(pair=PICTURES.flatmap(lambda p: st.tuples(st.just(p), arrays(np.uint8, p.shape))))
def test_all_values_are_numbers_within_their_bounds(pair: tuple[Planes, Planes]) -> None:
    result = measure_edit(*pair)
    assert 0 <= result.changed_share <= 1
    assert 0 <= result.rest_shift <= 255
    assert -1.000001 <= result.edges_kept <= 1.000001
