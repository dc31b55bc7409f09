"""The failures of earlier builds: append-only rows, one file a batch.

A build does not try again what failed for the same inputs, unless it is asked to or the reason lay with
the machine.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.parquet import read_rows, write_rows
from storage_schemas.provenance import utc_now
from storage_schemas.set_aside import SET_ASIDE, SetAsideRow
from storage_schemas.store import Store


def append_failures(store: Store, rows: Sequence[SetAsideRow]) -> None:
    """Add rows as a new file; nothing that is there is touched."""
    if not rows:
        return
    with storage_errors(store.failures):
        store.failures.mkdir(parents=True, exist_ok=True)
        stamp = utc_now().replace(":", "").replace("+0000", "Z")
        path = store.failures / f"{stamp}-{uuid.uuid4().hex[:8]}.parquet"
        draft = path.with_suffix(".draft")
        write_rows(draft, SET_ASIDE, rows)
        sync_path(draft)
        draft.rename(path)
        sync_path(store.failures)


def known_failures(store: Store) -> dict[str, SetAsideRow]:
    """Return, by the checksum of their inputs, the failures that need not be tried again."""
    found: dict[str, SetAsideRow] = {}
    if store.failures.is_dir():
        for path in sorted(store.failures.glob("*.parquet")):
            for row in read_rows(path, SetAsideRow):
                if row.key and not row.transient:
                    found[row.key] = row
    return found
