"""The worker model: exact where it can be computed by hand, and right about each kind of worker."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from storage_schemas.rng import keyed_rng
from storage_schemas.votes import Check, SideWord, Vote, check_id, check_of
from tasks.votes.haste import MAX_RATIO
from tasks.votes.quality import Flag, QualityRule, quality
from tasks.votes.worker_model import (
    CALIBRATED,
    CLEAR,
    KINDS,
    NONE,
    OBVIOUS,
    PRIOR_RATINGS,
    PRIOR_RIGHT,
    PRIOR_STATES,
    WorkerKind,
    worker_model,
)
from tests.tasks.votes.voting import vote

LETTERS = "ABC"
CARELESS_KINDS = (0.2, 0.05, 0.3, 0.05, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05)
#: Shares of the kinds among four workers of which one is careless.
PRIOR = dict(zip(KINDS, (0.75 * 0.8, 0.75 * 0.2, *(0.25 * share for share in CARELESS_KINDS)), strict=True))
CAREFUL = (WorkerKind.CAREFUL, WorkerKind.FAIR)


def chance_of(kind: WorkerKind, state: int, right: bool, letter: str, left: bool) -> float:
    """Return the probability of one answer, written down again from the description of the kinds."""
    looks = PRIOR_RIGHT[state] if right else 1 - PRIOR_RIGHT[state]
    contrary, pressed = 1 - looks, 0.9 if letter == "A" else 0.05
    rates = PRIOR_RATINGS[state][LETTERS.index(letter)]
    return {
        WorkerKind.CAREFUL: looks * rates,
        WorkerKind.RATES_BY_HABIT: looks / 3,
        WorkerKind.PREFERS_BY_HABIT: rates / 2,
        WorkerKind.ALL_BY_HABIT: 1 / 6,
        WorkerKind.CONTRARY: contrary * rates,
        WorkerKind.CONTRARY_BY_HABIT: contrary / 3,
        WorkerKind.FAIR: 0.8 * looks * rates + 0.2 / 6,
        WorkerKind.HALF: 0.3 * looks * rates + 0.7 / 6,
        WorkerKind.LAZY_LEFT: 0.3 * looks * rates + 0.7 * (0.95 if left else 0.05) * pressed,
        WorkerKind.LAZY_RIGHT: 0.3 * looks * rates + 0.7 * (0.05 if left else 0.95) * pressed,
        # of pairs of the release they know nothing
        WorkerKind.KNOWS_CHECKS: 1 / 6,
        WorkerKind.KNOWS_SIDES: (0.98 if right else 0.02) / 3,
    }[kind]


def test_one_pair_and_three_workers_are_exact() -> None:
    answers = [("high", "A"), ("low", "C"), ("high", "B")]
    votes = [vote("film/1", f"w{n}", letter, side) for n, (side, letter) in enumerate(answers)]
    model = worker_model(votes, careless=0.25, learn=False)
    states, careful, total = np.zeros(5), np.zeros(3), 0.0
    for state, kinds in product(range(3), product(KINDS, repeat=3)):
        chance = PRIOR_STATES[state]
        for kind, (side, letter) in zip(kinds, answers, strict=True):
            chance *= PRIOR[kind] * chance_of(kind, state, side == "high", letter, side == votes[0].first)
        total += chance
        states[state] += chance
        careful += chance * np.array([kind in CAREFUL for kind in kinds])
    assert model.states["film/1"] == pytest.approx(states / total, abs=1e-9)
    assert [model.careful(f"w{n}") for n in range(3)] == pytest.approx(careful / total, abs=1e-9)


def test_a_rating_of_two_equal_videos_is_judged_by_what_is_known() -> None:
    (one,) = [vote(check_id("film/1", Check.EQUAL), "w", "A", gold=True)]
    model = worker_model([one], careless=0.5, learn=False)
    # damage where there is none: 0.03 of careful workers, a third of those who press anything
    seen, pressed = 0.5 * 0.03, 1 / 6
    weights = np.array(
        [
            0.8 * seen,
            0.2 * (0.8 * seen + 0.2 * pressed),
            0.2 * pressed,
            0.05 * seen,
            0.3 * pressed,
            0.05 * seen,
            0.1 * pressed,
            0.1 * (0.3 * seen + 0.7 * pressed),
            0.05 * (0.3 * seen + 0.7 * 0.95 * 0.9),
            0.05 * (0.3 * seen + 0.7 * 0.05 * 0.9),
            0.05 * seen,
            0.05 * seen,
        ]
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
    assert model.careful("odd") < 0.01
    assert all(model.careful(f"good-{n}") > 0.8 for n in range(9))
    listed = {one.worker for one in quality(votes, rule=QualityRule(name="strict")) if one.review}
    assert listed == {"odd"}


def test_a_careful_worker_is_one() -> None:
    votes = crowd("careful")
    assert worker_model(votes).careful("odd") > 0.8
    assert not any(one.review for one in quality(votes, rule=QualityRule(name="strict")))


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
    odds = CALIBRATED * model.shares["color"][0] / (1 - model.shares["color"][0])
    prior = odds / (1 + odds)
    assert model.clear_by([bad.model_copy(update=against)]) == pytest.approx(prior, abs=0.02)
    assert model.clear_by([good.model_copy(update=against)]) < 0.3
    assert model.clear_by([]) == pytest.approx(PRIOR_STATES[0])


def test_a_repeated_pair_answered_the_other_way_round_makes_doubtful() -> None:
    def after(second: SideWord) -> float:
        votes = [one for one in crowd("careful") if (one.worker, one.pair_id) != ("odd", "film/3")]
        votes.append(vote("film/3", "odd"))
        again = vote(check_id("film/3", Check.AGAIN), "odd", "A", second, gold=True)
        # not who knows the source without looking, who is consistent too
        return float(worker_model([*votes, again], learn=False).kinds["odd"][0])

    one = vote(check_id("film/3", Check.AGAIN), "odd", gold=True)
    assert (one.judged, one.check, check_of("film/3~x")) == ("film/3", Check.AGAIN, ("film/3~x", None))
    assert after("low") < after("high")


def test_the_order_of_the_votes_decides_nothing() -> None:
    votes = crowd("random")
    one, other = worker_model(votes), worker_model(votes[::-1])
    assert {w: tuple(k) for w, k in one.kinds.items()} == {w: tuple(k) for w, k in other.kinds.items()}
    assert worker_model([]).kinds == {}


def changed(after: int, of: int, seed: int = 0) -> list[Vote]:
    """Return votes of nine careful workers and one who presses left and A from a task on, a minute each."""
    rng = keyed_rng("changed", seed)
    votes = []
    for number, name in product(range(of), [*(f"good-{n}" for n in range(9)), "odd"]):
        equal = number % 5 == 4
        first: SideWord = "high" if rng.random() < 0.5 else "low"
        right = rng.random() < (0.5 if equal else 0.95)
        letter = "C" if equal else "A"
        if name == "odd" and number >= after:
            right, letter = first == "high", "A"
        task = check_id(f"film/{number}", Check.EQUAL) if equal else f"film/{number}"
        at = f"2026-03-02T09:{number:02}:00+00:00"
        side = "high" if right else "low"
        votes.append(vote(task, name, letter, side, gold=equal, first=first, at=at))
    return votes


@pytest.mark.parametrize("after", [10, 25])
def test_a_worker_who_becomes_careless_is_found_within_ten_tasks(after: int) -> None:
    votes = changed(after, after + 10)
    model = worker_model(votes)
    assert model.careful("odd") < 0.05
    assert all(model.careful(f"good-{n}") > 0.5 for n in range(9))
    until, before = model.before["odd"]
    assert abs(int(until[14:16]) - (after - 1)) <= 4
    assert before[:2].sum() > 0.8
    # the votes before the change weigh like those of others
    (early,) = [one for one in votes if (one.worker, one.pair_id) == ("odd", "film/2")]
    late = early.model_copy(update={"at": votes[-1].at})
    against = {"rating": "C", "preferred": "low"}
    was = [model.clear_by([one.model_copy(update=against)]) for one in (early, late)]
    assert was[0] < was[1] - 0.2


def test_nobody_changes_between_votes_of_the_same_time() -> None:
    votes = [one.model_copy(update={"at": ""}) for one in changed(10, 20)]
    assert worker_model(votes).before == {}
    one_time = [one.model_copy(update={"at": "2026-03-02T09:00:00+00:00"}) for one in votes]
    assert worker_model(one_time).before == {}


def test_plain_data_keep_the_estimates_and_erased_workers_leave_no_trace() -> None:
    model = worker_model(changed(10, 20))
    again = type(model).from_plain(model.without_pairs())
    some = changed(10, 20)[150:160]
    assert again.clear_by(some) == pytest.approx(model.clear_by(some))
    assert again.before["odd"][0] == model.before["odd"][0]
    assert again.doubt("odd") == model.doubt("odd")
    left = again.without_workers({"good-1"})
    assert (set(left.kinds), "odd" in left.before, set(left.haste)) == ({"good-1"}, False, {"good-1"})


def test_check_tasks_that_tell_most_depend_on_how_a_worker_answers() -> None:
    lazy = worker_model(changed(10, 20)).told_by_checks("odd")
    random = worker_model(crowd("random")).told_by_checks("odd")
    # left and A are wrong about two equal videos, and right about half of the gold pairs
    assert lazy[NONE] > lazy[OBVIOUS] > 0
    assert random[OBVIOUS] > random[CLEAR] > random[NONE] > 0


def test_doubt_is_about_what_check_tasks_show_and_haste_raises_it() -> None:
    votes = crowd("careful")
    model = worker_model(votes)
    assert model.doubt("odd") == pytest.approx(1 - model.careful("odd"), abs=0.05)
    assert model.doubt("a new one") == 0
    hasty = replace(model, haste={"odd": MAX_RATIO})
    assert hasty.doubt("odd") > 3 * model.doubt("odd")
    assert hasty.careful("odd") == model.careful("odd"), "nobody is listed for haste"
    for right in (0.5, 1.0):
        cheat = worker_model(cheated(right))
        assert cheat.doubt("odd") < 0.05 < 0.9 < 1 - cheat.careful("odd")


def cheated(right: float) -> list[Vote]:
    """Return votes of nine careful workers and one who looks at check tasks only."""
    rng = keyed_rng("cheated", str(right))
    votes = []
    for number, name in product(range(40), [*(f"good-{n}" for n in range(9)), "odd"]):
        equal, clear = number % 5 == 4, number % 5 < 3
        letter = "C" if equal else "A" if clear else "B"
        high = rng.random() < (0.5 if equal else 0.95 if clear else 0.75)
        if name == "odd" and not equal:
            high, letter = rng.random() < right, "A" if right == 1 else LETTERS[rng.integers(3)]
        task = check_id(f"film/{number}", Check.EQUAL) if equal else f"film/{number}"
        first: SideWord = "high" if rng.random() < 0.5 else "low"
        votes.append(vote(task, name, letter, "high" if high else "low", gold=equal, first=first))
    return votes


@pytest.mark.parametrize(("right", "kind"), [(0.5, WorkerKind.KNOWS_CHECKS), (1.0, WorkerKind.KNOWS_SIDES)])
def test_cheaters_are_recognised_by_the_other_tasks(right: float, kind: WorkerKind) -> None:
    model = worker_model(cheated(right))
    assert model.kind("odd") is kind
    assert model.careful("odd") < 0.05
    assert all(model.careful(f"good-{n}") > 0.5 for n in range(9))
