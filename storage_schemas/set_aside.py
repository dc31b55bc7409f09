"""Table `set_aside` (items not built, with reasons) and the append-only failures of earlier builds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
from pydantic import field_validator

from storage_schemas.errors import TRANSIENT_REASONS, Reason
from storage_schemas.model import Frozen
from storage_schemas.parquet import read_rows
from storage_schemas.printable import printable
from storage_schemas.row_store import add_part, is_sound, parts_of
from storage_schemas.secrets import strike_out_row
from storage_schemas.store import Store

log = logging.getLogger(__name__)

#: Stage of a row about clips that are left out of a source that is otherwise used.
CLIPS_STAGE = "clips"
#: Stage of a row about a missing control; its pair is complete.
CONTROL_STAGE = "control"
#: Stage of a row about a missing excerpt; its pair is complete.
LENGTH_STAGE = "length"

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

    Control characters in `message` and `location` become escapes. `aspect` is empty if the row applies to the
    whole source. `key` is a checksum of the inputs to which the row applies (changed inputs are retried).
    `at` is UTC in ISO 8601.
    """

    source_id: str
    stage: str
    reason: Reason
    message: str
    aspect: str = ""
    location: str = ""
    key: str = ""
    at: str = ""

    @field_validator("message", "location")
    @classmethod
    def _printable(cls, text: str) -> str:
        return printable(text, keep="\n\t")

    @property
    def transient(self) -> bool:
        """Whether the machine is the cause, so that the next build retries."""
        return self.reason in TRANSIENT_REASONS


def append_failures(store: Store, rows: Sequence[SetAsideRow]) -> None:
    """Write rows to a new file; existing files are not changed."""
    if not rows:
        return
    plain = [strike_out_row(row.model_dump(mode="json")) for row in rows]
    add_part(store.failures, pa.Table.from_pylist(plain, schema=SET_ASIDE))


def known_failures(store: Store) -> dict[str, SetAsideRow]:
    """Return the failures that are not retried, by the checksum of their inputs."""
    failures: dict[str, SetAsideRow] = {}
    for path in parts_of(store.failures):
        if not is_sound(path):
            log.warning("%s does not match the checksum in its name: its items are retried", path)
            continue
        for row in read_rows(path, SetAsideRow):
            if row.key and not row.transient:
                failures[row.key] = row
    return failures
