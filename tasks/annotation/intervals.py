"""Which stretches of the two videos a worker has to see before rating a pair (SPEC, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from storage_schemas.pair import PairRecord
from storage_schemas.source import ClipRow
from storage_schemas.vote import SideWord
from tasks.pairs.intervals import JOIN_MARGIN_S

#: What happened there: the clip was degraded, removed (high side), joined over (low side), or moved.
StretchKind = Literal["degraded", "removed", "join", "moved"]


class Stretch(Frozen):
    """One stretch of one video that has to be seen; seconds of that video's own time line.

    `note` says what the operation chose for this clip (a colour, an object), empty where it chose nothing.
    """

    video: SideWord
    start_s: float
    end_s: float
    kind: StretchKind
    note: str = ""


def must_see(record: PairRecord, clips: Sequence[ClipRow]) -> tuple[Stretch, ...]:
    """Return what has to be seen of a pair: one stretch a clip, in the order of the low video's story.

    Clips that were changed in place have to be seen on the low side. For removed clips it is the clip on
    the high side and the join ± 2 s on the low side; joins of neighbouring clips are one. For moved clips
    it is the clip on both sides, each at its own place.

    Raises
    ------
    UserInputError
        If the edit list has nothing of the kind.
    """
    raise NotImplementedError
