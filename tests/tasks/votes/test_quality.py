"""The three indicators of worker quality: who is flagged, who is not, and who is listed for review."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.votes import Standing, Vote
from tasks.votes.quality import Flag, QualityRule, WorkerQuality, evidence, quality
from tests.tasks.statistics.making import few
from tests.tasks.votes.voting import decision, vote

PAIRS = 12
GOOD = tuple(f"good-{n}" for n in range(4))


def campaign(**bad: Any) -> list[Vote]:
    """Return votes of five workers on twelve pairs: four agree, and one gives these answers."""
    result = []
    for number in range(PAIRS):
        pair = f"film/{number}"
        result += [vote(pair, name, "A", total_s=100.0 + number + 7 * n) for n, name in enumerate(GOOD)]
        result.append(vote(pair, "odd", **bad))
    return result


def odd(votes: list[Vote], rule: QualityRule | None = None, **more: Any) -> WorkerQuality:
    return next(one for one in quality(votes, rule=rule, **more) if one.worker == "odd")


def test_a_careful_worker_has_no_flag() -> None:
    workers = quality(campaign())
    assert [one.worker for one in workers] == [*GOOD, "odd"]
    assert all(one.flags == () and not one.review for one in workers)
    assert all((one.votes, one.solvable, one.accuracy) == (PAIRS, PAIRS, 1.0) for one in workers)


def test_who_is_always_among_the_fastest_tenth_is_flagged() -> None:
    # 6 of 60 tasks are a tenth
    some = campaign(total_s=100.0)
    fast = [
        one.model_copy(update={"total_s": 8.0}) if one.worker == "odd" and i % 2 else one
        for i, one in enumerate(some)
    ]
    worker = odd(fast)
    assert (worker.timed, worker.fast, worker.flags) == (PAIRS, 6, (Flag.FAST,))
    assert not worker.review, "one flag is not several"


def test_time_is_relative_to_the_length_of_the_videos() -> None:
    """Short times on short pairs are not suspicious; the same time on a long pair is."""
    some = campaign(total_s=10.0, pair_duration_s=40.0)
    assert odd(some).fast == 0
    assert odd(campaign(total_s=10.0)).fast == 0, "twelve of sixty at one pace are more than a tenth"
    rule = QualityRule(fast_share=0.2)
    assert odd(campaign(total_s=10.0), rule).fast == PAIRS


def test_each_vote_tells_what_it_counts_towards() -> None:
    some = campaign(rating="C", preferred="low", total_s=100.0)
    some = [
        one.model_copy(update={"total_s": 8.0}) if one.worker == "odd" and i < 20 else one
        for i, one in enumerate(some)
    ]
    worker, told = odd(some), evidence(some, "odd", QualityRule())
    assert len(told) == PAIRS
    for flag, number in (
        (Flag.FAST, worker.fast),
        (Flag.DISAGREES, worker.disagreed),
        (Flag.INACCURATE, worker.solvable - worker.solved),
        (Flag.CARELESS, 0),
    ):
        assert sum(flag in flags for flags in told.values()) == number, flag
    assert worker.fast == 4
    assert set(evidence(some, "good-0", QualityRule(name="strict")).values()) == {()}


def test_failed_checks_count_towards_careless() -> None:
    checks = [
        vote("film/1", "odd", "A"),
        vote("film/1~again", "odd", "A", preferred="low"),
        vote("film/2~equal", "odd", "A"),
        vote("film/3~equal", "odd", "C", preferred="low"),
        vote("film/4", "odd", "A", preferred="low", gold=True),
    ]
    told = evidence(checks, "odd", QualityRule(name="strict"))
    careless = [one.pair_id for one in checks if Flag.CARELESS in told[one.vote_id]]
    assert careless == ["film/1~again", "film/2~equal", "film/4"]
    assert not any(Flag.CARELESS in flags for flags in evidence(checks, "odd", QualityRule()).values())


@pytest.mark.parametrize(
    ("votes", "why"),
    [
        (campaign(total_s=None), "a platform does not say times"),
        (campaign(total_s=1.0)[:15], "too few to compare with"),
    ],
)
def test_times_that_cannot_be_compared_flag_nobody(votes: list[Vote], why: str) -> None:
    assert Flag.FAST not in odd(votes).flags, why


def test_who_says_c_where_all_others_say_a_is_flagged() -> None:
    worker = odd(campaign(rating="C"))
    assert (worker.easy, worker.disagreed, worker.flags) == (PAIRS, PAIRS, (Flag.DISAGREES,))
    # B is only one step away
    assert odd(campaign(rating="B")).flags == ()
    assert odd(campaign(rating="B"), QualityRule(apart=1)).flags == (Flag.DISAGREES,)
    assert all(one.disagreed == 0 for one in quality(campaign(rating="C")) if one.worker != "odd")


def test_pairs_on_which_the_others_do_not_agree_are_not_easy() -> None:
    split = [
        one.model_copy(update={"rating": "B"}) if one.worker == "good-0" else one
        for one in campaign(rating="C")
    ]
    assert odd(split).easy == 0
    four = [one for one in campaign(rating="C") if one.worker != "good-0"]
    assert odd(four).easy == 0, "three against one are not four of five"


def test_disagreeing_twice_is_not_persistent() -> None:
    some = campaign()
    places = [place for place, one in enumerate(some) if one.worker == "odd"]
    for count, flags in ((2, ()), (3, (Flag.DISAGREES,))):
        for place in places[:count]:
            some[place] = some[place].model_copy(update={"rating": "C"})
        assert odd(some).flags == flags


def test_who_is_wrong_where_most_are_right_is_flagged() -> None:
    worker = odd(campaign(preferred="low"))
    assert (worker.solvable, worker.solved, worker.accuracy) == (PAIRS, 0, 0.0)
    assert worker.flags == (Flag.INACCURATE,)
    few_tasks = campaign(preferred="low")[:45]
    assert odd(few_tasks).solvable == 9, "over many tasks only"
    assert odd(few_tasks).flags == (), "over many tasks only"


def test_hard_tasks_say_nothing_of_a_worker() -> None:
    hard = [
        one.model_copy(update={"preferred": "low"}) if one.worker == "good-0" else one
        for one in campaign(preferred="low")
    ]
    assert odd(hard).solvable == 0, "three of four others are under 80 %"


def test_gold_pairs_are_solvable_whatever_others_say() -> None:
    gold = [vote(f"film/{n}", "odd", preferred="low" if n else "high", gold=True) for n in range(10)]
    worker = odd(gold)
    assert (worker.gold, worker.gold_solved, worker.solvable, worker.solved) == (10, 1, 10, 1)
    assert worker.flags == (Flag.INACCURATE,)


def test_several_flags_are_for_a_person_to_look_at() -> None:
    bad = campaign(rating="C", preferred="low")
    workers = quality(bad)
    assert workers[0].worker == "odd"
    assert workers[0].review
    assert workers[0].flags == (Flag.DISAGREES, Flag.INACCURATE)
    assert [one.review for one in workers[1:]] == [False] * 4
    assert not odd(bad, QualityRule(flags_for_review=3)).review
    for standing in Standing:
        decided = odd(bad, decisions=[decision("odd", standing)])
        assert decided.flags, "somebody has looked"
        assert not decided.review, "somebody has looked"
        assert decided.excluded == (standing is Standing.EXCLUDED)


def test_campaigns_are_judged_apart() -> None:
    first = campaign(rating="C", preferred="low")
    second = [
        one.model_copy(update={"campaign": "autumn", "vote_id": f"a-{one.vote_id}"}) for one in campaign()
    ]
    workers = {(one.campaign, one.worker): one for one in quality([*first, *second])}
    assert workers["spring", "odd"].review
    assert not workers["autumn", "odd"].flags


def test_three_answers_at_random_in_a_hundred_pairs_are_noticed() -> None:
    """A worker who clicks at random, among workers who mostly notice the damage."""
    from storage_schemas.rng import keyed_rng

    rng = keyed_rng("clicking")
    some = []
    for number in range(100):
        for n in range(4):
            rating = "A" if rng.random() < 0.95 else "B"
            some.append(
                vote(f"f/{number}", f"g{(number + n) % 9}", rating, total_s=float(rng.uniform(60, 400)))
            )
        some.append(
            vote(f"f/{number}", "odd", "ABC"[rng.integers(3)], ("high", "low")[rng.integers(2)], total_s=5.0)
        )
    flagged = {one.worker: one.flags for one in quality(some, rule=QualityRule(fast_share=0.25)) if one.flags}
    assert flagged == {"odd": (Flag.FAST, Flag.DISAGREES)}


@few
@given(st.randoms(use_true_random=False))
def test_the_order_of_votes_does_not_matter(random: Any) -> None:
    some = campaign(rating="C", preferred="low", total_s=3.0)
    mixed = list(some)
    random.shuffle(mixed)
    assert quality(mixed) == quality(some)


def test_a_gold_pair_that_everybody_had_is_added_up_once() -> None:
    votes = [vote("film/gold", f"worker-{number}", "A", gold=True) for number in range(4000)]
    began = time.process_time()
    assert len(quality(votes)) == 4000
    # comparing all pairs of workers would take seconds
    assert time.process_time() - began < 1


def test_no_votes_no_workers() -> None:
    assert quality([]) == []
