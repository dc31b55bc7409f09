"""The filter's rule, when votes are enough, what counts, and the retention table."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.pair import Excerpt
from storage_schemas.votes import Rating, Standing
from tasks.votes.filter import (
    TOTAL,
    FilterRule,
    FilterVerdict,
    PairOutcome,
    Retention,
    control_verdict,
    controls_in_words,
    controls_of,
    counting,
    excerpts_alone,
    pair_outcomes,
    retention,
    verdict,
    weighed_verdict,
)
from tasks.votes.stopping import enough, least_votes, most_votes, wanted_votes
from tests.tasks.publish.judging import build_wide
from tests.tasks.statistics.making import few
from tests.tasks.votes.voting import decision, vote, votes_on

PAPER = FilterRule()
ratings = st.lists(st.sampled_from(("A", "B", "C")), max_size=9)
rules = st.builds(
    FilterRule, workers_per_pair=st.integers(1, 6), most_c=st.integers(0, 2), least_lead=st.integers(-1, 3)
)


def test_all_21_ways_to_vote_of_five_workers() -> None:
    """The paper's rule: no C, and more A than B."""
    result = {"".join(some): verdict(some, PAPER) for some in combinations_with_replacement("ABC", 5)}
    remaining = {some for some, what in result.items() if what is FilterVerdict.KEPT}
    assert len(result) == 21
    assert remaining == {"AAAAA", "AAAAB", "AAABB"}
    no_lead = {some for some, what in result.items() if what is FilterVerdict.EXCLUDED_A}
    assert no_lead == {"AABBB", "ABBBB", "BBBBB"}
    assert all(what is FilterVerdict.EXCLUDED_C for some, what in result.items() if "C" in some)


@pytest.mark.parametrize(
    ("letters", "rule", "wanted"),
    [
        ("AAAA", {}, FilterVerdict.UNDECIDED),
        ("CCCC", {}, FilterVerdict.UNDECIDED),
        ("", {}, FilterVerdict.UNDECIDED),
        ("AAAAC", {"most_c": 1}, FilterVerdict.KEPT),
        ("AAACC", {"most_c": 1}, FilterVerdict.EXCLUDED_C),
        ("AABB", {"workers_per_pair": 4}, FilterVerdict.EXCLUDED_A),
        ("AABB", {"workers_per_pair": 4, "least_lead": 0}, FilterVerdict.KEPT),
        ("AAABB", {"least_lead": 2}, FilterVerdict.EXCLUDED_A),
        ("AAABBB", {}, FilterVerdict.EXCLUDED_A),
        ("AAAAAC", {}, FilterVerdict.EXCLUDED_C),
    ],
)
def test_the_rule_can_be_another(letters: Any, rule: dict[str, Any], wanted: FilterVerdict) -> None:
    assert verdict(letters, FilterRule(**rule)) is wanted


@few
@given(ratings, rules, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_more_a_never_loses_a_pair(
    some: list[Rating], rule: FilterRule, random: Any
) -> None:
    """One vote A more, or A in place of another letter; and a stricter rule keeps no more."""
    mixed = list(some)
    random.shuffle(mixed)
    assert verdict(mixed, rule) is verdict(some, rule)
    if verdict(some, rule) is FilterVerdict.KEPT:
        assert verdict([*some, "A"], rule) is FilterVerdict.KEPT
        for place in range(len(some)):
            assert verdict([*some[:place], "A", *some[place + 1 :]], rule) is FilterVerdict.KEPT
    if verdict([*some, "C"], rule) is FilterVerdict.KEPT:
        assert verdict([*some, "A"], rule) is FilterVerdict.KEPT
    stricter = rule.model_copy(update={"most_c": 0, "least_lead": rule.least_lead + 1})
    if verdict(some, stricter) is FilterVerdict.KEPT:
        assert verdict(some, rule) is FilterVerdict.KEPT


@pytest.mark.parametrize(
    ("usual", "least", "most"), [(1, 1, 3), (2, 2, 4), (3, 2, 5), (4, 2, 6), (5, 3, 7), (9, 7, 11)]
)
def test_clear_pair_needs_two_fewer_and_an_unclear_one_two_more(usual: int, least: int, most: int) -> None:
    assert (least_votes(usual), most_votes(usual)) == (least, most)
    assert enough(least, 0.99, usual)
    assert enough(least, 0.01, usual)
    assert enough(most, 0.5, usual)
    assert not enough(most - 1, 0.5, usual)
    rule = FilterRule(workers_per_pair=usual, until_certain=True)
    assert weighed_verdict(most - 1, 0.5, rule) is FilterVerdict.UNDECIDED
    assert weighed_verdict(most, 0.5, rule) is weighed_verdict(least, 0.99, rule) is FilterVerdict.KEPT
    for count, clear in ((most, 0.49), (least, 0.01)):
        assert weighed_verdict(count, clear, rule) is FilterVerdict.EXCLUDED_UNCLEAR


@given(st.integers(0, 12), st.floats(0, 1), st.integers(1, 9))
def test_a_pair_is_asked_for_one_more_vote_at_a_time(votes: int, clear: float, usual: int) -> None:
    wanted = wanted_votes(votes, clear, usual)
    assert (wanted == votes) == enough(votes, clear, usual)
    assert wanted == votes or wanted == max(votes + 1, least_votes(usual))
    assert wanted <= max(votes, most_votes(usual))


def test_gold_votes_decide_nothing_and_a_worker_counts_once_on_a_pair() -> None:
    some = [*votes_on("p", "AAAA"), vote("p", "x", "C", gold=True)]
    assert [one.worker for one in counting(some, [], PAPER)] == [f"worker{place}" for place in range(4)]
    early = vote("p", "ann", "A", campaign="spring", at="2026-03-01T12:00:00+00:00")
    late = vote("p", "ann", "C", campaign="autumn", at="2026-09-01T12:00:00+00:00")
    assert counting([late, early], [], PAPER) == counting([early, late], [], PAPER) == [early]


def test_votes_of_excluded_workers_stay_unless_the_rule_drops_them() -> None:
    some = votes_on("p", "AAAAC")
    out = [
        decision("worker4", Standing.CLEARED, "2026-03-01T00:00:00Z"),
        decision("worker4", Standing.EXCLUDED, "2026-03-02T00:00:00+09:00"),
    ]
    dropping = FilterRule(drop_excluded=True)
    assert counting(some, out, PAPER) == some
    assert counting(some, out, dropping) == some[:4]
    cleared = [*out, decision("worker4", Standing.CLEARED, "2026-03-05T00:00:00Z")]
    assert counting(some, cleared, dropping) == some
    elsewhere = [decision("worker4", Standing.EXCLUDED, campaign="autumn")]
    assert counting(some, elsewhere, dropping) == some


def test_outcomes_follow_the_release(tmp_path: Any) -> None:
    records = build_wide(tmp_path, 2).pairs()
    some = votes_on("of-another-release", "CCCCC")
    for record, letters in zip(records, ("AAABB", "AAAAC", "ABBBB", "AAA"), strict=True):
        some += votes_on(record.pair_id, letters, aspect=record.aspect)
    result = pair_outcomes(records, some, PAPER)
    assert [one.pair_id for one in result] == [record.pair_id for record in records]
    counts = [(one.a, one.b, one.c, one.votes) for one in result]
    assert counts == [(3, 2, 0, 5), (4, 0, 1, 5), (1, 4, 0, 5), (3, 0, 0, 3)]
    assert [one.kept for one in result] == [True, False, False, None]
    assert retention(result) == [
        Retention(records[0].aspect, 2, 1, 0, 0, 0, 1),
        Retention(records[2].aspect, 2, 0, 1, 0, 1, 0),
        Retention(TOTAL, 4, 1, 1, 0, 1, 1),
    ]


def test_the_rate_is_of_what_is_decided() -> None:
    def with_verdicts(*verdicts: FilterVerdict) -> list[PairOutcome]:
        return [PairOutcome(f"{n}{what}", "s", "color", what) for n, what in enumerate(verdicts)]

    half = with_verdicts(*[FilterVerdict.KEPT] * 3, FilterVerdict.EXCLUDED_C)
    open_ = with_verdicts(*[FilterVerdict.UNDECIDED] * 6)
    color, everything = retention([*half, *open_])
    assert (color.initial, color.undecided, color.rate) == (10, 6, 0.75)
    assert everything.rate == 0.75
    assert retention(open_)[0].rate is None
    assert [row.initial for row in retention([])] == [0]
    assert {(one.a, one.b, one.c, one.votes) for one in open_} == {(0, 0, 0, 0)}


@pytest.mark.parametrize(
    ("letters", "wanted"),
    [
        ("", FilterVerdict.KEPT_UNASKED),
        ("CCCC", FilterVerdict.UNDECIDED),
        ("CCCCC", FilterVerdict.KEPT),
        ("CCCBB", FilterVerdict.KEPT),
        ("CCBBB", FilterVerdict.EXCLUDED_UNEQUAL),
        ("AAAAA", FilterVerdict.EXCLUDED_UNEQUAL),
    ],
)
def test_a_control_passes_if_people_see_no_damage(letters: str, wanted: FilterVerdict) -> None:
    assert control_verdict(list(letters), PAPER) is wanted  # type: ignore[arg-type]


def test_a_control_is_decided_by_weighed_votes_too() -> None:
    weighed = FilterRule(until_certain=True)
    assert control_verdict(["C"] * 5, weighed, 0.01) is FilterVerdict.KEPT
    assert control_verdict(["A"] * 5, weighed, 0.99) is FilterVerdict.EXCLUDED_UNEQUAL
    # weak damage is not clear damage, and still damage
    assert control_verdict(["B"] * 5, weighed, 0.004) is FilterVerdict.EXCLUDED_UNEQUAL


def test_a_control_that_is_shown_and_has_too_few_votes_is_undecided() -> None:
    assert control_verdict([], PAPER) is FilterVerdict.KEPT_UNASKED
    assert control_verdict([], PAPER, shown=True) is FilterVerdict.UNDECIDED
    assert control_verdict([], FilterRule(until_certain=True), 0.1, shown=True) is FilterVerdict.UNDECIDED


def test_controls_without_votes_are_undecided_only_if_they_are_shown(tmp_path: Path) -> None:
    records = build_wide(tmp_path, 2, controls=True).pairs()
    shown, other, *_ = (record.pair_id for record in records if record.control)
    outcomes = pair_outcomes(records, [], PAPER, unanswered=[shown])
    found = {one.pair_id: one.verdict for one in outcomes}
    assert (found[shown], found[other]) == (FilterVerdict.UNDECIDED, FilterVerdict.KEPT_UNASKED)
    words = controls_in_words(controls_of(outcomes))
    assert words == "controls: 1 undecided, with too few votes, and left out; 3 not shown to people and kept"
    assert not controls_in_words(controls_of(one for one in outcomes if not one.control))


def test_excerpts_have_the_verdict_of_the_pair_with_their_damage(tmp_path: Path) -> None:
    records = build_wide(tmp_path, 1, severe=True).pairs()
    mine = [record for record in records if record.aspect == records[0].aspect]
    few, more = sorted(mine, key=lambda record: record.clips_degraded)[:2]
    whole = {"first_frame": 0, "frame_count": few.high_frames, "source_frames": few.high_frames}
    excerpt = few.model_copy(
        update={"pair_id": "e" * 64, "excerpt": Excerpt(share=1.0, damage_at=0.5, **whole)}
    )
    alone = excerpt.model_copy(update={"pair_id": "f" * 64, "strength": "another"})
    votes = [*votes_on(few.pair_id, "AAAAC"), *votes_on(more.pair_id, "AAAAA")]
    outcomes = pair_outcomes([excerpt, *records, alone], votes, PAPER)
    assert outcomes[0].verdict is FilterVerdict.EXCLUDED_C
    assert outcomes[-1].verdict is FilterVerdict.UNDECIDED
    assert [one.pair_id for one in outcomes if one.excerpt] == [excerpt.pair_id, alone.pair_id]
    assert retention(outcomes)[-1].initial == len(records)
    assert excerpts_alone([excerpt, *records, alone]) == [alone]


def test_controls_are_in_no_retention(tmp_path: Path) -> None:
    records = build_wide(tmp_path, 2, controls=True).pairs()
    control = next(record for record in records if record.control)
    votes = [
        one for record in records for one in votes_on(record.pair_id, "CCCCC" if record.control else "AAAAA")
    ]
    unasked = [one for one in votes if one.pair_id != control.pair_id]
    outcomes = {one.pair_id: one for one in pair_outcomes(records, unasked, PAPER)}
    assert outcomes[control.pair_id].verdict is FilterVerdict.KEPT_UNASKED
    assert all(one.kept for one in outcomes.values())
    assert [row.initial for row in retention(outcomes.values())] == [2, 2, 4]
