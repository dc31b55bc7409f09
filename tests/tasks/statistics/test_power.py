"""How many pairs a difference needs, by hand and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tasks.statistics.power import accuracy_shown, difference_shown, pairs_for_two_evaluators
from tests.tasks.statistics.making import few, known


def test_by_hand() -> None:
    # ((1.95996·0.5 + 0.84162·√0.24) / 0.1)² = 193.8
    assert known(accuracy_shown(194)) < 0.6 < known(accuracy_shown(193))
    # ((1.95996·√0.3 + 0.84162·√(0.3 − 0.01)) / 0.1)² = 233.1
    assert pairs_for_two_evaluators(0.1, 0.3) == pairs_for_two_evaluators(-0.1, 0.3) == 234


def test_the_promised_power_is_there() -> None:
    n = 85
    shown = accuracy_shown(n)
    assert shown == pytest.approx(0.65, abs=0.005)
    counts = np.arange(n + 1)
    result = abs(counts / n - 0.5) / (0.25 / n) ** 0.5 > 1.96
    assert binom.pmf(counts, n, shown)[result].sum() == pytest.approx(0.8, abs=0.04)
    n = pairs_for_two_evaluators(0.15, 0.35)
    first, second = np.random.default_rng(2).multinomial(n, [0.25, 0.10, 0.65], 4000)[:, :2].T
    assert ((first - second) ** 2 / (first + second) > 3.8415).mean() == pytest.approx(0.8, abs=0.03)


def test_same_pairs_need_fewer_than_different_ones() -> None:
    discordant = 0.6 * (1 - 0.5) + 0.5 * (1 - 0.6)  # where they err independently
    needed = pairs_for_two_evaluators(0.1, discordant)
    assert pairs_for_two_evaluators(0.1, 0.2) < needed < 2 * 388  # Fleiss, Levin and Paik: each of two groups


@few
@given(st.integers(5, 5000), st.floats(0.05, 1), st.integers(1, 12) | st.integers(1, 5000))
def test_pairs_needed_to_show_a_difference(pairs: int, discordant: float, against_chance: int) -> None:
    def needed(accuracy: float) -> float:
        spread = 1.959964 * 0.5 + 0.841621 * math.sqrt(accuracy * (1 - accuracy))
        return (spread / (accuracy - 0.5)) ** 2

    shown = difference_shown(pairs, discordant)
    if shown is None:
        assert pairs_for_two_evaluators(discordant, discordant) >= pairs
    else:
        assert 0 < shown <= discordant
        assert abs(pairs_for_two_evaluators(shown, discordant) - pairs) <= 1
    alone = accuracy_shown(against_chance)
    if alone is None:
        assert needed(1.0) >= against_chance
    else:
        assert 0.5 < alone <= 1
        assert needed(alone) == pytest.approx(against_chance, rel=1e-4)


def test_power_refuses_what_makes_no_sense() -> None:
    assert accuracy_shown(3) is difference_shown(2, 0.3) is difference_shown(100, 0.0) is None
    with pytest.raises(ValueError, match="no difference"):
        pairs_for_two_evaluators(0.0, 0.5)
    with pytest.raises(ValueError, match=r"1\.2 is not a share"):
        accuracy_shown(100, chance=1.2)
    with pytest.raises(ValueError, match=r"difference of 0\.4 with only 0\.3"):
        pairs_for_two_evaluators(0.4, 0.3)
    with pytest.raises(ValueError, match="a power of 1"):
        pairs_for_two_evaluators(0.1, 0.3, power=1)
    with pytest.raises(ValueError, match="0 pairs"):
        difference_shown(0, 0.3)
