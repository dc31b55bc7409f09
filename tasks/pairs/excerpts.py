"""Excerpts: more or less of a source around the same damaged clips, cut between its clips and gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from storage_schemas.errors import Reason, SetAside
from storage_schemas.pair import Excerpt, LengthPoint, PairRecord, Position, Segment

#: Version of the rule by which excerpts are cut; part of their pairs' ids.
EXCERPT_VERSION = 1
#: Where the damage's middle is within an excerpt.
_MIDDLES: Mapping[Position, float] = {"early": 1 / 6, "middle": 1 / 2, "late": 5 / 6}
#: Maximum ratio between an excerpt's length and the one asked for, either way.
_TOLERANCE = 1.5


def cut_excerpt(
    source_units: Sequence[Segment], segments: Sequence[Segment], point: LengthPoint, what: str
) -> Excerpt:
    """Return the excerpt of a source around the damage of an edit list.

    Whole clips and gaps are in it or not. A smaller share is within a larger one at the same position, since
    the ends move apart as the share grows.

    Parameters
    ----------
    source_units
        The whole source.
    segments
        The edit list of the whole low side.
    what
        What is cut, for the message.

    Raises
    ------
    SetAside
        `no_arrangement` if the damage does not fit, the source has no room for the position, or its clips are
        too long for the share.
    """
    first, last = _damaged_units(source_units, segments, what)
    total = source_units[-1].first_frame + source_units[-1].frame_count
    middle = (source_units[first].first_frame + _end(source_units[last])) / 2
    length = point.share * total
    start = min(max(middle - _MIDDLES.get(point.position, middle / total) * length, 0), total - length)
    inside = [
        unit
        for index, unit in enumerate(source_units)
        if first <= index <= last or start <= (unit.first_frame + _end(unit)) / 2 < start + length
    ]
    begin, end = inside[0].first_frame, _end(inside[-1])
    found = (middle - begin) / (end - begin)
    if not 1 / _TOLERANCE <= (end - begin) / length <= _TOLERANCE:
        problem = f"its clips give {(end - begin) / total:.2g} of its length"
    elif point.position != "own" and _third(found) != point.position:
        problem = "there is too little of the film on one side of the damage"
    else:
        return Excerpt(
            share=point.share,
            position=point.position,
            first_frame=begin,
            frame_count=end - begin,
            source_frames=total,
            damage_at=round(found, 4),
        )
    raise SetAside(
        Reason.NO_ARRANGEMENT, f"{what} cannot have {point.text} of the film around its damage: {problem}"
    )


def _end(unit: Segment) -> int:
    return unit.first_frame + unit.frame_count


def _third(found: float) -> Position:
    return "early" if found < 1 / 3 else "middle" if found < 2 / 3 else "late"


def _damaged_units(
    source_units: Sequence[Segment], segments: Sequence[Segment], what: str
) -> tuple[int, int]:
    """Return the first and the last unit that an excerpt needs.

    These are the changed or moved ones; of removed ones also the neighbours, between which the join is.

    Raises
    ------
    SetAside
        `no_arrangement` if nothing is changed.
    """
    present = {segment.first_frame for segment in segments}
    removed = [index for index, unit in enumerate(source_units) if unit.first_frame not in present]
    if removed:
        return max(removed[0] - 1, 0), min(removed[-1] + 1, len(source_units) - 1)
    changed = [
        index
        for index, (unit, shown) in enumerate(zip(source_units, segments, strict=True))
        if shown.kind == "degraded" or shown.moved or unit.first_frame != shown.first_frame
    ]
    if not changed:
        raise SetAside(Reason.NO_ARRANGEMENT, f"{what} changes nothing: there is no damage to show")
    return changed[0], changed[-1]


def within(some: Sequence[Segment], excerpt: Excerpt) -> list[Segment]:
    """Return the segments of an excerpt, in their order."""
    end = excerpt.first_frame + excerpt.frame_count
    return [one for one in some if excerpt.first_frame <= one.first_frame < end]


def rebased(some: Sequence[Segment], first_frame: int) -> list[Segment]:
    """Return segments whose frames are counted from an excerpt's first one."""
    if not first_frame:
        return list(some)
    return [one.model_copy(update={"first_frame": one.first_frame - first_frame}) for one in some]


def rebased_record(record: PairRecord) -> PairRecord:
    """Return a record whose edit list counts frames from the high side's first one."""
    if not record.first_frame:
        return record
    return record.model_copy(update={"segments": tuple(rebased(record.segments, record.first_frame))})


def excerpt_problems(record: PairRecord, source_frames: int) -> list[str]:
    """Return the problems of a pair's excerpt as messages; the edit list is checked by others."""
    excerpt = record.excerpt
    if excerpt is None:
        return []
    problems = []
    if excerpt.source_frames != source_frames:
        problems.append(f"the source has {source_frames} frames, the excerpt says {excerpt.source_frames}")
    if excerpt.first_frame + excerpt.frame_count > source_frames:
        problems.append("the excerpt leaves the source")
    if excerpt.frame_count != record.high_frames:
        problems.append("the high side does not have the frames of the excerpt")
    in_source = sorted(record.segments, key=lambda one: one.first_frame)
    if record.low_frames == record.high_frames and any(
        _end(before) != after.first_frame for before, after in pairwise(in_source)
    ):
        problems.append("the excerpt has a hole")
    return problems
