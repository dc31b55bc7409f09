"""Wordings: components of made variances, known answers, and which pairs count."""

from __future__ import annotations

import numpy as np
import pytest

from storage_schemas.judgements import Order, Preferred
from tasks.statistics.trials import Trial, TrialPair
from tasks.statistics.wordings import _components, trials_by_wording, wordings_of


def trial(pair: int, right: bool, order: Order = "high_first", repeat: int = 0, name: str = "a") -> Trial:
    preferred: Preferred = "high" if right else "low"
    one = TrialPair(f"p{pair}", f"s{pair}", "color", 60.0)
    return Trial("judge", name, one, order, repeat, preferred)


def both(pairs: range, right: bool, name: str = "a", repeats: int = 1) -> list[Trial]:
    orders: tuple[Order, ...] = ("high_first", "low_first")
    return [trial(p, right, order, n, name) for p in pairs for order in orders for n in range(repeats)]


def test_components_are_those_that_answers_were_made_with() -> None:
    rng = np.random.default_rng(1)
    pairs, wordings, orders, repeats = 400, 30, 2, 3
    made = rng.normal(0, 2, (pairs, 1, 1, 1)) + rng.normal(0, 1, (1, wordings, 1, 1))
    made = made + rng.normal(0, 0.7, (pairs, wordings, 1, 1))
    made = made + rng.normal(0, 0.9, (pairs, wordings, orders, 1))
    made = made + rng.normal(0, 0.5, (pairs, wordings, orders, repeats))
    found = [one.variance for one in _components(made, [f"s{n}" for n in range(pairs)]) if one]
    assert found == pytest.approx([4, 1, 0.49, 0.81, 0.25], rel=0.35)
    assert found[2:] == pytest.approx([0.49, 0.81, 0.25], rel=0.05)
    # without repeats their part is in that of the orders
    once = _components(made[..., :1], [f"s{n}" for n in range(pairs)])
    assert once[4] is None
    assert once[3] is not None
    assert once[3].variance == pytest.approx(0.81 + 0.25, rel=0.05)


def test_a_wording_that_is_always_wrong_is_a_matter_of_words() -> None:
    found = wordings_of({"": both(range(5), True), "odd": both(range(5), False, "b")})
    assert found is not None
    assert [accuracy for accuracy, _ in found.accuracies.values()] == [1.0, 0.0]
    assert (found.pairs, found.orders, found.repeats, found.mean) == (5, 2, 1, 0.5)
    assert found.deviation == pytest.approx(0.5**0.5)
    assert found.another is not None
    assert (found.another.low, found.another.high) == (0, 1)
    pair, wording, crossed, order, repeat = found.components
    assert wording is not None
    assert wording.share == 1
    assert [one.variance for one in (pair, crossed, order) if one] == [0, 0, 0]
    assert repeat is None


def test_equal_wordings_have_no_spread() -> None:
    found = wordings_of({name: both(range(4), True, name, repeats=2) for name in "abc"})
    assert found is not None
    assert (found.deviation, found.another) == (0, None), "equal accuracies say nothing of other words"
    assert [one.share for one in found.components if one] == [None] * 5


def test_only_pairs_with_all_answers_count() -> None:
    whole = both(range(6), True, repeats=3)
    lacks = both(range(1, 6), True, "b")
    lacks = [one for one in lacks if (one.pair.pair_id, one.order) != ("p1", "low_first")]
    found = wordings_of({"": whole, "b": lacks})
    assert found is not None
    assert (found.pairs, found.repeats) == (4, 1)
    assert wordings_of({"": whole}) is None
    assert wordings_of({"": whole, "b": both(range(1), True, "b")}) is None
    # a wording whose run ended early leaves those of the others
    found = wordings_of({"": whole, "b": both(range(6), False, "b"), "c": both(range(1), True, "c")})
    assert found is not None
    assert (list(found.accuracies), found.pairs) == (["", "b"], 6)


def test_trials_by_wording_leave_out_a_wording_whose_text_was_changed() -> None:
    own, changed = both(range(3), True), both(range(3), False, "b") + both(range(3), True, "c")
    worded = {("judge", "a"): both(range(3), True, "a"), ("judge", "b"): changed}
    found = trials_by_wording(worded, {"judge": own})
    assert list(found["judge"]) == ["", "a"]


def test_a_judge_whose_order_is_drawn_has_one_order() -> None:
    drawn = [trial(p, True, "high_first" if p % 2 else "low_first") for p in range(4)]
    found = wordings_of({"": drawn, "b": [trial(one, False, "low_first", name="b") for one in range(4)]})
    assert found is not None
    assert (found.orders, found.components[3]) == (1, None)
