"""Task slots: the handlings of a pair that a campaign wants, as a table for a platform of one's own has them.

A slot's id and the order of its two videos are keyed hashes, so nothing has to be kept to read answers back,
and an id tells nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from storage_schemas.votes import SideWord
from tasks.annotation.places import derived_key

#: So many slots of each pair are known when answers come back, more where a campaign wants more.
_KNOWN = 50


@dataclass(frozen=True)
class Slot:
    """One handling of one pair: its id, which from 1 on of the pair's it is, and the side shown left."""

    id: str
    pair_id: str
    number: int
    first: SideWord


class Slots:
    """The slots of a campaign.

    Parameters
    ----------
    key
        The installation's key.
    campaign
        The campaign's name.
    """

    def __init__(self, key: bytes, campaign: str) -> None:
        self._key = derived_key(key, "slots")
        self._campaign = campaign

    def slot(self, pair_id: str, number: int) -> Slot:
        """Return one slot of a pair."""
        said = f"{self._campaign}\n{pair_id}\n{number}"
        mark = hmac.new(self._key, said.encode(), hashlib.sha256).digest()
        return Slot(mark.hex()[:24], pair_id, number, "high" if mark[-1] & 1 else "low")

    def by_id(self, pair_ids: Iterable[str], wanted: int) -> dict[str, Slot]:
        """Return all slots of some pairs by their ids, at least `wanted` of each."""
        slots = (
            self.slot(pair_id, number) for pair_id in pair_ids for number in range(1, max(_KNOWN, wanted) + 1)
        )
        return {slot.id: slot for slot in slots}
