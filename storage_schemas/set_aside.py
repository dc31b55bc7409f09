"""Table `set_aside`: what was not built, and why; also the append-only rows of a store's failures."""

from __future__ import annotations

import pyarrow as pa

from storage_schemas.errors import TRANSIENT_REASONS, Reason
from storage_schemas.model import Frozen

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

    `aspect` is empty where the whole source is meant, `key` is a checksum of the inputs for which the
    row holds (other inputs are tried again), `at` is UTC in ISO 8601.
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
        """Whether the reason lies with the machine, so that the next build tries again."""
        return self.reason in TRANSIENT_REASONS
