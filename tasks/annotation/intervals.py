"""Which stretches of the two videos a worker has to see before rating a pair (SPEC, section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from storage_schemas.pair import PairRecord
from storage_schemas.source import ClipRow
from storage_schemas.votes import SideWord

#: What happened there: the clip was degraded, removed (high side), joined over (low side), or moved.
StretchKind = Literal["degraded", "removed", "join", "moved"]


class Stretch(Frozen):
    """One stretch of one video that has to be seen; seconds of that video's own time line.

    `note` says what the operation chose for this clip (a thing, a colour, a style), empty where it chose
    nothing; words of a caption, so text of others.
    """

    video: SideWord
    start_s: float
    end_s: float
    kind: StretchKind
    note: str = ""


def must_see(record: PairRecord, clips: Sequence[ClipRow]) -> tuple[Stretch, ...]:
    """Return what has to be seen of a pair: first on the high side, then on the low side, each by time.

    Clips that were changed in place have to be seen on the low side, where the damage is. For removed clips
    it is each clip on the high side and the joins ± 2 s on the low side, joins that overlap as one. For moved
    clips it is each clip on both sides, where it stands there.

    Raises
    ------
    UserInputError
        If the edit list has nothing of the kind: nobody could say whether the damage is visible.
    """
    there = {segment.clip for segment in record.segments}
    moved = {segment.clip for segment in record.segments if segment.moved}
    drawn = set(record.drawn_clips)
    high = [
        Stretch(
            video="high",
            start_s=clip.first_frame / record.fps,
            end_s=(clip.first_frame + clip.frame_count) / record.fps,
            kind="moved" if clip.clip in moved else "removed",
        )
        for clip in sorted(clips, key=lambda clip: clip.first_frame)
        if clip.frame_count and (clip.clip in moved or (clip.clip in drawn and clip.clip not in there))
    ]
    low: list[Stretch] = []
    place = 0
    for segment in record.segments:
        if segment.kind == "degraded" or segment.moved:
            low.append(
                Stretch(
                    video="low",
                    start_s=place / record.fps,
                    end_s=(place + segment.frame_count) / record.fps,
                    kind="moved" if segment.moved else "degraded",
                    note=_note(record.choices.get(str(segment.clip))),
                )
            )
        place += segment.frame_count
    if drawn - there:
        joins = record.low_intervals
        low += [Stretch(video="low", start_s=start, end_s=end, kind="join") for start, end in joins]
    if not low:
        raise UserInputError(f"pair {record.pair_id} has nothing that is degraded: it cannot be annotated")
    return (*high, *sorted(low, key=lambda stretch: stretch.start_s))


def _note(choice: Any) -> str:
    """Return what an operation chose for a clip, in short and in no language but the caption's."""
    if not isinstance(choice, Mapping):
        return ""
    thing = str(choice.get("object") or choice.get("subject") or choice.get("style") or "")
    if "new_color" in choice:
        return f"{thing}: {choice.get('color', '')} → {choice['new_color']}"
    return thing
