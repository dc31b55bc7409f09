from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from storage_schemas.commit import SCHEMA_VERSION
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.json_checksum import with_checksum
from storage_schemas.store import PAIR, Store, check_files, read_manifest
from tests.storage_schemas.together import kill_this_process, killed_in


def make(store: Store, number: int = 1) -> str:
    with store.stage(PAIR, {"n": number}) as staged:
        (staged.path / "a").mkdir()
        (staged.path / "a" / "pair.json").write_text("abc")
        (staged.path / "b.bin").write_bytes(bytes(10))
        staged.content_checksum = "sum"
        staged.content = {"aspect": "color"}
        staged.provenance = {"host": "here"}
    return next(manifest.id for manifest in store.manifests(PAIR) if manifest.consumes == {"n": number})


def test_what_is_staged_is_what_is_found(store: Store) -> None:
    assert not store.has(PAIR, "0" * 64)
    assert list(store.manifests(PAIR)) == []
    with pytest.raises(StoreError, match="no complete artifact"):
        store.manifest(PAIR, "0" * 64)
    id_ = make(store)
    manifest = store.manifest(PAIR, id_)
    assert (manifest.kind, manifest.content_checksum, manifest.content) == (PAIR, "sum", {"aspect": "color"})
    assert manifest.provenance == {"host": "here"}
    assert sorted(manifest.files) == ["a/pair.json", "b.bin"]
    assert manifest.bytes == 13
    check_files(store.artifact_path(PAIR, id_))


def test_a_store_is_made_where_nothing_but_hidden_files_is(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    with pytest.raises(StoreError, match="no store at"):
        Store.open(tmp_path)
    root.mkdir(parents=True)
    (root / ".DS_Store").write_text("")
    Store.create(root)
    assert Store.open(root).schema_version() == SCHEMA_VERSION
    assert Store.create(root).root == root
    other = tmp_path / "other"
    other.mkdir()
    (other / "holiday.jpg").write_text("")
    with pytest.raises(StoreError, match=r"a store nor empty \(it contains 'holiday.jpg'\)"):
        Store.create(other)
    assert [path.name for path in other.iterdir()] == ["holiday.jpg"]
    with pytest.raises(StoreError, match="is a file"):
        Store.create(other / "holiday.jpg")
    with pytest.raises(StoreError, match="no store at"):
        Store.open(other / "holiday.jpg")


def test_many_may_create_the_same_store_at_once(tmp_path: Path) -> None:
    together = Barrier(4)

    def create(_: int) -> list[int]:
        versions = []
        for number in range(10):
            together.wait(timeout=30)
            store = Store.create(tmp_path / str(number))
            store.staging.mkdir(exist_ok=True)
            versions.append(store.schema_version())
        return versions

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(create, range(4))) == [[SCHEMA_VERSION] * 10] * 4


def test_a_store_of_another_schema_version_is_refused_naming_both(store: Store) -> None:
    for version in (0, 99):
        (store.root / "store.json").write_text(json.dumps({"schema_version": version}))
        said = f"has schema version {version}, this program reads {SCHEMA_VERSION}: use"
        for opened in (Store.open, Store.create):
            with pytest.raises(StoreError, match=said):
                opened(store.root)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema_version": "x"}', '{"schema_version": null}'])
def test_a_damaged_marker_is_reported(store: Store, text: str) -> None:
    (store.root / "store.json").write_text(text)
    with pytest.raises(StoreError, match="is damaged"):
        Store.open(store.root)


def test_a_damaged_manifest_is_reported(store: Store) -> None:
    id_ = make(store)
    path = store.artifact_path(PAIR, id_) / "manifest.json"
    for text in ("", "{}", '{"schema_version": 1, "surprise": 1}'):
        path.write_text(text)
        with pytest.raises(IntegrityError, match="does not match its own checksum"):
            store.manifest(PAIR, id_)
        path.write_bytes(with_checksum(text))
        with pytest.raises(IntegrityError, match="is damaged"):
            store.manifest(PAIR, id_)


def test_check_names_the_file_that_changed_or_is_gone(store: Store) -> None:
    path = store.artifact_path(PAIR, make(store))
    (path / "b.bin").write_bytes(bytes(9) + b"1")
    with pytest.raises(IntegrityError, match=r"b\.bin does not match its manifest"):
        check_files(path)
    (path / "b.bin").unlink()
    with pytest.raises(IntegrityError, match=r"b\.bin is missing"):
        check_files(path)


def test_remove_returns_the_bytes_and_leaves_the_others(store: Store) -> None:
    one, two = make(store, 1), make(store, 2)
    size = sum(file.stat().st_size for file in store.artifact_path(PAIR, one).rglob("*") if file.is_file())
    assert store.remove(PAIR, one) == size > 13
    assert not store.has(PAIR, one)
    check_files(store.artifact_path(PAIR, two))
    assert list(store.staging.iterdir()) == []
    with pytest.raises(StoreError, match="no pair"):
        store.remove(PAIR, one)


def _die_in_removal(root: Path, id_: str) -> None:
    shutil.rmtree = lambda *_, **__: kill_this_process()  # type: ignore[assignment]
    Store.open(root).remove(PAIR, id_)


def test_remove_that_is_killed_leaves_no_half(store: Store) -> None:
    id_ = make(store)
    killed_in(_die_in_removal, store.root, id_)
    assert not store.artifact_path(PAIR, id_).exists()
    assert store.clear_abandoned() == 1
    assert make(store) == id_
    check_files(store.artifact_path(PAIR, id_))


def test_manifest_is_last(store: Store, commit_hook: Callable[[Callable[[str], None] | None], None]) -> None:
    def look(point: str) -> None:
        if point == "pair:manifest_written":
            (staged,) = store.staging.iterdir()
            assert sorted(read_manifest(staged).files) == ["a/pair.json", "b.bin"]
        elif point != "pair:renamed":
            assert not list(store.staging.glob("*/manifest.json"))

    commit_hook(look)
    make(store)


@pytest.mark.parametrize("open_it", [Store.open, Store.create])
def test_lost_version_is_named_with_a_command(whole_store: Store, open_it: Callable[[Path], Store]) -> None:
    (whole_store.root / "store.json").unlink()
    with pytest.raises(IntegrityError, match="is missing next to artifacts/: restore it") as caught:
        open_it(whole_store.root)
    command = str(caught.value).split("`")[1]
    subprocess.run(command, shell=True, check=True)
    assert open_it(whole_store.root).root == whole_store.root
