from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from storage_schemas.commit import COMMIT_POINTS, abandoned, set_commit_hook, storage_errors, write_atomic
from storage_schemas.errors import Reason, SetAside, StoreError, UserInputError
from storage_schemas.frames import ColorSpec
from storage_schemas.ids import artifact_id
from storage_schemas.set_aside import SetAsideRow, append_failures, known_failures
from storage_schemas.source import TIMELINE_FILE, write_timeline_file
from storage_schemas.store import FRAMES, PAIR, TIMELINE, Store, check_files
from tests.frame_arrays import write_frames
from tests.storage_schemas.together import kill_this_process, killed_in, together

CommitHook = Callable[[Callable[[str], None] | None], None]

CONSUMES = {"n": 1}
ID = artifact_id(PAIR, CONSUMES)
STEPS = [*COMMIT_POINTS, "payload_half_written"]


def make(store: Store, text: str = "{}") -> None:
    with store.stage(PAIR, CONSUMES) as staged:
        (staged.path / "pair.json").write_text(text)
        staged.content_checksum = "sum"


def check_whole(store: Store, text: str = "{}") -> None:
    """Check that the artifact is complete and that nothing else lies around."""
    check_files(store.artifact_path(PAIR, ID))
    assert (store.artifact_path(PAIR, ID) / "pair.json").read_text() == text
    check_clean(store)


def check_clean(store: Store) -> None:
    assert list(store.staging.iterdir()) == []


def _die_at(root: Path, step: str) -> None:
    def die(at: str) -> None:
        if at == f"pair:{step}":
            kill_this_process()

    set_commit_hook(die)
    with Store.open(root).stage(PAIR, CONSUMES) as staged:
        (staged.path / "deep" / "er").mkdir(parents=True)
        (staged.path / "deep" / "er" / "frames").write_bytes(bytes(100_000))
        die("pair:payload_half_written")
        (staged.path / "pair.json").write_text("{}")
        staged.content_checksum = "sum"


@pytest.mark.parametrize("step", STEPS)
def test_stage_that_is_killed_leaves_a_whole_artifact_or_none(store: Store, step: str) -> None:
    killed_in(_die_at, store.root, step)
    complete = step == "renamed"
    assert store.has(PAIR, ID) is complete
    assert [manifest.id for manifest in store.manifests(PAIR)] == ([ID] if complete else [])
    if complete:
        check_files(store.artifact_path(PAIR, ID))
    assert store.clear_abandoned() == (0 if complete else 1)
    make(store)
    check_whole(store)


def test_commit_points_come_in_order(store: Store, commit_hook: CommitHook) -> None:
    seen: list[str] = []
    commit_hook(seen.append)
    make(store)
    assert seen == [f"pair:{step}" for step in COMMIT_POINTS]


def test_an_error_leaves_nothing_and_keeps_its_name(store: Store) -> None:
    with pytest.raises(RuntimeError, match="oh"), store.stage(PAIR, CONSUMES) as staged:
        (staged.path / "pair.json").write_text("{}")
        raise RuntimeError("oh")
    with pytest.raises(FileNotFoundError), store.stage(PAIR, CONSUMES) as staged:
        (staged.path / "nowhere" / "x").write_text("")
    assert not store.has(PAIR, ID)
    check_clean(store)


def test_the_second_writer_drops_its_own(store: Store, commit_hook: CommitHook) -> None:
    def meanwhile(point: str) -> None:
        if point == "pair:manifest_written":
            commit_hook(None)
            make(store, "first")

    commit_hook(meanwhile)
    make(store, "second")
    check_whole(store, "first")


def test_a_folder_without_manifest_is_not_in_the_way(store: Store) -> None:
    make(store)
    (store.artifact_path(PAIR, ID) / "manifest.json").unlink()
    assert not store.has(PAIR, ID)
    make(store, "new")
    check_whole(store, "new")


def _make_many(barrier: Barrier, root: str) -> None:
    store = Store.open(Path(root))
    for number in range(20):
        barrier.wait()
        with store.stage(PAIR, {"number": number}) as staged:
            (staged.path / "pair.json").write_text(str(number))


def test_two_processes_that_make_the_same_harm_nothing(store: Store) -> None:
    together((_make_many, str(store.root)), (_make_many, str(store.root)))
    result = list(store.manifests(PAIR))
    assert len(result) == 20
    for manifest in result:
        check_files(store.artifact_path(PAIR, manifest.id))
    check_clean(store)


def test_only_what_dead_processes_left_is_cleared(store: Store) -> None:
    store.staging.mkdir()
    host = socket.gethostname().replace(".", "_")
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        dead = process.pid
    for name in (f"pair.{host}.{dead}.a", f"pair.{host}.{os.getpid()}.b", f"pair.elsewhere.{dead}.c"):
        (store.staging / name).mkdir()
        (store.staging / name / "half").write_text("half")
    assert [path.name for path in abandoned(store.staging)] == [f"pair.{host}.{dead}.a"]
    assert store.clear_abandoned() == 1
    assert sorted(path.name[-1] for path in store.staging.iterdir()) == ["b", "c"]
    (store.staging / "my-notes").mkdir()
    with pytest.raises(StoreError, match="my-notes was not created by slvmeval"):
        store.clear_abandoned()


def too_large_file(folder: Path) -> None:
    (folder / "pair.json").write_bytes(bytes(2 << 20))


def too_many_frames(folder: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (100, 96, 128), dtype=np.uint8)
    write_frames(folder / "planes.zarr", noise, map(float, range(100)), ColorSpec())


def too_long_table(folder: Path) -> None:
    noise = np.random.default_rng(0).random(150_000).tolist()
    write_timeline_file(folder / TIMELINE_FILE, noise, list(range(150_000)))


@pytest.mark.parametrize(
    ("kind", "write"), [(PAIR, too_large_file), (FRAMES, too_many_frames), (TIMELINE, too_long_table)]
)
def test_full_disk_leaves_nothing(kind: Any, write: Callable[[Path], None], small_disk: Path) -> None:
    store = Store.create(small_disk)
    with pytest.raises(SetAside, match="no space left") as caught, store.stage(kind, CONSUMES) as staged:
        write(staged.path)
    assert caught.value.reason is Reason.OUT_OF_SPACE
    assert list(store.manifests(kind)) == []
    check_clean(store)
    make(store)
    check_whole(store)


def fill(disk: Path) -> Path:
    """Fill a file system to its last block."""
    filler = disk / ".filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


def test_a_disk_too_full_for_the_manifest(small_disk: Path, commit_hook: CommitHook) -> None:
    store = Store.create(small_disk)

    def full(point: str) -> None:
        if point == "pair:payload_synced":
            fill(small_disk)

    commit_hook(full)
    with pytest.raises(SetAside) as caught:
        make(store)
    assert caught.value.reason is Reason.OUT_OF_SPACE
    assert not store.has(PAIR, ID)
    (small_disk / ".filler").unlink()
    commit_hook(None)
    make(store)
    assert store.has(PAIR, ID)


def test_a_full_disk_loses_no_earlier_failure(small_disk: Path) -> None:
    store = Store.create(small_disk)
    row = SetAsideRow(source_id="s", stage="ingest", reason=Reason.NOT_A_VIDEO, message="m", key="k")
    append_failures(store, [row])
    fill(small_disk)
    with pytest.raises(SetAside) as caught:
        append_failures(store, [row.model_copy(update={"key": str(n)}) for n in range(100)])
    assert caught.value.reason is Reason.OUT_OF_SPACE
    assert set(known_failures(store)) == {"k"}


def test_a_read_only_store_can_be_read_but_not_written(small_disk: Path) -> None:
    store = Store.create(small_disk)
    make(store)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    again = Store.create(small_disk)
    assert again.has(PAIR, ID)
    check_files(again.artifact_path(PAIR, ID))
    with pytest.raises(SetAside, match="choose another --store") as caught, again.stage(PAIR, {"n": 2}):
        pass
    assert caught.value.reason is Reason.READ_ONLY_STORE
    with pytest.raises(SetAside) as caught:
        write_atomic(small_disk / "x.json", b"{}")
    assert caught.value.reason is Reason.READ_ONLY_STORE
    with pytest.raises(SetAside) as caught:
        Store.create(small_disk / "store")
    assert caught.value.reason is Reason.READ_ONLY_STORE


def test_what_may_not_be_read_elsewhere_is_not_the_stores_fault(store: Store, tmp_path: Path) -> None:
    with pytest.raises(PermissionError), store.stage(PAIR, CONSUMES):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "video.mp4"))
    with pytest.raises(SetAside) as caught, store.stage(PAIR, CONSUMES) as staged:
        raise PermissionError(errno.EACCES, "Permission denied", str(staged.path / "pair.json"))
    assert caught.value.reason is Reason.READ_ONLY_STORE


def test_a_folder_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SetAside, match=f"{tmp_path}/out cannot be written"), storage_errors(Path("out")):
        raise PermissionError(errno.EACCES, "Permission denied", "out/x.json")


def test_write_atomic_replaces_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [file.name for file in path.parent.iterdir()] == ["x.json"]


def test_a_pipe_a_folder_and_what_leads_to_an_open_file_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    for name, why in (
        ("pipe", "it is a named pipe"),
        ("folder", "it is a folder"),
        ("device", "it is a device"),
        ("stdout", "it leads to an open file of a process"),
    ):
        before = (tmp_path / name).lstat()
        with pytest.raises(UserInputError, match=f"{name} cannot be written: {why}"):
            write_atomic(tmp_path / name, b"text")
        assert (tmp_path / name).lstat().st_mode == before.st_mode
    assert len(list(tmp_path.iterdir())) == 4
    # a link to nowhere is replaced, and so is one to a file
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    write_atomic(tmp_path / "link", b"text")
    assert (tmp_path / "link").read_bytes() == b"text"
