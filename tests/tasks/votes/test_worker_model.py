"""The worker model: exact where it can be computed by hand, and right about each kind of worker."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from storage_schemas.rng import keyed_rng
from storage_schemas.votes import Check, SideWord, Vote, check_id, check_of
from tasks.votes.quality import Flag, QualityRule, quality
from tasks.votes.worker_model import (
    KINDS,
    PRIOR_RATINGS,
    PRIOR_RIGHT,
    PRIOR_STATES,
    WorkerKind,
    worker_model,
)
from tests.tasks.votes.voting import vote

LETTERS = "ABC"
CARELESS_KINDS = (0.3, 0.05, 0.5, 0.05, 0.1)


def chance_of(kind: WorkerKind, state: int, right: bool, letter: str) -> float:
    """Return the probability of one answer, written down again from the description of the kinds."""
    looks = PRIOR_RIGHT[state] if right else 1 - PRIOR_RIGHT[state]
    contrary = 1 - looks
    rates = PRIOR_RATINGS[state][LETTERS.index(letter)]
    return {
        WorkerKind.CAREFUL: looks * rates,
        WorkerKind.RATES_BY_HABIT: looks / 3,
        WorkerKind.PREFERS_BY_HABIT: rates / 2,
        WorkerKind.ALL_BY_HABIT: 1 / 6,
        WorkerKind.CONTRARY: contrary * rates,
        WorkerKind.CONTRARY_BY_HABIT: contrary / 3,
    }[kind]


def test_one_pair_and_three_workers_are_exact() -> None:
    answers = [("high", "A"), ("low", "C"), ("high", "B")]
    votes = [vote("film/1", f"w{n}", letter, side) for n, (side, letter) in enumerate(answers)]
    model = worker_model(votes, careless=0.25, learn=False)
    prior = dict(zip(KINDS, (0.75, *(0.25 * share for share in CARELESS_KINDS)), strict=True))
    states, careful, total = np.zeros(5), np.zeros(3), 0.0
    for state, kinds in product(range(3), product(KINDS, repeat=3)):
        chance = PRIOR_STATES[state]
        for kind, (side, letter) in zip(kinds, answers, strict=True):
            chance *= prior[kind] * chance_of(kind, state, side == "high", letter)
        total += chance
        states[state] += chance
        careful += chance * np.array([kind is WorkerKind.CAREFUL for kind in kinds])
    assert model.states["film/1"] == pytest.approx(states / total, abs=1e-9)
    assert [model.careful(f"w{n}") for n in range(3)] == pytest.approx(careful / total, abs=1e-9)


def test_a_rating_of_two_equal_videos_is_judged_by_what_is_known() -> None:
    (one,) = [vote(check_id("film/1", Check.EQUAL), "w", "A", gold=True)]
    model = worker_model([one], careless=0.5, learn=False)
    # damage where there is none: 0.03 of careful workers, a third of those who press anything
    habit = 0.5 / 3
    by_habit = 0.5 * 0.05 * 0.5 * 0.03
    weights = np.array(
        [0.5 * 0.5 * 0.03, 0.3 * habit * 0.5, by_habit, 0.5 * habit / 2, by_habit, 0.1 * habit / 2]
    )
    assert model.kinds["w"] == pytest.approx(weights / weights.sum(), abs=1e-9)
    assert model.kind("w") is WorkerKind.ALL_BY_HABIT


def crowd(odd: str, seed: int = 0, checks: bool = True) -> list[Vote]:
    """Return votes of nine careful workers and an odd one, on 40 clear pairs and four of equal videos."""
    rng = keyed_rng(seed, odd)
    votes = []
    for number, name in product(range(44), [*(f"good-{n}" for n in range(9)), "odd"]):
        equal = number >= 40
        if equal and not checks:
            continue
        first: SideWord = "high" if rng.random() < 0.5 else "low"
        right = rng.random() < (0.5 if equal else 0.95)
        letter = "C" if equal else "AAAAAAAAAB"[rng.integers(10)]
        if name == "odd" and odd == "left":
            right = first == "high"
        if name == "odd" and odd == "random":
            right, letter = rng.random() < 0.5, LETTERS[rng.integers(3)]
        if name == "odd" and odd == "A":
            letter = "A"
        if name == "odd" and odd == "contrary":
            right, letter = not right, {"A": "C", "B": "B", "C": "A"}[letter]
        task = check_id(f"film/{number}", Check.EQUAL) if equal else f"film/{number}"
        votes.append(vote(task, name, letter, "high" if right else "low", gold=equal, first=first))
    return votes


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        ("careful", WorkerKind.CAREFUL),
        ("left", WorkerKind.PREFERS_BY_HABIT),
        ("random", WorkerKind.ALL_BY_HABIT),
        ("A", WorkerKind.RATES_BY_HABIT),
        ("contrary", WorkerKind.CONTRARY_BY_HABIT),
    ],
)
def test_each_kind_of_worker_is_recognised(odd: str, kind: WorkerKind) -> None:
    votes = crowd(odd)
    model = worker_model(votes)
    assert model.kind("odd") is kind
    assert all(model.careful(f"good-{n}") > 0.9 for n in range(9))
    listed = {one.worker for one in quality(votes, rule=QualityRule(name="strict")) if one.review}
    assert listed == ({"odd"} if odd != "careful" else set())


def test_always_pressing_a_is_found_by_check_tasks_only() -> None:
    """On pairs that are nearly all clear nothing else tells this worker from a careful one."""
    assert worker_model(crowd("A", checks=False)).careful("odd") > 0.3
    assert worker_model(crowd("A")).careful("odd") < 0.01
    rows = {one.worker: one for one in quality(crowd("A"), rule=QualityRule(name="strict"))}
    assert rows["odd"].flags == (Flag.CARELESS,)
    assert not any(one.flags or one.careful is not None for one in quality(crowd("A")))


def test_the_votes_of_who_presses_anything_weigh_nothing() -> None:
    votes = crowd("random")
    model = worker_model(votes)
    (bad,) = [one for one in votes if one.worker == "odd" and one.pair_id == "film/7"]
    (good,) = [one for one in votes if one.worker == "good-3" and one.pair_id == "film/7"]
    against = {"rating": "C", "preferred": "low"}
    prior = model.shares["color"][0]
    assert model.clear_by([bad.model_copy(update=against)]) == pytest.approx(prior, abs=0.02)
    assert model.clear_by([good.model_copy(update=against)]) < 0.3
    assert model.clear_by([]) == pytest.approx(PRIOR_STATES[0])


def test_a_repeated_pair_answered_the_other_way_round_makes_doubtful() -> None:
    def after(second: SideWord) -> float:
        votes = crowd("careful", checks=False)
        again = vote(check_id("film/3", Check.AGAIN), "odd", "A", second, gold=True)
        return worker_model([*votes, again], learn=False).careful("odd")

    one = vote(check_id("film/3", Check.AGAIN), "odd", gold=True)
    assert (one.judged, one.check, check_of("film/3~x")) == ("film/3", Check.AGAIN, ("film/3~x", None))
    assert after("low") < after("high")


def test_the_order_of_the_votes_decides_nothing() -> None:
    votes = crowd("random")
    one, other = worker_model(votes), worker_model(votes[::-1])
    assert {w: tuple(k) for w, k in one.kinds.items()} == {w: tuple(k) for w, k in other.kinds.items()}
    assert worker_model([]).kinds == {}
