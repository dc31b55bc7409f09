"""AUC of scores: known answers, sources, and that damage of other sources counts."""

from __future__ import annotations

import pytest

from tasks.statistics.specificity import auc_of


def test_auc_is_over_all_videos_and_paired_over_pairs() -> None:
    found = auc_of([3, 2, 2], [1, 2, 3], ["a", "b", "c"])
    assert found is not None
    # 3 against 1, 2, 3: 2.5; 2 against 1, 2, 3: 1.5, twice
    assert found.auc == pytest.approx(5.5 / 9)
    assert found.paired == 0.5
    assert (found.pairs, found.sources) == (3, 3)
    assert not found.moved
    assert auc_of([], [], []) is None


def test_the_interval_deletes_sources_and_needs_three() -> None:
    clear = auc_of([5, 6, 7, 8], [1, 2, 3, 4], list("abcd"))
    assert clear is not None
    assert clear.interval is not None
    assert (clear.auc, clear.interval.high) == (1, 1)
    # three sources that are all alike may be so by chance, and many are not
    assert 0.3 < clear.interval.low < 1
    three = auc_of([1, 1, 1], [0, 0, 0], list("abc"))
    many = auc_of([1] * 20, [0] * 20, list("abcdefghijklmnopqrst"))
    assert three is not None
    assert many is not None
    assert (three.moved, many.moved) == (False, True)
    two = auc_of([5, 6, 5, 6], [1, 2, 3, 4], ["a", "a", "b", "b"])
    assert two is not None
    assert (two.interval, two.moved) == (None, False)
    # by hand: leaving out a source leaves AUCs of 0.5, 0.5 and 1
    mixed = auc_of([1, 1, 0], [0, 0, 1], list("abc"))
    assert mixed is not None
    assert mixed.auc == pytest.approx(6 / 9)
    assert mixed.interval is not None
    assert mixed.interval.low == 0


def test_pairs_of_a_source_are_one_cluster() -> None:
    once = auc_of([2, 1, 2, 1], [1, 2, 1, 0], list("abcd"))
    twice = auc_of([2, 1, 2, 1] * 2, [1, 2, 1, 0] * 2, list("abcd") * 2)
    assert once is not None
    assert twice is not None
    assert (once.auc, once.interval) == (twice.auc, twice.interval)
