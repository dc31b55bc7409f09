"""A filtered release: a subset of the release it comes from, frozen, with votes that lead to nobody."""

from __future__ import annotations

import json
import shutil
from multiprocessing.pool import ThreadPool
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage_schemas.commit import set_commit_hook
from storage_schemas.errors import IntegrityError, UserInputError
from storage_schemas.gc import used_ids
from storage_schemas.parquet import read_dicts
from storage_schemas.release import Release, release_versions
from storage_schemas.store import Store
from storage_schemas.votes import Standing, Vote, VotesStore
from tasks.annotation.filtered_release import Filtered, write_filtered
from tasks.publish.export import export_release
from tasks.votes.filter import FilterRule, FilterVerdict, counting, pair_outcomes, retention
from tasks.votes.release_votes import ReleaseVotes, read_release_votes, rule_of
from tests.tasks.publish.conftest import Small
from tests.tasks.publish.judging import build_wide
from tests.tasks.votes.voting import decision, vote, vote_on

#: What people say of the eight pairs of the small release, in its order.
RATINGS = ("AAAAA", "AAABB", "AAAAC", "BBBBA", "AAAAA", "CCCCC", "AAA", "AAAAB")
KEPT = (0, 1, 4, 7)
SECRET = "worker-whose-id-is-secret"
TABLES = ("pairs", "edits", "degraded_clips", "sources", "clips")


@pytest.fixture
def parent(small: Small, tmp_path: Path) -> Release:
    shutil.copytree(small.store.root, tmp_path / "store")
    return Release.open(Store.open(tmp_path / "store"))


def said(release: Release, ratings: tuple[str, ...] = RATINGS) -> list[Vote]:
    return [
        vote_on(record, f"{SECRET}-{place}", letter, comment="call me at 0123")
        for record, letters in zip(release.pairs(), ratings, strict=True)
        for place, letter in enumerate(letters)
    ]


def people(release: Release, votes: list[Vote] | None = None) -> ReleaseVotes:
    VotesStore(release.store).add(said(release) if votes is None else votes)
    result = read_release_votes(release)
    assert result is not None
    return result


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def store(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store whose release is filtered once, and that nobody changes."""
    root = tmp_path_factory.mktemp("filtered") / "store"
    return Store.open(Path(shutil.copytree(small.store.root, root)))


@pytest.fixture(scope="module")
def before(store: Store) -> ReleaseVotes:
    return people(Release.open(store))


@pytest.fixture(scope="module")
def filtered(store: Store, before: ReleaseVotes) -> Release:
    result = write_filtered(Release.open(store), before)
    assert result.new
    assert result.release.name == "small-filtered"
    return result.release


def test_filtered_release_is_a_subset(small: Small, filtered: Release) -> None:
    parent = small.release
    assert filtered.version == 1
    wanted = [parent.pairs()[place] for place in KEPT]
    assert filtered.pairs() == wanted
    for name in TABLES:
        rows = list(read_dicts(parent.path / f"{name}.parquet"))
        some = list(read_dicts(filtered.path / f"{name}.parquet"))
        assert some, name
        assert all(row in rows for row in some), name
    for row in filtered.sources():
        assert filtered.clips(row.source_id) == parent.clips(row.source_id)
        assert filtered.prompt(row.source_id) == parent.prompt(row.source_id)
    clips = {s.degraded_clip for record in wanted for s in record.segments if s.degraded_clip is not None}
    assert {row.degraded_clip for row in filtered.degraded_clips()} == clips
    assert filtered.set_aside() == []
    assert all(counts["built"] == counts["planned"] for counts in filtered.summary().values())


def test_filtered_release_is_frozen_and_readable(parent: Release, tmp_path: Path) -> None:
    release = write_filtered(parent, people(parent)).release
    again = Release.open(Store.open(parent.store.root), release.name)
    again.check()
    assert again.info["filtered_from"] == {
        "name": parent.name,
        "version": parent.version,
        "checksum": parent.manifest.content_checksum,
    }
    assert {"votes.parquet", "filter.parquet", "recipe.json", "info.json"} <= set(again.manifest.files)
    assert rule_of(again) == FilterRule()
    assert used_ids(parent.store).pairs == {record.pair_id for record in parent.pairs()}
    # an erased worker changes no frozen version
    VotesStore(parent.store).erase("spring", f"{SECRET}-0")
    release.check()
    path = again.path / "votes.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(IntegrityError, match=r"votes\.parquet"):
        again.check()


def test_the_votes_in_it_lead_to_nobody(filtered: Release) -> None:
    for name, data in content(filtered.path).items():
        for word in (SECRET, "call me", "2026-03-02", "spring-"):
            assert word.encode() not in data, name
    rows = list(read_dicts(filtered.path / "votes.parquet"))
    assert len(rows) == len({row["vote_id"] for row in rows}) == sum(map(len, RATINGS))
    assert sorted({row["worker"] for row in rows}) == [f"w{n:04}" for n in range(1, 6)]
    assert {(row["total_s"], row["at"], row["comment"]) for row in rows} == {(100.0, "", "")}


def test_export_has_votes_only_when_asked(small: Small, filtered: Release, tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="annotate filter small"):
        export_release(small.store, small.release, tmp_path / "none", votes=True)
    assert not (tmp_path / "none").exists()
    exported = export_release(filtered.store, filtered, tmp_path / "export", votes=True)
    assert (exported.pairs, len(exported.left_out)) == (2, 1)
    pins = json.loads((tmp_path / "export" / "recipe.json").read_text())["pins"]
    assert [pin["pair_id"] for pin in pins] == [record.pair_id for record in filtered.pairs()]
    rows = pq.read_table(tmp_path / "export" / "data" / "votes.parquet").to_pylist()
    pairs = pq.read_table(tmp_path / "export" / "data" / "pairs.parquet")["pair_id"].to_pylist()
    letters = {record.pair_id: text for record, text in zip(small.release.pairs(), RATINGS, strict=True)}
    given = {pair: sorted(row["rating"] for row in rows if row["pair_id"] == pair) for pair in pairs}
    assert given == {pair: sorted(letters[pair]) for pair in pairs}
    assert len(rows) == sum(map(len, given.values()))
    for data in content(tmp_path / "export").values():
        assert SECRET.encode() not in data
        assert b"call me" not in data
    assert "- config_name: votes" in (tmp_path / "export" / "README.md").read_text()
    # without the option they go again
    export_release(filtered.store, filtered, tmp_path / "export")
    assert not (tmp_path / "export" / "data" / "votes.parquet").exists()
    assert "votes" not in (tmp_path / "export" / "README.md").read_text()


def test_filtered_release_has_what_people_said(before: ReleaseVotes, filtered: Release) -> None:
    after = read_release_votes(filtered)
    assert after is not None
    assert after.filtered
    assert (after.outcomes, after.kept) == (before.outcomes, before.kept)
    assert retention(after.outcomes) == retention(before.outcomes)
    answers, again = (
        sorted((row.pair_id, row.order, row.preferred) for row in one.judgements) for one in (before, after)
    )
    assert again == answers
    with pytest.raises(UserInputError, match="is already filtered: filter its parent small"):
        write_filtered(filtered, after)


def test_only_a_later_vote_makes_a_new_version_and_it_leaves_the_old(parent: Release) -> None:
    first = write_filtered(parent, people(parent)).release
    before, original = content(first.path), content(parent.path)
    again = write_filtered(Release.open(parent.store, parent.name), people(parent))
    assert (again.new, again.release.version) == (False, 1)
    assert content(first.path) == before
    late = [vote_on(parent.pairs()[6], f"late-{n}") for n in range(2)]
    second = write_filtered(parent, people(parent, late))
    assert (second.new, second.release.version) == (True, 2)
    assert len(second.release.pairs()) == len(KEPT) + 1
    assert content(first.path) == before
    assert content(parent.path) == original
    # who was taken out is in no later version
    VotesStore(parent.store).erase("spring", "late-1")
    third = write_filtered(parent, people(parent, []))
    assert (third.new, third.release.version, len(third.release.pairs())) == (True, 3, len(KEPT))


def test_the_rule_can_drop_excluded_workers(parent: Release) -> None:
    people(parent)
    VotesStore(parent.store).add_decisions([decision(f"{SECRET}-4", Standing.EXCLUDED)])
    paper = read_release_votes(parent)
    dropping = read_release_votes(parent, rule=FilterRule(drop_excluded=True, workers_per_pair=4))
    assert paper is not None
    assert dropping is not None
    assert [one.verdict for one in paper.outcomes].count(FilterVerdict.KEPT) == 4
    # without the fifth worker the third pair has no C any more
    assert dropping.outcomes[2].verdict is FilterVerdict.KEPT
    release = write_filtered(parent, dropping, "strict").release
    assert release.name == "strict"
    assert rule_of(release).drop_excluded
    assert len(list(read_dicts(release.path / "votes.parquet"))) == sum(min(len(r), 4) for r in RATINGS)


def test_campaigns_can_be_chosen(parent: Release) -> None:
    people(parent)
    other = [
        one.model_copy(update={"campaign": "autumn", "vote_id": f"x{one.vote_id}", "rating": "C"})
        for one in said(parent)
    ]
    VotesStore(parent.store).add(other)
    autumn, spring = read_release_votes(parent, ["autumn"]), read_release_votes(parent, ["spring"])
    assert autumn is not None
    assert spring is not None
    assert not any(autumn.kept.values())
    assert sum(spring.kept.values()) == 4
    with pytest.raises(UserInputError, match=r"no votes of campaign 'summer'.*autumn, spring"):
        read_release_votes(parent, ["summer"])


def test_without_votes_there_is_nothing_to_say(parent: Release) -> None:
    assert read_release_votes(parent) is None
    VotesStore(parent.store).add([vote("of-another-release", "ann")])
    assert read_release_votes(parent) is None


@pytest.mark.parametrize(
    ("ratings", "name", "message"),
    [
        (("C" * 5,) * 7 + ("AAA",), None, "no pair .* passed the filter: 1 of 8 pairs have fewer"),
        (RATINGS, "a/b", "not a valid release name"),
        (RATINGS, "..", "not a valid release name"),
        (RATINGS, "SELF", "needs a name other than"),
        (RATINGS, "other", "release other already exists and was built"),
    ],
)
def test_write_filtered_refuses_before_it_writes(
    parent: Release, ratings: tuple[str, ...], name: str | None, message: str
) -> None:
    shutil.copytree(parent.path, parent.store.versions("other") / "1")
    result = people(parent, said(parent, ratings))
    before = content(parent.store.root)
    with pytest.raises(UserInputError, match=message):
        write_filtered(parent, result, parent.name if name == "SELF" else name)
    assert content(parent.store.root) == before


def test_a_kill_leaves_all_or_nothing(parent: Release) -> None:
    result, name = people(parent), f"{parent.name}-filtered"
    for place in ("staged", "manifest_written", "renamed"):

        def kill(step: str, at: str = place) -> None:
            if step == f"release:{at}":
                raise KeyboardInterrupt

        set_commit_hook(kill)
        try:
            with pytest.raises(KeyboardInterrupt):
                write_filtered(parent, result)
        finally:
            set_commit_hook(None)
        assert release_versions(parent.store, name) == ([1] if place == "renamed" else [])
    after = write_filtered(parent, result)
    assert (after.release.version, after.new) == (1, False)
    after.release.check()


def test_four_at_once_make_one_version(parent: Release) -> None:
    result, start = people(parent), Barrier(4)

    def work(_: int) -> Filtered:
        start.wait(30)
        return write_filtered(parent, result)

    with ThreadPool(4) as pool:
        made = pool.map(work, range(4))
    assert sorted(one.new for one in made) == [False, False, False, True]
    assert release_versions(parent.store, f"{parent.name}-filtered") == [1]
    assert not list(parent.store.staging.iterdir())


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_wide(tmp_path_factory.mktemp("wide"), 4)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text("ABC", max_size=7), min_size=8, max_size=8),
    st.randoms(use_true_random=False),
    st.integers(0, 10**9),
)
def test_any_votes_give_the_pairs_kept(wide: Release, ratings: list[str], random: Any, number: int) -> None:
    votes = said(wide, tuple(ratings))
    random.shuffle(votes)
    rule = FilterRule()

    def result() -> ReleaseVotes:
        counted = counting(votes, [], rule)
        outcomes = pair_outcomes(wide.pairs(), counted, rule)
        return ReleaseVotes(rule, tuple(counted), tuple(outcomes), filtered=False)

    wanted = [
        record.pair_id
        for record, letters in zip(wide.pairs(), ratings, strict=True)
        if len(letters) >= 5 and "C" not in letters and letters.count("A") > letters.count("B")
    ]
    if not wanted:
        with pytest.raises(UserInputError, match="passed the filter"):
            write_filtered(wide, result(), f"f{number}")
        return
    first = write_filtered(wide, result(), f"f{number}")
    assert [record.pair_id for record in first.release.pairs()] == wanted
    first.release.check()
    random.shuffle(votes)
    assert not write_filtered(wide, result(), f"f{number}").new
