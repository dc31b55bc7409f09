from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from storage_schemas.commit import SCHEMA_VERSION, set_commit_hook
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.json_checksum import with_checksum
from storage_schemas.store import PAIR, Store, check_files, read_manifest

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def make(store: Store, number: int = 1) -> str:
    with store.stage(PAIR, {"n": number}) as staged:
        (staged.path / "a").mkdir()
        (staged.path / "a" / "pair.json").write_text("abc")
        (staged.path / "b.bin").write_bytes(bytes(10))
        staged.content_checksum = "sum"
        staged.content = {"aspect": "color"}
        staged.provenance = {"host": "here"}
    return next(manifest.id for manifest in store.manifests(PAIR) if manifest.consumes == {"n": number})


def test_a_new_store_opens_again(tmp_path: Path) -> None:
    Store.create(tmp_path / "deep" / "store")
    assert Store.open(tmp_path / "deep" / "store").schema_version() == SCHEMA_VERSION
    assert Store.create(tmp_path / "deep" / "store").root == tmp_path / "deep" / "store"


def test_what_is_staged_is_what_is_found(store: Store) -> None:
    id_ = make(store)
    manifest = store.manifest(PAIR, id_)
    assert (manifest.kind, manifest.content_checksum, manifest.content) == (PAIR, "sum", {"aspect": "color"})
    assert manifest.provenance == {"host": "here"}
    assert sorted(manifest.files) == ["a/pair.json", "b.bin"]
    assert manifest.bytes == 13
    check_files(store.artifact_path(PAIR, id_))


def test_a_folder_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_text("")
    with pytest.raises(StoreError, match=r"not empty \(it holds 'holiday.jpg'\)"):
        Store.create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        Store.create(tmp_path / "x")
    with pytest.raises(StoreError, match="no store at"):
        Store.open(tmp_path / "x")


def test_hidden_files_do_not_make_a_folder_strange(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").write_text("")
    assert Store.create(tmp_path).schema_version() == SCHEMA_VERSION


def test_many_may_create_the_same_store_at_once(tmp_path: Path) -> None:
    for number in range(10):
        root, together = tmp_path / str(number), Barrier(4)

        def create(_: int, root: Path = root, together: Barrier = together) -> int:
            together.wait(timeout=30)
            store = Store.create(root)
            store.staging.mkdir(exist_ok=True)
            return store.schema_version()

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(create, range(4))) == [SCHEMA_VERSION] * 4


def test_no_store_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        Store.open(tmp_path)


@pytest.mark.parametrize("version", [0, 99])
def test_a_store_of_another_schema_version_is_refused_naming_both(store: Store, version: int) -> None:
    (store.root / "store.json").write_text(json.dumps({"schema_version": version}))
    for opened in (Store.open, Store.create):
        with pytest.raises(
            StoreError, match=f"has schema version {version}, this program reads {SCHEMA_VERSION}: use"
        ):
            opened(store.root)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema_version": "x"}', '{"schema_version": null}'])
def test_a_damaged_marker_is_said_so(store: Store, text: str) -> None:
    (store.root / "store.json").write_text(text)
    with pytest.raises(StoreError, match="is damaged"):
        Store.open(store.root)


def test_nothing_is_made_twice_by_asking(store: Store) -> None:
    assert not store.has(PAIR, "0" * 64)
    with pytest.raises(StoreError, match="no complete artifact"):
        store.manifest(PAIR, "0" * 64)
    assert list(store.manifests(PAIR)) == []


@pytest.mark.parametrize("text", ["", "{}", '{"schema_version": 1, "surprise": 1}'])
def test_a_damaged_manifest_is_said_so(store: Store, text: str) -> None:
    id_ = make(store)
    path = store.artifact_path(PAIR, id_) / "manifest.json"
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


def test_a_removal_that_is_killed_leaves_no_half(store: Store, run_python: RunPython) -> None:
    id_ = make(store)
    done = run_python(
        "import os, shutil, signal, sys\n"
        "from pathlib import Path\n"
        "from storage_schemas.store import Store\n"
        "shutil.rmtree = lambda path, **_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Store.open(Path(sys.argv[1])).remove('pair', sys.argv[2])\n",
        store.root,
        id_,
    )
    assert done.returncode == -9, done.stderr
    assert not store.artifact_path(PAIR, id_).exists()
    assert store.clear_abandoned() == 1
    assert make(store) == id_
    check_files(store.artifact_path(PAIR, id_))


def test_a_manifest_is_written_after_everything_else(store: Store) -> None:
    def look(point: str) -> None:
        if point == "pair:manifest_written":
            (staged,) = store.staging.iterdir()
            assert sorted(read_manifest(staged).files) == ["a/pair.json", "b.bin"]
        elif point != "pair:renamed":
            assert not list(store.staging.glob("*/manifest.json"))

    set_commit_hook(look)
    try:
        make(store)
    finally:
        set_commit_hook(None)
