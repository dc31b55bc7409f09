from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.votes.stopping import enough, least_votes, most_votes, wanted_votes


@pytest.mark.parametrize(
    ("usual", "least", "most"), [(1, 1, 3), (2, 2, 4), (3, 2, 5), (4, 2, 6), (5, 3, 7), (9, 7, 11)]
)
def test_a_clear_pair_needs_two_fewer_and_an_unclear_one_gets_two_more(
    usual: int, least: int, most: int
) -> None:
    assert (least_votes(usual), most_votes(usual)) == (least, most)
    assert enough(least, 0.99, usual)
    assert enough(least, 0.01, usual)
    assert enough(most, 0.5, usual)
    assert not enough(most - 1, 0.5, usual)


@given(st.integers(0, 12), st.floats(0, 1), st.integers(1, 9))
def test_a_pair_is_asked_for_one_more_vote_at_a_time(votes: int, clear: float, usual: int) -> None:
    wanted = wanted_votes(votes, clear, usual)
    assert (wanted == votes) == enough(votes, clear, usual)
    assert wanted == votes or wanted == max(votes + 1, least_votes(usual))
    assert wanted <= max(votes, most_votes(usual))
