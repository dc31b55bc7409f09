"""Candidates: which sources give a pair for which aspect.

Eligible sources of an aspect are binned by duration; a bin takes at most so many. Within a bin the
sources are ranked by a keyed hash, so the draw does not depend on the order of arrival. Places that a
parent release has filled stay filled; new sources take free places only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from storage_schemas.model import Frozen
from storage_schemas.rng import keyed_rank


class SourceSummary(Frozen):
    """What the draw of candidates needs to know of a source.

    `aspects` are those for which the source has a pair at the recipe's main severity point.
    """

    source_id: str
    duration_s: float
    aspects: tuple[str, ...]


class Candidate(Frozen):
    """One source that gives a pair (at each severity point) for one aspect."""

    source_id: str
    aspect: str
    bin_s: int


def duration_bin(duration_s: float, bin_seconds: int) -> int:
    """Return the lower edge of the bin that a duration falls into, in seconds."""
    return int(duration_s // bin_seconds) * bin_seconds


def draw_candidates(
    summaries: Sequence[SourceSummary],
    *,
    aspects: Sequence[str],
    seed: int,
    bin_seconds: int,
    pairs_per_bin: int,
    kept: Collection[Candidate] = (),
    excluded: Collection[tuple[str, str]] = (),
) -> list[Candidate]:
    """Return the candidates of every aspect, by aspect and rank.

    Parameters
    ----------
    summaries
        The sources, in any order.
    kept
        Candidates of a parent release: each keeps its place, also where its source is gone.
    excluded
        (source id, aspect) that cannot be built; their places go to the next in rank.
    """
    chosen: list[Candidate] = []
    for aspect in aspects:
        held: Mapping[str, Candidate] = {c.source_id: c for c in kept if c.aspect == aspect}
        bins: dict[int, list[str]] = defaultdict(list)
        for summary in summaries:
            if aspect not in summary.aspects or (summary.source_id, aspect) in excluded:
                continue
            if summary.source_id not in held:
                bins[duration_bin(summary.duration_s, bin_seconds)].append(summary.source_id)
        chosen += held.values()
        for edge, ids in sorted(bins.items()):
            free = pairs_per_bin - sum(candidate.bin_s == edge for candidate in held.values())
            ranked = sorted(ids, key=lambda id_: keyed_rank(seed, "candidate", aspect, id_))
            chosen += [Candidate(source_id=id_, aspect=aspect, bin_s=edge) for id_ in ranked[: max(free, 0)]]
    return chosen
