"""Agreement by aspect and worker."""

from __future__ import annotations

import random

import pytest

from tasks.votes.agreement import ALL, agreement, worker_agreement
from tests.tasks.votes.voting import vote, votes_on


def test_by_aspect_and_over_all() -> None:
    some = [
        *votes_on("film1/a", "AAAAA"),
        *votes_on("film2/a", "CCCCC"),
        *votes_on("film3/a", "AAAAB"),
        *votes_on("film1/b", "AC", aspect="aesthetics", preferred="low"),
        vote("film2/b", "worker0", "B", aspect="aesthetics"),
    ]
    color, aesthetics, everything = agreement(some, order=("color", "aesthetics", "unknown"))
    assert [color.aspect, aesthetics.aspect, everything.aspect] == ["color", "aesthetics", ALL]
    assert (color.pairs, color.votes, color.workers) == (3, 15, 5)
    assert color.unanimous == pytest.approx(2 / 3)
    assert color.right == 1.0
    assert color.ratings.alpha == pytest.approx(8 / 9)
    assert color.ratings.interval is not None
    assert 8 / 9 in color.ratings.interval
    assert color.preferences.alpha is None, "all prefer the same: chance agrees as well"
    # one pair says nothing of others
    assert (aesthetics.ratings.units, aesthetics.ratings.alpha) == (1, None)
    assert aesthetics.unanimous == 0.0
    assert aesthetics.right == pytest.approx(1 / 3)
    assert everything.votes == 18


def test_the_order_of_votes_does_not_matter() -> None:
    some = [*votes_on("film1/a", "AABBC"), *votes_on("film2/a", "AAAAB"), *votes_on("film3/a", "CCBAA")]
    mixed = list(some)
    random.Random(3).shuffle(mixed)
    assert agreement(mixed, seed=4) == agreement(some, seed=4)
    assert agreement([]) == []


def test_the_worker_who_stands_apart() -> None:
    some = [one for n in range(20) for one in votes_on(f"film{n}/a", "AAAAC" if n % 2 else "CCCCA")]
    result = worker_agreement(some)
    assert (result["worker4"].alpha or 0) < -0.5
    assert min(result[f"worker{n}"].alpha or 0 for n in range(4)) > 0.4
    assert result["worker0"].answers == 20


def test_there_is_not_an_alpha_of_one_pair() -> None:
    one = [vote("film/1", worker, letter) for worker, letter in zip("abc", "AAC", strict=True)]
    two = [*one, *(vote("film/2", worker, letter) for worker, letter in zip("abc", "CCC", strict=True))]
    assert [row.ratings.alpha for row in agreement(one)] == [None, None]
    assert [row.preferences.interval for row in agreement(one)] == [None, None]
    assert {alpha.alpha for alpha in worker_agreement(one).values()} == {None}
    assert None not in {row.ratings.alpha for row in agreement(two)}
    assert None not in {alpha.alpha for alpha in worker_agreement(two).values()}
