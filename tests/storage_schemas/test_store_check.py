"""Every file of a store is checked, also what no release uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_schemas.errors import Reason, StoreError
from storage_schemas.json_checksum import with_checksum, without_checksum
from storage_schemas.json_lines import LinesFolder
from storage_schemas.model import Frozen
from storage_schemas.release import find_version
from storage_schemas.set_aside import SetAsideRow, append_failures, known_failures
from storage_schemas.store import PAIR, Store
from storage_schemas.store_check import FileDamage, check_path, checked_paths
from storage_schemas.votes import VotesStore


class Row(Frozen):
    text: str


def damages(store: Store) -> list[FileDamage]:
    return [damage for place in checked_paths(store) for damage in check_path(store, place)]


def flip(path: Path, place: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1
    path.write_bytes(raw)


def test_any_flipped_bit_of_a_text_is_found() -> None:
    for text in ('{"a": 1}', '{\n "a": "ä"\n}'):
        stored = with_checksum(text)
        assert without_checksum(stored)
        for bit in range(8 * len(stored)):
            raw = bytearray(stored)
            raw[bit // 8] ^= 1 << bit % 8
            assert without_checksum(bytes(raw)) is None


def test_what_does_not_belong_to_an_artifact_is_named(whole_store: Store) -> None:
    store = whole_store
    assert damages(store) == []
    (pair,) = store.manifests(PAIR)
    (store.artifact_path(PAIR, pair.id) / "extra").touch()
    (store.root / "artifacts" / "other" / "ab").mkdir(parents=True)
    (store.root / "artifacts" / "other" / "ab" / "abc").touch()
    here = store.artifact_path(PAIR, pair.id)
    moved = store.artifact_path(PAIR, "0" * 64)
    moved.parent.mkdir()
    (moved.parent / "1").mkdir()
    problems = [damage.problem for damage in damages(store)]
    assert sum("is not an artifact" in problem for problem in problems) == 2
    assert any(f"{here}/extra is not in the manifest" in problem for problem in problems)
    (here / "extra").unlink()
    here.rename(moved)
    assert any("an id that does not match its inputs" in damage.problem for damage in damages(store))


def test_a_torn_line_is_not_damage_but_a_changed_one_is(store: Store) -> None:
    lines = LinesFolder(store.partial_analyses / "id", Row, "lost")
    lines.append(Row(text="one"))
    lines.append(Row(text="two"))
    (file,) = (store.partial_analyses / "id").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:30])
    assert damages(store) == []
    for place, line in ((3, 1), (len(whole) - 3, 2), (len(whole) - 1, 2)):
        file.write_bytes(whole)
        flip(file, place)
        (damage,) = damages(store)
        assert f"{file} is damaged in line {line}" in damage.problem
        assert not damage.removable


def test_a_file_of_failures_is_named_after_its_content(store: Store) -> None:
    row = SetAsideRow(source_id="one", stage="inspect", reason=Reason.NO_FRAMES, message="none", key="key")
    append_failures(store, [row])
    assert damages(store) == []
    assert known_failures(store) == {"key": row}
    (file,) = store.failures.iterdir()
    flip(file, 50)
    (damage,) = damages(store)
    assert damage.removable
    assert str(file) in damage.problem
    assert known_failures(store) == {}


def test_what_a_campaign_says_about_the_rule_is_checked(store: Store) -> None:
    votes = VotesStore(store)
    votes.keep_rules("c", {"least_votes": 3}, "paper")
    assert damages(store) == []
    flip(store.root / "annotation" / "rules" / "c.json", 5)
    (damage,) = damages(store)
    assert (damage.path, damage.removable) == ("annotation/rules/c.json", False)
    assert damage.problem.endswith("does not match its checksum: restore it from a copy")


@pytest.mark.parametrize(
    "place",
    [
        "artifacts/pair",
        "artifacts/frames/ab",
        "releases/loop",
        "releases/main/versions/9",
        "failures/x.parquet",
    ],
)
@pytest.mark.parametrize("target", ["loop", "nothing"])
def test_check_names_a_link_that_leads_nowhere(whole_store: Store, place: str, target: str) -> None:
    (pair,) = whole_store.manifests(PAIR)
    extra = whole_store.versions("main") / "1" / "extra"
    extra.touch()
    path = whole_store.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(path.with_name("away"))
    path.symlink_to(path.name if target == "loop" else "nothing")
    found = {damage.path: damage.problem for damage in damages(whole_store)}
    assert "is a dangling link" in found[place]
    assert any(str(extra) in problem for problem in found.values())
    assert find_version(whole_store) == ("main", 1)
    assert whole_store.has(PAIR, pair.id) == (place != "artifacts/pair")


def test_a_folder_of_releases_that_leads_nowhere_is_named(whole_store: Store) -> None:
    (whole_store.root / "releases").rename(whole_store.root / "away")
    (whole_store.root / "releases").symlink_to("releases")
    with pytest.raises(StoreError, match="releases is a dangling link"):
        find_version(whole_store)
