from __future__ import annotations

from storage_schemas.errors import TRANSIENT_REASONS, Reason
from storage_schemas.set_aside import SetAsideRow, append_failures, known_failures
from storage_schemas.store import Store


def row(key: str, reason: Reason = Reason.NOT_A_VIDEO) -> SetAsideRow:
    return SetAsideRow(source_id="s", stage="ingest", reason=reason, message="m", key=key)


def test_failures_are_known_by_the_checksum_of_their_inputs(store: Store) -> None:
    assert known_failures(store) == {}
    append_failures(store, [row("a"), row("b")])
    append_failures(store, [row("c")])
    assert set(known_failures(store)) == {"a", "b", "c"}
    # a draft of a killed process is passed over
    (store.failures / "x.draft").write_bytes(b"half")
    assert set(known_failures(store)) == {"a", "b", "c"}


def test_each_batch_is_a_file_of_its_own_and_none_is_touched(store: Store) -> None:
    append_failures(store, [row("")])
    assert known_failures(store) == {}, "rows without key hold for nothing"
    (first,) = store.failures.iterdir()
    before = first.read_bytes()
    append_failures(store, [row("b")])
    append_failures(store, [])
    assert len(list(store.failures.iterdir())) == 2
    assert first.read_bytes() == before


def test_what_lies_with_the_machine_is_tried_again(store: Store) -> None:
    append_failures(store, [row(reason.value, reason) for reason in Reason])
    assert set(known_failures(store)) == {reason.value for reason in set(Reason) - set(TRANSIENT_REASONS)}
