"""The key of an installation, and where its things lie."""

from __future__ import annotations

import stat
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.store import Store
from storage_schemas.votes import VotesStore
from tasks.annotation import installation
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import (
    database_url,
    derived_key,
    installation_key,
    media_folder,
    sqlite_file,
)
from tasks.annotation.media import draft_of
from tests.tasks.votes.voting import vote


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(installation.KEY_VARIABLE, raising=False)


def test_the_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    key = installation_key(tmp_path)
    path = tmp_path / "annotation" / "key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(key) == 64
    assert installation_key(tmp_path) == key
    assert installation_key(tmp_path / "other") != key
    assert [one.name for one in path.parent.iterdir()] == ["key"]


def test_key_made_by_many_at_once_is_the_same(tmp_path: Path) -> None:
    with ThreadPool(16) as pool:
        assert len(set(pool.map(lambda _: installation_key(tmp_path), range(64)))) == 1
    assert [one.name for one in (tmp_path / "annotation").iterdir()] == ["key"]


@pytest.mark.parametrize(
    ("store_mode", "folder_mode", "file_mode"), [(0o755, 0o700, 0o600), (0o2775, 0o2770, 0o660)]
)
@pytest.mark.parametrize("first", ["key", "desk", "media", "votes"])
def test_folder_of_answers_is_open_to_its_owner_or_the_stores_group(
    tmp_path: Path, first: str, store_mode: int, folder_mode: int, file_mode: int
) -> None:
    root = Store.create(tmp_path / "store").root
    root.chmod(store_mode)
    if first == "key":
        installation_key(root)
    if first == "media":
        with draft_of(media_folder(root) / "a.mp4") as draft:
            draft.write_bytes(b"")
    if first == "votes":
        VotesStore(Store.open(root)).add([vote("film/1", "w")])
    with Desk.open(database_url(root), b"k" * 32):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in sqlite_file(root).parent.iterdir()}
    assert stat.S_IMODE((root / "annotation").stat().st_mode) == folder_mode
    assert {mode for name, mode in modes.items() if name.startswith("desk.")} == {file_mode}


def test_the_variable_goes_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(installation.KEY_VARIABLE, "k" * 32)
    assert installation_key(tmp_path) == b"k" * 32
    assert not (tmp_path / "annotation").exists()
    monkeypatch.setenv(installation.KEY_VARIABLE, "short")
    with pytest.raises(UserInputError, match="too short"):
        installation_key(tmp_path)


def test_installation_key_open_to_others_damaged_or_lost_is_refused(tmp_path: Path) -> None:
    installation_key(tmp_path)
    path = tmp_path / "annotation" / "key"
    for mode in (0o644, 0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(PrerequisiteError, match=f"chmod 600 {path}"):
            installation_key(tmp_path)
    path.chmod(0o600)
    for content in (b"", b"\n", b"abc\n", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(PrerequisiteError, match="damaged"):
            installation_key(tmp_path)
        assert path.read_bytes() == content
    # no new key is made beside an old database
    sqlite_file(tmp_path).write_bytes(b"")
    path.unlink()
    with pytest.raises(PrerequisiteError, match="restore"):
        installation_key(tmp_path)
    assert not path.exists()


def test_keys_of_two_purposes_have_nothing_in_common() -> None:
    keys = {derived_key(a * 32, b) for a, b in ((b"a", "session"), (b"a", "media"), (b"b", "media"))}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {32}


def test_paths_of_an_installation(tmp_path: Path) -> None:
    assert database_url(tmp_path) == f"sqlite:///{tmp_path}/annotation/desk.sqlite"
    assert database_url(tmp_path, "postgresql+psycopg://x") == "postgresql+psycopg://x"
    assert media_folder(tmp_path) == tmp_path / "annotation" / "media"
