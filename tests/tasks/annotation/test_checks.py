"""When check tasks come: among the first eight in full, at places that nobody can know, later by chance."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.votes import Check, check_id, check_of
from tasks.annotation.checks import (
    BETWEEN,
    DOUBTED,
    DOUBTED_EARLY,
    FIRST_CHECKS,
    FIRST_TASKS,
    check_due,
    check_tasks,
    checks_due,
)
from tasks.votes.worker_model import KINDS, PRIOR_RATINGS, PRIOR_RIGHT, WorkerKind, WorkerModel


def chance(worker: str, word: str) -> float:
    return int(sha256(f"{worker} {word}".encode()).hexdigest()[:8], 16) / (1 << 32)


@given(st.text(max_size=5))
def test_the_first_eight_contain_all_checks_but_never_begin_with_one(worker: str) -> None:
    dues = [check_due(n, 0.05, lambda word: chance(worker, word)) for n in range(FIRST_TASKS)]
    assert dues[0] is None
    assert Counter(due for due in dues if due) == Counter(FIRST_CHECKS)
    assert dues.index(Check.AGAIN) > BETWEEN


def test_places_differ_from_worker_to_worker_and_later_checks_keep_to_the_share() -> None:
    orders = {
        tuple(check_due(n, 0.05, lambda word, who=who: chance(f"w{who}", word)) for n in range(FIRST_TASKS))
        for who in range(50)
    }
    assert len(orders) > 30
    later = [check_due(n, 0.2, lambda word: chance("w", word)) for n in range(FIRST_TASKS, 1008)]
    assert 150 < sum(due is not None for due in later) < 250
    assert set(later) == {None, Check.EQUAL, Check.AGAIN, "gold"}
    assert {check_due(n, 0.0, lambda word: chance("w", word)) for n in range(50)} == {None}


def knowing(doubt: float, kind: WorkerKind) -> WorkerModel:
    """Return a model of one worker, careful or of this kind."""
    kinds = np.array([1 - doubt if one is WorkerKind.CAREFUL else 0.0 for one in KINDS])
    kinds[KINDS.index(kind)] = doubt
    return WorkerModel({"w": kinds}, {}, PRIOR_RIGHT, PRIOR_RATINGS, {})


def test_a_worker_in_doubt_has_the_checks_that_tell_most_until_the_doubt_is_gone() -> None:
    def dues(model: WorkerModel, share: float = 0.05, first: int = FIRST_TASKS) -> list[tuple[object, ...]]:
        numbers = range(first, first + 20)
        return [checks_due(n, share, lambda word: chance("w", word), model, "w") for n in numbers]

    lazy, random = (knowing(DOUBTED, kind) for kind in (WorkerKind.LAZY_LEFT, WorkerKind.ALL_BY_HABIT))
    assert {due[0] for due in dues(lazy)} == {Check.EQUAL}
    assert set(dues(random)) == {("gold", Check.AGAIN, Check.EQUAL)}
    usual = [check_due(n, 0.05, lambda word: chance("w", word)) for n in range(28)]
    for model in (knowing(DOUBTED / 2, WorkerKind.ALL_BY_HABIT), knowing(0.9, WorkerKind.KNOWS_CHECKS)):
        assert dues(model) == [() if due is None else (due,) for due in usual[FIRST_TASKS:]]
    # the first eight have their checks in any case, and the doubtful more
    early = [("gold", Check.AGAIN, Check.EQUAL) if due is None else (due,) for due in usual[:FIRST_TASKS]]
    sure = knowing(DOUBTED_EARLY, WorkerKind.ALL_BY_HABIT)
    assert dues(sure, first=0)[:FIRST_TASKS] == early
    assert dues(random, first=0)[:FIRST_TASKS] == [() if due is None else (due,) for due in usual[:8]]
    assert set(dues(random, share=0.0)) == {()}


def test_a_pair_is_repeated_once_and_not_at_once() -> None:
    pairs = [f"film/{n}" for n in range(6)]
    published = [check_id(pair, Check.AGAIN) for pair in pairs] + [check_id("film/9", Check.EQUAL), "gold/1"]
    had = [*pairs[:4], check_id("film/8", Check.EQUAL)]
    again = check_tasks(had, Check.AGAIN, published)
    assert [check_of(task)[0] for task in again] == pairs[:2], "the last three are too fresh"
    assert check_tasks([*had, again[0]], Check.AGAIN, published) == [
        check_id(pairs[1], Check.AGAIN),
        check_id(pairs[2], Check.AGAIN),
    ]
    assert check_tasks(had, Check.EQUAL, published) == [check_id("film/9", Check.EQUAL)]
    assert check_tasks([*had, "gold/1"], "gold", published) == []
