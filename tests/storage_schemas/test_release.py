from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from storage_schemas.errors import IntegrityError, Reason, StoreError, UserInputError
from storage_schemas.release import Release, release_names, release_versions
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.store import FRAMES, PAIR, Store
from tasks.publish.release import write_release
from tasks.recipe import BUILT_IN
from tests.resealed import reseal
from tests.storage_schemas.together import together
from tests.storage_schemas.written_store import COUNT

RECIPE = BUILT_IN["cpu-approx"]


@pytest.fixture
def store(whole_store: Store) -> Store:
    return whole_store


def write(store: Store, name: str, planned: int) -> tuple[Release, bool]:
    return write_release(store, name, RECIPE, [], [], [], [], {"aesthetics": planned})


def test_the_newest_complete_version_of_the_only_release_is_the_default(store: Store) -> None:
    assert (Release.open(store).name, Release.open(store).version) == ("main", 1)
    release, _ = write(store, "main", 1)
    assert release_versions(store, "main") == [1, 2]
    assert Release.open(store).version == 2
    assert Release.open(store, "main", 1).version == 1
    (release.path / "manifest.json").unlink()
    (store.versions("main") / "notes").mkdir()
    assert Release.open(store).version == 1
    reseal(Release.open(store).path, schema_version=3)
    with pytest.raises(StoreError, match="has schema version 3, this program supports 1"):
        Release.open(store)


def test_versions_count_as_numbers_and_the_same_content_is_not_a_new_one(store: Store) -> None:
    for planned in range(10):
        assert write(store, "long", planned)[1]
    assert release_versions(store, "long") == list(range(1, 11))
    assert Release.open(store, "long").version == 10
    again, new = write(store, "long", 9)
    assert (again.version, new) == (10, False)


def test_what_is_missing_is_answered_with_what_there_is(store: Store, tmp_path: Path) -> None:
    write(store, "other", 1)
    assert release_names(store) == ["main", "other"]
    shutil.copytree(store.root / "releases" / "main", tmp_path / "outside")
    empty = Store.create(tmp_path / "empty")
    asked: list[tuple[Store, tuple[Any, ...], str]] = [
        (store, ("mian",), r"no release mian .*the releases main, other\)"),
        (store, ("main", 7), r"no release main version 7 .*versions 1\)"),
        (store, ("main@7",), r"no release main version 7 .*versions 1\)"),
        (store, ("main@x",), r"write NAME, or NAME@3"),
        (store, ("main@1", 1), r"write NAME, or NAME@3"),
        (store, (), "has these releases: main, other"),
        (store, ("../../outside",), "no release"),
        (empty, (), "has no release yet: `slvmeval build` or `slvmeval pull`"),
        (empty, ("main",), "it has none"),
    ]
    for there, arguments, said in asked:
        with pytest.raises(UserInputError, match=said):
            Release.open(there, *arguments)


def test_tables_and_frames_are_read(store: Store) -> None:
    release = Release.open(store)
    (record,) = release.pairs()
    assert release.pairs("aesthetics", "one") == [record]
    assert release.pairs("color") == release.pairs(source_id="two") == []
    assert release.pair(record.pair_id[:6]) == record
    assert [segment.kind for segment in record.segments] == ["source", "degraded", "gap"]
    assert release.prompt("one") == "A cat sleeps.\nA dog runs."
    assert [clip.clip for clip in release.clips("one")] == [0, 1]
    assert [row.degraded_clip for row in release.degraded_clips()] == [record.segments[1].degraded_clip]
    assert release.frames("one").count == COUNT
    assert release.recipe == {"name": "cpu-approx"}
    with pytest.raises(UserInputError, match="0 pairs of release main"):
        release.pair("xyz")
    with pytest.raises(UserInputError, match="no source 'two'"):
        release.prompt("two")
    other = record.model_copy(update={"pair_id": record.pair_id[:-1] + "_"})
    release.__dict__["_pairs"] = [record, other]
    with pytest.raises(UserInputError, match="2 pairs"):
        release.pair(record.pair_id[:10])
    assert release.pair(record.pair_id) == record


def test_the_summary_counts_every_planned_aspect(store: Store) -> None:
    rows = [
        SetAsideRow(source_id=id_, aspect="color", stage="degrade", reason=reason, message="m")
        for id_, reason in (("a", Reason.NOTHING_FOUND), ("b", Reason.NOTHING_FOUND), ("c", Reason.TOO_SHORT))
    ]
    rows.append(SetAsideRow(source_id="d", stage="ingest", reason=Reason.NOT_A_VIDEO, message="m"))
    planned = {"color": 3, "aesthetics": 0}
    release, _ = write_release(store, "other", RECIPE, [], [], [], rows, planned)
    reasons = {"nothing_found": 2, "too_short": 1}
    assert release.summary() == {
        "color": {"planned": 3, "built": 0, "set_aside": 3, "reasons": reasons},
        "aesthetics": {"planned": 0, "built": 0, "set_aside": 0, "reasons": {}},
    }
    assert release.set_aside() == rows


def test_missing_frames_and_a_changed_or_missing_table_are_found(store: Store) -> None:
    release = Release.open(store)
    release.check()
    (manifest,) = store.manifests(FRAMES)
    store.remove(FRAMES, manifest.id)
    with pytest.raises(StoreError, match="If frames were evicted, run the build again"):
        release.frames("one")
    path = release.path / "pairs.parquet"
    raw = bytearray(path.read_bytes())
    raw[10] ^= 1
    path.write_bytes(raw)
    with pytest.raises(IntegrityError, match=r"pairs\.parquet does not match its manifest"):
        release.check()
    path.write_bytes(b"")
    with pytest.raises(IntegrityError, match="is damaged"):
        release.pairs()
    path.unlink()
    with pytest.raises(StoreError, match=r"pairs\.parquet is missing"):
        release.pairs()
    (release.path / "info.json").write_text("{")
    with pytest.raises(IntegrityError, match=r"info\.json is damaged"):
        _ = release.info


def check_race(store: Store, planned: list[int]) -> None:
    """Check that each version is whole, with the plan of one build each."""
    versions = range(1, len(planned) + 1)
    assert release_versions(store, "race") == list(versions)
    releases = [Release.open(store, "race", version) for version in versions]
    for release in releases:
        release.check()
        assert release.manifest.id == f"race/{release.version}"
    assert sorted(release.info["planned"]["aesthetics"] for release in releases) == planned
    assert list(store.staging.iterdir()) == []


def test_a_manifest_of_something_else_is_damage(store: Store) -> None:
    """Although it is whole: that of an artifact."""
    (pair,) = store.manifests(PAIR)
    write(store, "main", 1)
    target = store.versions("main") / "2" / "manifest.json"
    shutil.copy(store.artifact_path(PAIR, pair.id) / "manifest.json", target)
    with pytest.raises(IntegrityError, match=f"has the manifest of pair {pair.id}"):
        Release.open(store)
    assert Release.open(store, version=1).version == 1


def test_taken_number(store: Store, commit_hook: Callable[[Callable[[str], None] | None], None]) -> None:
    def meanwhile(point: str) -> None:
        if point == "release:manifest_written":
            commit_hook(None)
            write(store, "race", 1)

    commit_hook(meanwhile)
    release, new = write(store, "race", 2)
    assert (new, release.version, release.info["planned"]) == (True, 2, {"aesthetics": 2})
    check_race(store, [1, 2])


def _write_many(barrier: Barrier, given: tuple[str, int]) -> None:
    for number in range(4):
        barrier.wait()
        write(Store.open(Path(given[0])), "race", given[1] + number)


def test_two_builds_create_their_versions_exclusively(store: Store) -> None:
    together((_write_many, (str(store.root), 10)), (_write_many, (str(store.root), 20)))
    check_race(store, [*range(10, 14), *range(20, 24)])
