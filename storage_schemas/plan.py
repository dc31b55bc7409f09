"""The plan of a build: what would be made of each source, known before any pixel changes."""

from __future__ import annotations

from storage_schemas.errors import Reason
from storage_schemas.model import Frozen


class PlannedPair(Frozen):
    """One pair of the plan.

    `new_frames` are the frames with new pixels that it needs, `done` says whether the pair is in the
    store and verified.
    """

    pair_id: str
    aspect: str
    operation: str
    strength: str
    clips: int
    main: bool
    new_frames: int
    pool: str
    done: bool


class NoPair(Frozen):
    """Why a source has no pair for an aspect."""

    aspect: str
    reason: Reason
    message: str


class SourceReport(Frozen):
    """What a build could make of one source.

    `exact` says whether the frames are known from ingest rather than predicted from the packets.
    """

    source_id: str
    title: str
    duration_s: float
    frames: int
    width: int
    height: int
    exact: bool
    has_frames: bool
    pairs: tuple[PlannedPair, ...]
    no_pair: tuple[NoPair, ...]

    @property
    def aspects(self) -> tuple[str, ...]:
        """The aspects for which the source can give a pair at the recipe's main severity."""
        return tuple(pair.aspect for pair in self.pairs if pair.main)


class ReleasePlan(Frozen):
    """All pairs of a release to be, and what making them takes (bytes and frames)."""

    sources: int
    planned: dict[str, int]
    missing_pairs: int
    missing_sources: int
    frames_to_decode: int
    frames_to_degrade: dict[str, int]
    bytes_frames: int
    bytes_degraded: int
    bytes_free: int
    not_drawn: dict[str, int]
