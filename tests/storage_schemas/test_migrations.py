from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_schemas.commit import SCHEMA_VERSION
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.migrations import migrate
from storage_schemas.release import Release
from storage_schemas.store import DEGRADED_CLIP, FRAMES, PAIR, Store, check_files
from tasks.pairs.verify import verify_deep, verify_pairs
from tasks.pairs.view import open_pair
from tests.storage_schemas.store_v1 import COUNT, make_store_v1, picture

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

#: Frames, degraded clip, pair and release.
MANIFESTS = 4


@pytest.fixture
def old(tmp_path: Path) -> tuple[Path, str]:
    root = tmp_path / "store"
    return root, make_store_v1(root)


def manifests(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("manifest.json")}


def check_all(root: Path, pair_id: str) -> None:
    store = Store.open(root)
    release = Release.open(store)
    release.check()
    for kind in (FRAMES, DEGRADED_CLIP, PAIR):
        for manifest in store.manifests(kind):
            assert manifest.schema_version == SCHEMA_VERSION
            check_files(store.artifact_path(kind, manifest.id))
    assert verify_pairs(store, [pair_id]) == {}
    assert verify_deep(store, release.pair(pair_id)) == []
    pair = open_pair(store, release, pair_id)
    assert pair.prompt == "A cat sleeps.\nA dog runs."
    assert len(pair.low) == COUNT
    assert (pair.low[3] == picture(3)).all() and (pair.low[4] == 255 - picture(4)).all()


def test_an_old_store_is_opened_and_verified_after_migration(old: tuple[Path, str]) -> None:
    root, pair_id = old
    with pytest.raises(StoreError, match="older schema version 1"):
        Store.open(root)
    seen: list[tuple[int, int]] = []
    assert migrate(root, lambda done, total: seen.append((done, total))) == MANIFESTS
    assert seen == [(n, MANIFESTS) for n in range(1, MANIFESTS + 1)]
    check_all(root, pair_id)


def test_ids_and_payloads_stay(old: tuple[Path, str]) -> None:
    root, _ = old
    payload = {
        path: path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in ("manifest.json", "store.json")
    }
    before = {name: json.loads(text) for name, text in manifests(root).items()}
    migrate(root)
    assert {path: path.read_bytes() for path in payload} == payload
    for name, text in manifests(root).items():
        new, was = json.loads(text), before[name]
        for key in ("kind", "id", "consumes", "content_checksum", "content"):
            assert new[key] == was[key]
        assert {file: stored["bytes"] for file, stored in new["files"].items()} == was["files"]
        assert new["provenance"] == {"migrated_from_schema": 1}


def test_a_second_migration_does_nothing(old: tuple[Path, str]) -> None:
    root, _ = old
    migrate(root)
    before = manifests(root)
    assert migrate(root) == 0
    assert manifests(root) == before


@pytest.mark.parametrize("replaced", range(MANIFESTS + 2))
def test_a_killed_migration_goes_on(old: tuple[Path, str], run_python: RunPython, replaced: int) -> None:
    root, pair_id = old
    done = run_python(
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from storage_schemas.migrations import migrate\n"
        "left, replace = int(sys.argv[2]), Path.replace\n"
        "def counted(self, target):\n"
        "    global left\n"
        "    if left == 0:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    left -= 1\n"
        "    return replace(self, target)\n"
        "Path.replace = counted\n"
        "migrate(Path(sys.argv[1]))\n",
        root,
        str(replaced),
    )
    last = replaced > MANIFESTS
    assert done.returncode == (0 if last else -signal.SIGKILL), done.stderr
    if not last:
        with pytest.raises(StoreError, match="older schema version"):
            Store.open(root)
    assert migrate(root) == (0 if last else MANIFESTS - replaced)
    check_all(root, pair_id)


@pytest.mark.parametrize("damage", ["gone", "shorter"])
def test_damage_gets_no_checksum(old: tuple[Path, str], damage: str) -> None:
    root, pair_id = old
    path = root / "artifacts" / "pair" / pair_id[:2] / pair_id / "pair.json"
    if damage == "gone":
        path.unlink()
    else:
        os.truncate(path, 5)
    with pytest.raises(IntegrityError, match=r"pair\.json is missing or not as long"):
        migrate(root)
    with pytest.raises(StoreError, match="older schema version"):
        Store.open(root)


def test_a_damaged_manifest_is_named(old: tuple[Path, str]) -> None:
    root, pair_id = old
    path = root / "artifacts" / "pair" / pair_id[:2] / pair_id / "manifest.json"
    path.write_text("{")
    with pytest.raises(IntegrityError, match=r"manifest\.json is damaged"):
        migrate(root)


def test_versions_that_cannot_be_migrated_are_refused(old: tuple[Path, str], tmp_path: Path) -> None:
    root, _ = old
    (root / "store.json").write_text('{"schema_version": 99}')
    with pytest.raises(StoreError, match=f"schema version 99, this program knows up to {SCHEMA_VERSION}"):
        migrate(root)
    (root / "store.json").write_text('{"schema_version": 0}')
    with pytest.raises(StoreError, match="never was one"):
        migrate(root)
    with pytest.raises(StoreError, match="there is no store"):
        migrate(tmp_path / "nowhere")


def test_a_new_store_needs_no_migration(store: Store) -> None:
    assert migrate(store.root) == 0
