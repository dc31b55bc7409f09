"""The commands on the filter and on workers, most on a release that a real build made."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import Store
from storage_schemas.votes import Standing, VotesStore
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import database_url, installation_key
from tasks.votes.filter import FilterRule, FilterVerdict, retention
from tests.slvmeval.cli.running import Run, lacks
from tests.tasks.publish.judging import build_wide
from tests.tasks.votes.test_release_votes import people_of
from tests.tasks.votes.voting import vote, votes_on

#: Ratings of the six pairs, in the release's order.
RATINGS = ("AAAAA", "AAABB", "AAAAC", "ABBBB", "AAAAB", "AAA")


@pytest.fixture
def release(judged_store: Path) -> Release:
    newest = Release.open(Store.open(judged_store))
    assert len(newest.pairs()) == len(RATINGS)
    return newest


@pytest.fixture
def voted(release: Release) -> Release:
    files = VotesStore(release.store)
    for record, letters in zip(release.pairs(), RATINGS, strict=True):
        more = {"source_id": record.source_id, "aspect": record.aspect, "release": release.name}
        files.add(votes_on(record.pair_id, letters, **more))
    return release


@pytest.fixture
def command(judged_store: Path, run: Run) -> Run:
    return lambda *words, **more: run(*words, "--store", judged_store, **more)


def test_excerpts_without_their_pair_are_named_with_what_to_do(
    voted: Release, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = voted.pairs()[:1]
    monkeypatch.setattr("tasks.votes.filter.excerpts_alone", lambda _: alone)
    out = command("annotate", "filter", voted.name, "--dry-run").out
    title = voted.source(alone[0].source_id).title
    assert "1 excerpt left out, because the pair with the whole film" in out
    assert f"({alone[0].aspect} of {title}): `slvmeval status` says why, `slvmeval build --retry`" in out
    values = command("annotate", "filter", voted.name, "--format", "json", code=3).json
    assert values["excerpts_alone"] == [alone[0].pair_id]


def test_filter_leads_from_votes_to_a_filtered_release_and_takes_another_rule(
    voted: Release, command: Run, tmp_path: Path
) -> None:
    filter_, filtered = ("annotate", "filter", voted.name), f"{voted.name}-filtered"
    total = command(*filter_, "--dry-run", "--campaign", "spring", "--format", "json").json[-1]
    assert (total["aspect"], total["final"], total["undecided"]) == ("all", 3, 1)
    assert "excluded by C" in command(*filter_, "--dry-run").out
    assert not (voted.store.root / "releases" / filtered).exists()
    # one pair is undecided
    ran = command(*filter_, code=3)
    assert f"release {filtered}, version 1: 3 of 6 pairs, written" in ran.out
    assert not ran.err
    assert "version 1: 3 of 6 pairs, unchanged since it was written" in command(*filter_, code=3).out
    assert "3 pairs read frame by frame, all good" in command("verify", filtered, "--deep", "--quiet").out
    recipe = tmp_path / "lenient.toml"
    rule = "[annotation]\nmost_c = 1\nworkers_per_pair = 3\n"
    recipe.write_text(f'base = "cpu-approx"\nname = "lenient"\n{rule}')
    values = command(*filter_, "--recipe", recipe, "--as", "lenient", "--format", "json").json
    assert (values["release"], values["retention"][-1]["final"]) == ("lenient", 5)
    assert values["rule"]["most_c"] == 1
    last = voted.pairs()[-1]
    more = {"source_id": last.source_id, "aspect": last.aspect}
    VotesStore(voted.store).add([vote(last.pair_id, name, **more) for name in ("late-1", "late-2")])
    values = command(*filter_, "--format", "json").json
    assert (values["version"], values["new"]) == (2, True)
    counts = {"initial": 6, "excluded_c": 1, "excluded_a": 1, "excluded_unclear": 0, "undecided": 0}
    counts |= {"final": 4, "gold": 0, "kept_gold": 0}
    assert values["retention"][-1] == {"aspect": "all", **counts, "rate": 4 / 6}


def test_build_resumes_with_the_unfiltered_release(voted: Release, command: Run, judged_store: Path) -> None:
    command("annotate", "filter", voted.name, code=3)
    videos = judged_store.parent / "videos"
    videos.mkdir()
    (videos / "new.mp4").write_bytes(b"no video at all")
    recipe = judged_store.parent / "recipe.json"
    recipe.write_text(json.dumps(voted.recipe))
    build = ("build", "--sources", f"folder:{videos}", "--recipe", recipe, "--direct", "--quiet")
    refusal = command(*build, f"{voted.name}-filtered", code=1).err
    assert f"was filtered from {voted.name}: build {voted.name}, and filter it again" in refusal
    # the old sources are gone: all their pairs remain, including those that people excluded
    command(*build, voted.name, code=3)
    after = Release.open(voted.store, voted.name)
    assert (after.version, after.info["extends"]) == (voted.version + 1, voted.version)
    assert after.pairs() == voted.pairs()
    values = command("annotate", "filter", voted.name, "--format", "json", code=3).json
    assert values["retention"][-1]["final"] == 3


def test_annotate_reports_what_cannot_be(release: Release, command: Run) -> None:
    for words, message in (
        (("filter",), "there are no votes on release"),
        (("filter", "--dry-run", "--campaign", "autumn"), "there are no votes of campaign 'autumn'"),
        (("workers", "autumn"), "there are no votes of campaign 'autumn'"),
        (("workers", "autumn", "ann", "excluded", "--note", "why"), "there is no campaign 'autumn'"),
        (("workers", "autumn", "ann", "cleared", "--note", " "), "give the reason with --note"),
    ):
        ran = command("annotate", *words, code=1)
        assert not ran.out
        assert message in ran.err
    said = command("annotate", "workers", "autumn", "ann", "excluded", code=2).error
    assert "--note: give the reason" in said


def test_workers_are_listed_to_review_and_decided_on(release: Release, command: Run, tmp_path: Path) -> None:
    files = VotesStore(release.store)
    # twelve pairs of five workers, the last of whom disagrees with all others and is wrong
    for number in range(12):
        pair = f"film/{number}"
        files.add([*(vote(pair, f"{n}{n}good", "A") for n in range(4)), vote(pair, "99bad", "C", "low")])
    out = command("annotate", "workers", "spring").out
    assert not lacks(out, "1 of 5 workers", "99bad", "disagrees, inaccurate", "to review")
    assert "00good" not in out
    one = command("annotate", "workers", "spring", "00").out
    assert ("00good" in one, "99bad" in one) == (True, False)
    assert "the prefix 'zz'" in command("annotate", "workers", "spring", "zz", code=1).err
    values = command("annotate", "workers", "--format", "json").json
    first = values["workers"][0]
    assert (first["worker"], first["accuracy"], len(values["workers"])) == ("99bad", 0.0, 5)
    assert first["alpha"] < 0
    assert values["rules"]["spring"]["low_accuracy"] == 0.2
    # a campaign's own rule, if it is known
    assert values["rules"]["spring"]["name"] == "strict"
    files.keep_rules("spring", None, "paper")
    values = command("annotate", "workers", "--format", "json").json
    assert values["rules"]["spring"]["name"] == "paper"
    assert {one["careful"] for one in values["workers"]} == {None}
    # a few votes say nothing about how careful somebody is
    rule = tmp_path / "rule.toml"
    for least, printed in ((12, 1), (13, 0)):
        rule.write_text(f'name = "strict"\ndoubt_least_votes = {least}\n')
        out = command("annotate", "workers", "spring", "00", "--rule", rule).out
        (row,) = (line for line in out.splitlines() if "00good" in line)
        assert len(re.findall(r"\d\.\d\d", row)) == 1 + printed, "alpha, and the model's estimate"
    values = command("annotate", "workers", "--format", "json", "--rule", "strict").json
    assert None not in {one["careful"] for one in values["workers"]}
    # thresholds can be others
    rule.write_text("flags_for_review = 3\nlow_least_votes = 20\n")
    out = command("annotate", "workers", "--rule", rule, "--all").out
    assert not lacks(out, "0 to review", "5 of 5 workers")
    assert "inaccurate" not in out
    rule.write_text("fast_share = 2")
    assert "fast_share" in command("annotate", "workers", "--rule", rule, code=1).err
    given = ("--note", "C everywhere", "--by", "Dr. Kim")
    out = command("annotate", "workers", "spring", "99", "excluded", *given).out
    assert "worker 99bad is excluded, decided by Dr. Kim: C everywhere" in out
    (row,) = files.decisions()
    said = (row.worker, row.decision, row.note, row.by)
    assert said == ("99bad", Standing.EXCLUDED, "C everywhere", "Dr. Kim")
    out = command("annotate", "workers").out
    assert not lacks(out, "excluded", "0 to review")
    command("annotate", "workers", "spring", "99bad", "cleared", "--note", "a mistake of ours")
    assert [row.decision for row in files.decisions()] == [Standing.EXCLUDED, Standing.CLEARED]
    said = command("annotate", "workers", "spring", "", "excluded", "--note", "x", code=1).err
    assert "0 of 5 workers" in said


def test_decision_reaches_the_desk_at_once(release: Release, command: Run) -> None:
    root = release.store.root
    with Desk.open(database_url(root), installation_key(root)) as desk:
        desk.organiser.publish(Campaign(name="spring", release=release.name, version=release.version), [])
        worker = desk.workers.enter("spring", "prolific", "somebody").worker
    words = ("annotate", "workers", "spring", worker[:10], "excluded", "--note", "asked to stop")
    assert worker in command(*words).out
    with Desk.open(database_url(root), installation_key(root)) as desk:
        (row,) = desk.decisions.read("spring")
    assert row.decision is Standing.EXCLUDED
    # collecting later gives the same row
    assert VotesStore(release.store).decisions() == [row]


@pytest.fixture
def with_gold(tmp_path: Path) -> Release:
    """A release of 8 pairs: the first is gold, the second was excluded, the others were kept."""
    release = build_wide(tmp_path, 4)
    votes = []
    for number, record in enumerate(release.pairs()):
        more = {"source_id": record.source_id, "aspect": record.aspect, "gold": number == 0}
        votes += votes_on(record.pair_id, "CCCCC" if number == 1 else "AAAAA", **more)
    VotesStore(release.store).add(votes)
    return release


@pytest.mark.parametrize("keep", [True, False])
def test_gold_pair_is_kept_by_the_rule_alone_and_is_not_in_the_rate(with_gold: Release, keep: bool) -> None:
    people = people_of(with_gold, rule=FilterRule(keep_gold=keep))
    gold, excluded, *kept = people.outcomes
    assert gold.verdict is (FilterVerdict.KEPT_GOLD if keep else FilterVerdict.EXCLUDED_GOLD)
    assert (gold.kept, gold.votes, excluded.kept) == (keep, 0, False)
    assert all(one.kept for one in kept)
    total = retention(people.outcomes)[-1]
    assert (total.initial, total.gold, total.kept_gold, total.undecided) == (8, 1, int(keep), 0)
    assert (total.final, total.rate) == (6 + keep, 6 / 7)


def test_gold_pair_is_undecided_only_where_another_campaign_asks(with_gold: Release, run: Run) -> None:
    filter_ = ("annotate", "filter", "--store", with_gold.store.root)
    printed = run(*filter_, "--format", "json").json
    assert printed["retention"][-1]["gold"] == 1
    assert len(Release.open(with_gold.store, printed["release"]).pairs()) == 7
    assert "gold" in run(*filter_, with_gold.name, "--dry-run").out
    first = with_gold.pairs()[0]
    more = {"source_id": first.source_id, "aspect": first.aspect, "campaign": "autumn"}
    VotesStore(with_gold.store).add(votes_on(first.pair_id, "CCCCC", **more))
    assert people_of(with_gold).outcomes[0].verdict is FilterVerdict.EXCLUDED_C


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


def test_controls_that_people_do_not_find_equal_leave_the_release(tmp_path: Path, run: Run) -> None:
    release = build_wide(tmp_path, 3, controls=True)
    filter_ = ("annotate", "filter", release.name, "--store", release.store.root)
    files = VotesStore(release.store)
    unequal, unsure, *equal = (record for record in release.pairs() if record.control)
    ratings = {record.pair_id: "CCCCC" for record in equal}
    ratings |= {unequal.pair_id: "BBBBB", unsure.pair_id: "CC"}

    def cast(record: PairRecord, letters: str) -> None:
        more = {"source_id": record.source_id, "aspect": record.aspect, "control": record.control}
        files.add(votes_on(record.pair_id, letters, **more))

    def filtered() -> tuple[str, set[str]]:
        printed = run(*filter_, code=(0, 3)).text
        kept = Release.open(release.store, f"{release.name}-filtered").pairs()
        return printed, {record.pair_id for record in kept}

    for record in release.pairs():
        cast(record, ratings.get(record.pair_id, "AAAAA"))
    said, kept = filtered()
    assert f"controls: {len(equal)} found equal; 1 not found equal and left out; 1 undecided, with" in said
    everything = {record.pair_id for record in release.pairs()}
    assert kept == everything - {unequal.pair_id, unsure.pair_id}
    # once it has its votes it is in the next version, and pairs stay whatever their controls
    cast(unsure, "CCCCC")
    said, kept = filtered()
    assert f"controls: {len(equal) + 1} found equal; 1 not found equal and left out" in said
    assert kept == everything - {unequal.pair_id}
