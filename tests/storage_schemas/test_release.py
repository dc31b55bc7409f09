from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.commit import set_commit_hook
from storage_schemas.errors import IntegrityError, Reason, StoreError, UserInputError
from storage_schemas.release import Release, release_names, release_versions
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.store import FRAMES, Store
from tasks.publish.release import write_release
from tasks.recipe import BUILT_IN
from tests.resealed import reseal
from tests.storage_schemas.written_store import COUNT, write_store

RECIPE = BUILT_IN["cpu-approx"]


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    yield
    set_commit_hook(None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one release that has one version of one pair."""
    write_store(tmp_path / "store")
    return Store.open(tmp_path / "store")


def write(store: Store, name: str, planned: int) -> tuple[Release, bool]:
    return write_release(store, name, RECIPE, [], [], [], [], {"aesthetics": planned})


def test_the_only_release_and_its_newest_version_are_the_default(store: Store) -> None:
    assert (Release.open(store).name, Release.open(store).version) == ("main", 1)
    write(store, "main", 1)
    assert release_versions(store, "main") == [1, 2]
    assert Release.open(store).version == 2
    assert Release.open(store, "main", 1).version == 1


def test_versions_count_as_numbers(store: Store) -> None:
    for planned in range(10):
        write(store, "long", planned)
    assert release_versions(store, "long") == list(range(1, 11))
    assert Release.open(store, "long").version == 10


def test_an_incomplete_version_does_not_count(store: Store) -> None:
    release, _ = write(store, "main", 1)
    (release.path / "manifest.json").unlink()
    (store.versions("main") / "notes").mkdir()
    assert Release.open(store).version == 1


def test_what_is_missing_is_answered_with_what_there_is(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match=r"no release mian .*the releases main\)"):
        Release.open(store, "mian")
    with pytest.raises(UserInputError, match=r"no release main version 7 .*versions 1\)"):
        Release.open(store, "main", 7)
    write(store, "other", 1)
    with pytest.raises(UserInputError, match="has these releases: main, other"):
        Release.open(store)
    assert release_names(store) == ["main", "other"]
    empty = Store.create(tmp_path / "empty")
    with pytest.raises(UserInputError, match="has no release yet: slvmeval build"):
        Release.open(empty)
    with pytest.raises(UserInputError, match="it has none"):
        Release.open(empty, "main")


def test_a_name_cannot_leave_the_store(store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.root / "releases" / "main", tmp_path / "outside")
    with pytest.raises(UserInputError, match="no release"):
        Release.open(store, "../../outside")


def test_a_release_of_another_schema_version_is_refused(store: Store) -> None:
    reseal(Release.open(store).path, schema_version=3)
    with pytest.raises(StoreError, match="has schema version 3, this program supports 1"):
        Release.open(store)


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


def test_unknown_pairs_and_sources_are_refused(store: Store) -> None:
    release = Release.open(store)
    with pytest.raises(UserInputError, match="0 pairs of release main"):
        release.pair("xyz")
    with pytest.raises(UserInputError, match="no source 'two'"):
        release.prompt("two")


def test_an_id_that_fits_more_than_one_pair_is_refused(store: Store) -> None:
    (record,) = Release.open(store).pairs()
    release = Release.open(store)
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
    assert release.summary() == {
        "color": {
            "planned": 3,
            "built": 0,
            "set_aside": 3,
            "reasons": {"nothing_found": 2, "too_short": 1},
        },
        "aesthetics": {"planned": 0, "built": 0, "set_aside": 0, "reasons": {}},
    }
    assert release.set_aside() == rows


def test_evicted_frames_are_said_so(store: Store) -> None:
    (manifest,) = store.manifests(FRAMES)
    store.remove(FRAMES, manifest.id)
    with pytest.raises(StoreError, match="If frames were evicted, run the build again"):
        Release.open(store).frames("one")


def test_a_changed_or_missing_table_is_found(store: Store) -> None:
    release = Release.open(store)
    release.check()
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


def test_the_same_content_is_no_new_version(store: Store) -> None:
    first, new = write(store, "other", 1)
    assert new
    again, new = write(store, "other", 1)
    assert not new
    assert again.version == first.version
    assert write(store, "other", 2)[0].version == 2


def test_a_number_that_another_build_takes_meanwhile_is_left_to_it(store: Store) -> None:
    def meanwhile(point: str) -> None:
        if point == "release:manifest_written":
            set_commit_hook(None)
            write(store, "race", 1)

    set_commit_hook(meanwhile)
    release, new = write(store, "race", 2)
    assert new
    assert release.version == 2
    assert release_versions(store, "race") == [1, 2]
    for version in (1, 2):
        Release.open(store, "race", version).check()
        assert Release.open(store, "race", version).info["planned"] == {"aesthetics": version}
        assert Release.open(store, "race", version).manifest.id == f"race/{version}"
    assert list(store.staging.iterdir()) == []


def _write_many(root: Path, barrier: Any, me: int) -> None:
    store = Store.open(root)
    for number in range(4):
        barrier.wait(timeout=60)
        write_release(store, "race", RECIPE, [], [], [], [], {"aesthetics": 10 * me + number})


def test_two_builds_create_their_versions_exclusively(store: Store) -> None:
    processes = multiprocessing.get_context("spawn")
    barrier = processes.Barrier(2)
    both = [processes.Process(target=_write_many, args=(store.root, barrier, me)) for me in (1, 2)]
    for process in both:
        process.start()
    for process in both:
        process.join(timeout=90)
    assert [process.exitcode for process in both] == [0, 0]
    assert release_versions(store, "race") == list(range(1, 9))
    result = [Release.open(store, "race", version) for version in range(1, 9)]
    for release in result:
        release.check()
    assert sorted(release.info["planned"]["aesthetics"] for release in result) == [
        *range(10, 14),
        *range(20, 24),
    ]
    assert list(store.staging.iterdir()) == []
