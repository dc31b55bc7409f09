"""Table `set_aside` (items not built, with reasons) and the append-only failures of earlier builds."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa

from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.errors import TRANSIENT_REASONS, Reason
from storage_schemas.model import Frozen
from storage_schemas.parquet import read_rows, write_rows
from storage_schemas.provenance import utc_now
from storage_schemas.secrets import strike_out_row
from storage_schemas.store import Store

SET_ASIDE = pa.schema(
    [
        ("source_id", pa.string()),
        ("aspect", pa.string()),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("message", pa.string()),
        ("location", pa.string()),
        ("key", pa.string()),
        ("at", pa.string()),
    ]
)


class SetAsideRow(Frozen):
    """One item that was set aside.

    `aspect` is empty if the row applies to the whole source. `key` is a checksum of the inputs to which the
    row applies (changed inputs are retried). `at` is UTC in ISO 8601.
    """

    source_id: str
    stage: str
    reason: Reason
    message: str
    aspect: str = ""
    location: str = ""
    key: str = ""
    at: str = ""

    @property
    def transient(self) -> bool:
        """Whether the machine is the cause, so that the next build retries."""
        return self.reason in TRANSIENT_REASONS


def append_failures(store: Store, rows: Sequence[SetAsideRow]) -> None:
    """Write rows to a new file; existing files are not changed."""
    if not rows:
        return
    with storage_errors(store.failures):
        store.failures.mkdir(parents=True, exist_ok=True)
        stamp = utc_now().replace(":", "").replace("+0000", "Z")
        path = store.failures / f"{stamp}-{uuid.uuid4().hex[:8]}.parquet"
        draft = path.with_suffix(".draft")
        write_rows(draft, SET_ASIDE, [strike_out_row(row.model_dump(mode="json")) for row in rows])
        sync_path(draft)
        draft.rename(path)
        sync_path(store.failures)


def known_failures(store: Store) -> dict[str, SetAsideRow]:
    """Return the failures that are not retried, by the checksum of their inputs."""
    failures: dict[str, SetAsideRow] = {}
    if store.failures.is_dir():
        for path in sorted(store.failures.glob("*.parquet")):
            for row in read_rows(path, SetAsideRow):
                if row.key and not row.transient:
                    failures[row.key] = row
    return failures
