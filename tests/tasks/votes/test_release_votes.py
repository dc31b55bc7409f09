"""People as an evaluator: five answers on a pair are one unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import IntegrityError
from storage_schemas.release import Release
from storage_schemas.votes import Check, Rating, Vote, VotesStore, check_id
from tasks.statistics.cells import cell_of
from tasks.statistics.trials import TrialPair, trials_of
from tasks.votes.filter import FilterRule, FilterVerdict
from tasks.votes.release_votes import HUMAN, ReleaseVotes, human_judgements, read_release_votes
from tests.tasks.publish.judging import build_wide
from tests.tasks.votes.voting import vote, vote_on


def some_votes() -> list[Vote]:
    """Ten pairs with five workers each; on pair n, n of them are wrong, at most five."""
    return [
        vote(f"film{n}/a", f"w{'x' * place}", preferred="low" if place < min(n, 5) else "high")
        for n in range(10)
        for place in range(5)
    ]


def test_five_answers_are_one_unit_and_n_is_pairs() -> None:
    pairs = [TrialPair(f"film{n}/a", f"film{n}", "color", 100.0 + n) for n in range(10)]
    trials = trials_of(human_judgements(some_votes()), pairs)
    cell = cell_of(trials)
    assert (cell.pairs, cell.n, cell.requests, cell.failed) == (10, 10, 50, 0)
    assert cell.accuracy == (5 + 4 + 3 + 2 + 1) / 50
    assert cell.paper is not None
    half = (cell.paper.high - cell.paper.low) / 2
    assert round(half, 4) == round(1.96 * (0.3 * 0.7 / 10) ** 0.5, 4)


def test_rows_say_what_was_seen_first_and_chosen() -> None:
    (row,) = human_judgements([vote("p", "ann", first="low", preferred="low", comment="my phone is 0123")])
    assert (row.evaluator, row.order, row.choice, row.preferred) == (HUMAN, "low_first", "first", "low")
    (row,) = human_judgements([vote("p", "ann", first="high", preferred="low")])
    assert (row.order, row.choice, row.preferred) == ("high_first", "second", "low")
    assert row.answered
    assert row.seconds == 40.0
    assert row.cost_usd is None
    assert "phone" not in row.model_dump_json()
    assert "ann" not in row.model_dump_json()


def test_rows_do_not_depend_on_the_order_of_votes() -> None:
    some = some_votes()
    assert human_judgements(reversed(some)) == human_judgements(some)
    rows = human_judgements(some)
    assert len({row.key for row in rows}) == len(rows)
    assert sorted({row.repeat for row in rows}) == [0, 1, 2, 3, 4]


def people_of(release: Release, *given: Any, **more: Any) -> ReleaseVotes:
    result = read_release_votes(release, *given, **more)
    assert result is not None
    return result


CERTAIN = {"until_certain": True, "workers_per_pair": 5, "drop_excluded": True}


@pytest.fixture
def voted(tmp_path: Path) -> Release:
    """A release of 12 pairs; three workers agree on each, two answer by habit."""
    release = build_wide(tmp_path, 6)
    votes = []
    for number, record in enumerate(release.pairs()):
        clear = number % 3 != 2
        rated: Rating = "A" if clear else "C"
        for place, worker in enumerate(("ann", "bob", "cleo")):
            high = "high" if (number + place) % 2 else "low"
            preferred = "high" if clear or (number // 3 + place) % 2 else "low"
            votes.append(vote_on(record, worker, rated, preferred, first=high))
        for worker in ("lou", "max"):
            # the left video, and C
            left = "high" if number % 2 else "low"
            votes.append(vote_on(record, worker, "C", left, first=left))
        equal = record.model_copy(update={"pair_id": check_id(record.pair_id, Check.EQUAL)})
        votes.append(vote_on(equal, "ann", "C", "high" if number % 2 else "low", gold=True))
    VotesStore(release.store).add(votes)
    return release


def test_votes_are_weighed_where_the_campaign_says_so(voted: Release) -> None:
    counted = people_of(voted)
    assert {one.verdict for one in counted.outcomes} == {FilterVerdict.EXCLUDED_C}
    assert all(one.clear is None for one in counted.outcomes)
    VotesStore(voted.store).keep_rules("spring", CERTAIN, "strict")
    weighed = people_of(voted)
    assert weighed.rule == FilterRule(until_certain=True, drop_excluded=True)
    assert [one.kept for one in weighed.outcomes] == [number % 3 != 2 for number in range(12)]
    assert {one.verdict for one in weighed.outcomes} == {FilterVerdict.KEPT, FilterVerdict.EXCLUDED_UNCLEAR}
    assert len(weighed.votes) == 60, "check tasks tell about workers and are not votes"
    # a recipe's rule counts the same votes
    again = people_of(voted, rule=FilterRule(most_c=2))
    assert sum(one.kept or False for one in again.outcomes) == 8
    # two votes are too few to be weighed
    for worker in ("ann", "lou", "max"):
        VotesStore(voted.store).erase("spring", worker)
    assert {one.verdict for one in people_of(voted).outcomes} == {FilterVerdict.UNDECIDED}


def test_campaigns_that_differ_are_filtered_by_the_recipes_rule(voted: Release) -> None:
    store = VotesStore(voted.store)
    store.keep_rules("spring", CERTAIN, "strict")
    store.add([vote_on(voted.pairs()[0], "zoe", campaign="autumn")])
    both = people_of(voted)
    assert both.rule == FilterRule()
    alone = people_of(voted, ["spring"])
    assert alone.rule.until_certain
    store.keep_rules("spring", None, "strict")
    counted = people_of(voted, ["spring"])
    assert not counted.rule.until_certain
    # a damaged rule is not a rule
    store.keep_rules("spring", CERTAIN, "strict")
    (file,) = (store.path / "rules").iterdir()
    file.write_bytes(file.read_bytes().replace(b"true", b"True"))
    with pytest.raises(IntegrityError, match="is damaged"):
        read_release_votes(voted)
