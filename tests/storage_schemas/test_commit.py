from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from storage_schemas.commit import COMMIT_POINTS, abandoned, set_commit_hook, write_atomic
from storage_schemas.errors import Reason, SetAside, StoreError, UserInputError
from storage_schemas.frames import ColorSpec
from storage_schemas.ids import artifact_id
from storage_schemas.set_aside import SetAsideRow, append_failures, known_failures
from storage_schemas.source import TIMELINE_FILE, write_timeline_file
from storage_schemas.store import FRAMES, PAIR, TIMELINE, Store, check_files
from tests.frame_arrays import write_frames

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

CONSUMES = {"n": 1}
ID = artifact_id(PAIR, CONSUMES)

DIES_AT = """
import os, signal, sys
from pathlib import Path
from storage_schemas.commit import set_commit_hook
from storage_schemas.store import Store

root, point = sys.argv[1:]

def die(at):
    if at == point:
        os.kill(os.getpid(), signal.SIGKILL)

set_commit_hook(die)
with Store.open(Path(root)).stage("pair", {"n": 1}) as staged:
    (staged.path / "deep" / "er").mkdir(parents=True)
    (staged.path / "deep" / "er" / "frames").write_bytes(bytes(100_000))
    die("pair:payload_half_written")
    (staged.path / "pair.json").write_text("{}")
    staged.content_checksum = "sum"
"""


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    yield
    set_commit_hook(None)


def make(store: Store, text: str = "{}") -> None:
    with store.stage(PAIR, CONSUMES) as staged:
        (staged.path / "pair.json").write_text(text)
        staged.content_checksum = "sum"


@pytest.mark.parametrize("step", [*COMMIT_POINTS, "payload_half_written"])
def test_killed_at_any_point_it_is_complete_or_absent(store: Store, run_python: RunPython, step: str) -> None:
    done = run_python(DIES_AT, store.root, f"pair:{step}")
    assert done.returncode == -signal.SIGKILL, done.stderr
    complete = step == "renamed"
    assert store.has(PAIR, ID) is complete
    assert [manifest.id for manifest in store.manifests(PAIR)] == ([ID] if complete else [])
    if complete:
        check_files(store.artifact_path(PAIR, ID))
    assert store.clear_abandoned() == (0 if complete else 1)
    make(store)
    check_files(store.artifact_path(PAIR, ID))
    assert list(store.staging.iterdir()) == []


def test_commit_points_come_in_order(store: Store) -> None:
    seen: list[str] = []
    set_commit_hook(seen.append)
    make(store)
    assert seen == [f"pair:{step}" for step in COMMIT_POINTS]


def test_an_error_leaves_nothing(store: Store) -> None:
    with pytest.raises(RuntimeError, match="oh"), store.stage(PAIR, CONSUMES) as staged:
        (staged.path / "pair.json").write_text("{}")
        raise RuntimeError("oh")
    assert not store.has(PAIR, ID)
    assert list(store.staging.iterdir()) == []


def test_the_second_writer_drops_its_own(store: Store) -> None:
    def meanwhile(point: str) -> None:
        if point == "pair:manifest_written":
            set_commit_hook(None)
            make(store, "first")

    set_commit_hook(meanwhile)
    make(store, "second")
    assert (store.artifact_path(PAIR, ID) / "pair.json").read_text() == "first"
    check_files(store.artifact_path(PAIR, ID))
    assert list(store.staging.iterdir()) == []


def test_a_folder_without_manifest_is_not_in_the_way(store: Store) -> None:
    make(store)
    path = store.artifact_path(PAIR, ID)
    (path / "manifest.json").unlink()
    assert not store.has(PAIR, ID)
    make(store, "new")
    assert (path / "pair.json").read_text() == "new"
    check_files(path)
    assert list(store.staging.iterdir()) == []


def _make_many(root: Path, barrier: object) -> None:
    store = Store.open(root)
    for number in range(20):
        barrier.wait(timeout=30)  # type: ignore[attr-defined]
        with store.stage(PAIR, {"number": number}) as staged:
            (staged.path / "pair.json").write_text(str(number))


def test_two_processes_that_make_the_same_harm_nothing(store: Store) -> None:
    processes = multiprocessing.get_context("spawn")
    barrier = processes.Barrier(2)
    both = [processes.Process(target=_make_many, args=(store.root, barrier)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(timeout=60)
    assert [process.exitcode for process in both] == [0, 0]
    result = list(store.manifests(PAIR))
    assert len(result) == 20
    for manifest in result:
        check_files(store.artifact_path(PAIR, manifest.id))
    assert list(store.staging.iterdir()) == []


def test_only_what_dead_processes_left_is_cleared(store: Store, run_python: RunPython) -> None:
    store.staging.mkdir()
    host = socket.gethostname().replace(".", "_")
    dead = int(run_python("import os; print(os.getpid())").stdout)
    for name in (f"pair.{host}.{dead}.a", f"pair.{host}.{os.getpid()}.b", f"pair.elsewhere.{dead}.c"):
        (store.staging / name).mkdir()
        (store.staging / name / "half").write_text("half")
    assert [path.name for path in abandoned(store.staging)] == [f"pair.{host}.{dead}.a"]
    assert store.clear_abandoned() == 1
    assert sorted(path.name[-1] for path in store.staging.iterdir()) == ["b", "c"]


def test_a_stranger_in_staging_is_left_alone(store: Store) -> None:
    (store.staging / "my-notes").mkdir(parents=True)
    with pytest.raises(StoreError, match="my-notes was not made by slvmeval"):
        store.clear_abandoned()


def test_a_full_disk_is_its_own_reason_and_leaves_nothing(small_disk: Path) -> None:
    store = Store.create(small_disk)
    with pytest.raises(SetAside, match="no space left") as caught, store.stage(PAIR, CONSUMES) as staged:
        (staged.path / "pair.json").write_bytes(bytes(2 << 20))
    assert caught.value.reason is Reason.OUT_OF_SPACE
    assert not store.has(PAIR, ID)
    assert list(store.staging.iterdir()) == []
    make(store)
    check_files(store.artifact_path(PAIR, ID))


def test_a_disk_that_fills_while_frames_are_written(small_disk: Path) -> None:
    store = Store.create(small_disk)
    noise = np.random.default_rng(0).integers(0, 256, (200, 96, 128), dtype=np.uint8)
    with pytest.raises(SetAside) as caught, store.stage(FRAMES, CONSUMES) as staged:
        write_frames(staged.path / "planes.zarr", noise, map(float, range(200)), ColorSpec())
    assert caught.value.reason is Reason.OUT_OF_SPACE
    assert list(store.manifests(FRAMES)) == []
    assert list(store.staging.iterdir()) == []


def test_a_disk_too_full_for_the_manifest(small_disk: Path) -> None:
    store = Store.create(small_disk)

    def fill(point: str) -> None:
        if point == "pair:payload_synced":
            with (small_disk / ".filler").open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    return

    set_commit_hook(fill)
    with pytest.raises(SetAside) as caught:
        make(store)
    assert caught.value.reason is Reason.OUT_OF_SPACE
    assert not store.has(PAIR, ID)
    (small_disk / ".filler").unlink()
    set_commit_hook(None)
    make(store)
    assert store.has(PAIR, ID)


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


def test_no_store_can_be_made_on_a_read_only_disk(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(SetAside) as caught:
        Store.create(small_disk / "store")
    assert caught.value.reason is Reason.READ_ONLY_STORE


def test_a_table_on_a_full_disk_has_the_same_reason(small_disk: Path) -> None:
    store = Store.create(small_disk)
    noise = np.random.default_rng(0).random(300_000).tolist()
    with pytest.raises(SetAside) as caught, store.stage(TIMELINE, CONSUMES) as staged:
        write_timeline_file(staged.path / TIMELINE_FILE, noise, list(range(300_000)))
    assert caught.value.reason is Reason.OUT_OF_SPACE
    assert list(store.staging.iterdir()) == []


def test_a_full_disk_loses_no_earlier_failure(small_disk: Path) -> None:
    store = Store.create(small_disk)
    row = SetAsideRow(source_id="s", stage="ingest", reason=Reason.NOT_A_VIDEO, message="m", key="k")
    append_failures(store, [row])
    (small_disk / ".filler").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    with pytest.raises(SetAside) as caught:
        append_failures(store, [row.model_copy(update={"key": str(n)}) for n in range(5000)])
    assert caught.value.reason is Reason.OUT_OF_SPACE
    assert set(known_failures(store)) == {"k"}


def test_what_may_not_be_read_elsewhere_is_not_the_stores_fault(store: Store, tmp_path: Path) -> None:
    with pytest.raises(PermissionError), store.stage(PAIR, CONSUMES):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "video.mp4"))
    with pytest.raises(SetAside) as caught, store.stage(PAIR, CONSUMES) as staged:
        raise PermissionError(errno.EACCES, "Permission denied", str(staged.path / "pair.json"))
    assert caught.value.reason is Reason.READ_ONLY_STORE


def test_other_errors_keep_their_own_name(store: Store) -> None:
    with pytest.raises(FileNotFoundError), store.stage(PAIR, CONSUMES) as staged:
        (staged.path / "nowhere" / "x").write_text("")


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
