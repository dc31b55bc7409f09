"""The three indicators of worker quality: who is flagged, who is not, and who is listed for review."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import UserInputError
from storage_schemas.rng import keyed_rng
from storage_schemas.votes import Standing, Vote
from tasks.votes import quality as module
from tasks.votes.quality import Flag, QualityRule, WorkerQuality, evidence, find_quality_rule, quality
from tasks.votes.worker_model import KINDS, PRIOR_RATINGS, PRIOR_RIGHT, WorkerModel
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


def but(votes: list[Vote], worker: str, places: range = range(1000), **other: Any) -> list[Vote]:
    """Return the votes with another answer of a worker at these places among the worker's votes."""
    own = [one.vote_id for one in votes if one.worker == worker]
    changed = {id_ for place, id_ in enumerate(own) if place in places}
    return [one.model_copy(update=other) if one.vote_id in changed else one for one in votes]


def odd(votes: list[Vote], rule: QualityRule | None = None, **more: Any) -> WorkerQuality:
    return next(one for one in quality(votes, rule=rule, **more) if one.worker == "odd")


def test_a_careful_worker_has_no_flag() -> None:
    workers = quality(campaign())
    assert [one.worker for one in workers] == [*GOOD, "odd"]
    assert all(one.flags == () and not one.review for one in workers)
    assert all((one.votes, one.solvable, one.accuracy) == (PAIRS, PAIRS, 1.0) for one in workers)
    assert quality([]) == []


def test_worker_always_among_the_fastest_is_flagged() -> None:
    # 6 of 60 tasks are a tenth
    worker = odd(but(campaign(total_s=100.0), "odd", range(0, PAIRS, 2), total_s=8.0))
    assert (worker.timed, worker.fast, worker.flags) == (PAIRS, 6, (Flag.FAST,))
    assert not worker.review, "one flag is not several"


def test_time_is_relative_to_the_length_of_the_videos() -> None:
    """Short times on short pairs are not suspicious; the same time on a long pair is."""
    assert odd(campaign(total_s=10.0, pair_duration_s=40.0)).fast == 0
    assert odd(campaign(total_s=10.0)).fast == 0, "twelve of sixty at one pace are more than a tenth"
    assert odd(campaign(total_s=10.0), QualityRule(fast_share=0.2)).fast == PAIRS
    assert Flag.FAST not in odd(campaign(total_s=None)).flags, "a platform does not say times"
    assert Flag.FAST not in odd(campaign(total_s=1.0)[:15]).flags, "too few to compare with"


def test_each_vote_tells_what_it_counts_towards() -> None:
    some = but(campaign(rating="C", preferred="low", total_s=100.0), "odd", range(4), total_s=8.0)
    worker, told = odd(some), evidence(some, "odd", QualityRule())
    numbers = {
        Flag.FAST: worker.fast,
        Flag.DISAGREES: worker.disagreed,
        Flag.INACCURATE: worker.solvable - worker.solved,
        Flag.CARELESS: 0,
    }
    assert {flag: sum(flag in flags for flags in told.values()) for flag in numbers} == numbers
    assert (len(told), worker.fast) == (PAIRS, 4)
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


def test_worker_who_says_c_where_others_say_a_is_flagged() -> None:
    worker = odd(campaign(rating="C"))
    assert (worker.easy, worker.disagreed, worker.flags) == (PAIRS, PAIRS, (Flag.DISAGREES,))
    # B is only one step away
    assert odd(campaign(rating="B")).flags == ()
    assert odd(campaign(rating="B"), QualityRule(apart=1)).flags == (Flag.DISAGREES,)
    assert all(one.disagreed == 0 for one in quality(campaign(rating="C")) if one.worker != "odd")
    # pairs on which the others do not agree, or are too few, are not easy
    assert odd(but(campaign(rating="C"), "good-0", rating="B")).easy == 0
    three = [one for one in campaign(rating="C") if one.worker != "good-0"]
    assert odd(three).easy == 0, "three against one are not four of five"
    # and disagreeing twice is not persistent
    for count, flags in ((2, ()), (3, (Flag.DISAGREES,))):
        assert odd(but(campaign(), "odd", range(count), rating="C")).flags == flags


def test_worker_wrong_where_most_are_right_is_flagged() -> None:
    worker = odd(campaign(preferred="low"))
    assert (worker.solvable, worker.solved, worker.accuracy) == (PAIRS, 0, 0.0)
    assert worker.flags == (Flag.INACCURATE,)
    nine = odd(campaign(preferred="low")[:45])
    assert (nine.solvable, nine.flags) == (9, ()), "over many tasks only"
    hard = but(campaign(preferred="low"), "good-0", preferred="low")
    assert odd(hard).solvable == 0, "three of four others are under 80 %"
    # gold pairs are solvable whatever others say
    gold = [vote(f"film/{n}", "odd", preferred="low" if n else "high", gold=True) for n in range(10)]
    worker = odd(gold)
    assert (worker.gold, worker.gold_solved, worker.solvable, worker.solved) == (10, 1, 10, 1)
    assert worker.flags == (Flag.INACCURATE,)


def test_several_flags_are_for_a_person_to_look_at() -> None:
    bad = campaign(rating="C", preferred="low")
    workers = quality(bad)
    assert workers[0].worker == "odd"
    assert workers[0].flags == (Flag.DISAGREES, Flag.INACCURATE)
    assert [one.review for one in workers] == [True] + [False] * 4
    assert not odd(bad, QualityRule(flags_for_review=3)).review
    for standing in Standing:
        decided = odd(bad, decisions=[decision("odd", standing)])
        assert decided.flags and not decided.review, "somebody has looked"
        assert decided.excluded == (standing is Standing.EXCLUDED)


def test_campaigns_are_judged_apart() -> None:
    second = [
        one.model_copy(update={"campaign": "autumn", "vote_id": f"a-{one.vote_id}"}) for one in campaign()
    ]
    both = quality([*campaign(rating="C", preferred="low"), *second])
    workers = {(one.campaign, one.worker): one for one in both}
    assert workers["spring", "odd"].review
    assert not workers["autumn", "odd"].flags


def test_three_answers_at_random_in_a_hundred_pairs_are_noticed() -> None:
    """A worker who clicks at random, among workers who mostly notice the damage."""
    rng = keyed_rng("clicking")
    some = []
    for number in range(100):
        for n in range(4):
            rating, seconds = "A" if rng.random() < 0.95 else "B", float(rng.uniform(60, 400))
            some.append(vote(f"f/{number}", f"g{(number + n) % 9}", rating, total_s=seconds))
        rating, side = "ABC"[rng.integers(3)], ("high", "low")[rng.integers(2)]
        some.append(vote(f"f/{number}", "odd", rating, side, total_s=5.0))
    flagged = {one.worker: one.flags for one in quality(some, rule=QualityRule(fast_share=0.25)) if one.flags}
    assert flagged == {"odd": (Flag.FAST, Flag.DISAGREES)}


@few
@given(st.randoms(use_true_random=False))
def test_the_order_of_votes_does_not_matter(random: Any) -> None:
    some = campaign(rating="C", preferred="low", total_s=3.0)
    mixed = list(some)
    random.shuffle(mixed)
    assert quality(mixed) == quality(some)


def test_a_gold_pair_that_everybody_had_is_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    added_up, pairs = module._added_up, list[int]()

    def counted(votes: list[Vote]) -> object:
        pairs.append(len(votes))
        return added_up(votes)

    monkeypatch.setattr(module, "_added_up", counted)
    assert len(quality([vote("film/gold", f"worker-{number}", "A", gold=True) for number in range(50)])) == 50
    assert pairs == [50]


@pytest.mark.parametrize(
    ("fast", "rule", "flagged"),
    [
        (3, {"fast_of": 0.25}, True),
        (2, {"fast_of": 0.0}, False),
        (2, {"fast_of": 0.0, "fast_times": 2}, True),
        # six of twelve are half of them, five are not
        (6, {}, True),
        (5, {}, False),
    ],
)
def test_fast_tasks_flag_from_number_and_share_on(fast: int, rule: dict[str, Any], flagged: bool) -> None:
    worker = odd(but(campaign(), "odd", range(fast), total_s=8.0), QualityRule(**rule))
    assert (worker.fast, worker.flags) == (fast, (Flag.FAST,) if flagged else ())


def test_tasks_are_timed_from_twenty_of_an_aspect_on() -> None:
    some = [vote(f"film/{n}", "odd", total_s=10.0 + n) for n in range(20)]
    assert (odd(some).timed, odd(some).fast) == (20, 2)
    assert odd(some[:19]).timed == 0
    assert odd([*some[:19], vote("film/19", "odd", total_s=50.0, aspect="blur")]).timed == 0
    # videos without a length have no pace
    assert odd([*some, vote("film/20", "odd", pair_duration_s=0.0)]).timed == 20


@pytest.mark.parametrize(
    ("wrong", "rule", "flagged"),
    [
        (3, {}, True),
        (2, {}, False),
        (3, {"disagrees_of": 0.26}, False),
        (2, {"disagrees_times": 2, "disagrees_of": 0.1}, True),
    ],
)
def test_disagreements_flag_from_number_and_share(wrong: int, rule: dict[str, Any], flagged: bool) -> None:
    worker = odd(but(campaign(), "odd", range(wrong), rating="C"), QualityRule(**rule))
    assert (worker.easy, worker.disagreed, worker.flags) == (
        PAIRS, wrong, (Flag.DISAGREES,) if flagged else ()
    )  # fmt: skip


def test_a_pair_is_easy_with_just_enough_votes_and_just_enough_agreement() -> None:
    five = [vote("film/1", f"w{n}", letter) for n, letter in enumerate("AAAAC")]
    assert {one.easy for one in quality(five)} == {1}
    assert {one.easy for one in quality(five[1:], rule=QualityRule(easy_agreement=0.75))} == {0}
    four = QualityRule(easy_agreement=0.75, easy_least_votes=4)
    assert {one.easy for one in quality(five[1:], rule=four)} == {1}
    # 7 of 10 with a share that binary fractions do not hold exactly
    ten = [vote("film/1", f"w{n}", letter) for n, letter in enumerate("AAAAAAABBC")]
    rows = {one.worker: one for one in quality(ten, rule=QualityRule(easy_agreement=0.7))}
    assert {one.easy for one in rows.values()} == {1}
    assert {name for name, one in rows.items() if one.disagreed} == {"w9"}


@pytest.mark.parametrize(
    ("others", "rule", "solvable"),
    [
        ("hhh", {}, 1),
        ("hh", {}, 0),
        ("hh", {"others": 2}, 1),
        ("hhhhl", {}, 1),
        ("hhhl", {}, 0),
        ("hhhl", {"most_reach": 0.75}, 1),
    ],
)
def test_task_is_solvable_if_enough_solve_it(others: str, rule: dict[str, Any], solvable: int) -> None:
    sides = {"h": "high", "l": "low"}
    votes = [vote("film/1", f"w{n}", preferred=sides[side]) for n, side in enumerate(others)]
    for own in ("high", "low"):
        worker = odd([*votes, vote("film/1", "odd", preferred=own)], QualityRule(**rule))
        assert (worker.solvable, worker.solved) == (solvable, solvable * (own == "high"))
        assert worker.accuracy == (None if not solvable else float(own == "high"))


@pytest.mark.parametrize(
    ("solved", "tasks", "flagged"), [(2, 10, True), (3, 10, False), (0, 9, False), (3, 15, True)]
)
def test_low_accuracy_flags_at_threshold_from_enough_tasks_on(solved: int, tasks: int, flagged: bool) -> None:
    gold = [
        vote(f"film/{n}", "odd", preferred="high" if n < solved else "low", gold=True) for n in range(tasks)
    ]
    assert odd(gold).flags == ((Flag.INACCURATE,) if flagged else ())


def test_check_tasks_are_not_pairs_of_the_papers_indicators() -> None:
    votes = [vote(f"film/{n}~equal", name, gold=True) for n in range(12) for name in (*GOOD, "odd")]
    worker = odd(votes)
    assert (worker.votes, worker.easy, worker.solvable, worker.gold) == (12, 0, 0, 0)


@pytest.mark.parametrize(
    ("careful", "tasks", "listed"),
    [
        *((0.05, 7, False), (0.299, 8, True), (0.301, 8, False)),
        *((0.199, 9, False), (0.099, 9, True), (0.101, 9, False)),
    ],
)
def test_careless_workers_are_listed_at_the_threshold_and_from_enough_tasks_on(
    careful: float, tasks: int, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = np.array([careful, 0.0, 1 - careful, *[0.0] * (len(KINDS) - 3)])
    known = WorkerModel({"odd": kinds}, {}, PRIOR_RIGHT, PRIOR_RATINGS, {})
    monkeypatch.setattr(module, "worker_model", lambda votes, careless: known)
    votes = [vote(f"film/{n}", "odd") for n in range(tasks)]
    worker = odd(votes, QualityRule(name="strict"))
    assert (worker.review, worker.flags) == (listed, (Flag.CARELESS,) if listed else ())
    assert (worker.careful, worker.kind) == (pytest.approx(careful), KINDS[2])
    cleared = odd(votes, QualityRule(name="strict"), decisions=[decision("odd", Standing.CLEARED)])
    assert not cleared.review


def test_workers_are_in_the_order_of_review_flags_and_votes() -> None:
    some = campaign(rating="C", preferred="low")
    some += [vote("film/0", "busy"), *(vote(f"other/{n}", "busy") for n in range(20))]
    some += [vote("film/1", "b"), vote("film/1", "a")]
    assert [one.worker for one in quality(some)] == ["odd", "busy", *GOOD, "a", "b"]


def test_first_of_two_votes_on_a_pair_counts() -> None:
    twice = [vote("film/1", "odd", "A", vote_id="1"), vote("film/1", "odd", "C", vote_id="2")]
    assert odd(twice).votes == 1
    assert set(evidence(twice, "odd", QualityRule())) == {"1"}


def test_rules_are_named_or_read_from_a_file(tmp_path: Path) -> None:
    assert find_quality_rule("paper") == QualityRule()
    assert find_quality_rule("strict").name == "strict"
    path = tmp_path / "rule.toml"
    path.write_text("doubt = 0.8\n")
    assert find_quality_rule(str(path)) == QualityRule(doubt=0.8)
    for text, message in (
        ("doubt = 2", "rule .*rule.toml: doubt: "),
        ("doubts = 0.8", "rule .*: doubts: "),
        ("doubt =", "not valid TOML"),
    ):
        path.write_text(text)
        with pytest.raises(UserInputError, match=message):
            find_quality_rule(str(path))
    with pytest.raises(UserInputError, match="cannot be read: No such file"):
        find_quality_rule(str(tmp_path / "missing.toml"))


def test_control_makes_none_right_or_wrong() -> None:
    votes = campaign(preferred="low", rating="A")
    pair = odd(votes)
    control = odd([one.model_copy(update={"control": True}) for one in votes])
    assert (pair.solvable, pair.solved, Flag.INACCURATE in pair.flags) == (PAIRS, 0, True)
    assert (control.solvable, control.solved, control.flags) == (0, 0, ())
    # a worker who sees damage where others see none disagrees on a control, too
    apart = odd([one.model_copy(update={"control": True}) for one in campaign(rating="C")])
    assert Flag.DISAGREES in apart.flags
