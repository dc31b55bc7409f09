"""Gold pairs have a verdict of their own: the filter waits for no votes on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_schemas.release import Release
from storage_schemas.votes import VotesStore
from tasks.votes.filter import FilterRule, FilterVerdict, retention
from tests.slvmeval.cli.running import Run
from tests.tasks.publish.judging import build_wide
from tests.tasks.votes.test_release_votes import people_of
from tests.tasks.votes.voting import vote


@pytest.fixture
def voted(tmp_path: Path) -> Release:
    """A release of 8 pairs: the first is gold, the second was excluded, the others were kept."""
    release = build_wide(tmp_path, 4)
    votes = []
    for number, record in enumerate(release.pairs()):
        more = {"source_id": record.source_id, "aspect": record.aspect, "gold": number == 0}
        rating = "C" if number == 1 else "A"
        votes += [vote(record.pair_id, f"w{place}", rating, **more) for place in range(5)]
    VotesStore(release.store).add(votes)
    return release


@pytest.mark.parametrize("keep", [True, False])
def test_gold_pair_is_kept_or_left_out_by_the_rule_and_is_not_in_the_rate(voted: Release, keep: bool) -> None:
    people = people_of(voted, rule=FilterRule(keep_gold=keep))
    gold, excluded, *kept = people.outcomes
    assert gold.verdict is (FilterVerdict.KEPT_GOLD if keep else FilterVerdict.EXCLUDED_GOLD)
    assert (gold.kept, gold.votes, excluded.kept) == (keep, 0, False)
    assert all(one.kept for one in kept)
    total = retention(people.outcomes)[-1]
    assert (total.initial, total.gold, total.kept_gold, total.undecided) == (8, 1, int(keep), 0)
    assert (total.final, total.rate) == (6 + keep, 6 / 7)


def test_gold_pair_of_one_campaign_is_decided_by_the_votes_of_another(voted: Release) -> None:
    first = voted.pairs()[0]
    more = {"source_id": first.source_id, "aspect": first.aspect, "campaign": "autumn"}
    VotesStore(voted.store).add([vote(first.pair_id, f"v{place}", "C", **more) for place in range(5)])
    assert people_of(voted).outcomes[0].verdict is FilterVerdict.EXCLUDED_C


def test_filter_with_gold_pairs_leaves_nothing_undecided(voted: Release, run: Run) -> None:
    printed = run("annotate", "filter", "--store", str(voted.store.root), "--format", "json", code=0).json
    assert printed["retention"][-1]["gold"] == 1
    assert len(Release.open(voted.store, printed["release"]).pairs()) == 7
    assert "gold" in run("annotate", "filter", voted.name, "--dry-run", "--store", str(voted.store.root)).out


def test_gold_pair_that_nobody_was_asked_about_leaves_nothing_undecided(tmp_path: Path, run: Run) -> None:
    """It is used for training only, or all workers were given other ones."""
    release = build_wide(tmp_path, 4)
    gold, *others = release.pairs()
    store = VotesStore(release.store)
    store.add(
        vote(one.pair_id, f"w{place}", "A", source_id=one.source_id, aspect=one.aspect)
        for one in others
        for place in range(5)
    )
    filter_ = ("annotate", "filter", release.name, "--store", str(release.store.root), "--format", "json")
    assert run(*filter_, code=3).json["retention"][-1]["undecided"] == 1
    store.keep_rules("spring", None, "paper", gold=[gold.pair_id])
    total = run(*filter_, code=0).json["retention"][-1]
    assert (total["gold"], total["kept_gold"], total["final"], total["undecided"]) == (1, 1, 8, 0)
