"""One pair as a worker sees it: prompt, videos, and the stretches to watch before rating."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.rng import keyed_rank
from storage_schemas.source import ClipRow
from storage_schemas.votes import Check, SideWord, check_of
from tasks.pairs.intervals import merged

#: The change: the clip was degraded, removed (high side), joined over (low side), or moved.
StretchKind = Literal["degraded", "removed", "join", "moved"]


class Stretch(Frozen):
    """One stretch of one video that must be watched, in seconds of that video.

    `note` describes what the operation chose for this clip (an object, a colour, a style); empty if it chose
    nothing. Its words come from a caption, so treat it as untrusted text.
    """

    video: SideWord
    start_s: float
    end_s: float
    kind: StretchKind
    note: str = ""


def must_see(record: PairRecord, clips: Sequence[ClipRow]) -> tuple[Stretch, ...]:
    """Return the stretches of a pair to be watched: first those of the high side, then the low side, by time.

    Clips changed in place are watched on the low side. Removed clips are watched on the high side, and their
    joins ± 2 s on the low side; overlapping joins are one stretch. Moved clips are watched on both sides.

    Raises
    ------
    UserInputError
        If the edit list has no such stretch, so that the damage cannot be rated.
    """
    remaining = {segment.clip for segment in record.segments}
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
        if clip.frame_count and (clip.clip in moved or (clip.clip in drawn and clip.clip not in remaining))
    ]
    low: list[Stretch] = []
    position = 0
    for segment in record.segments:
        if segment.kind == "degraded" or segment.moved:
            low.append(
                Stretch(
                    video="low",
                    start_s=position / record.fps,
                    end_s=(position + segment.frame_count) / record.fps,
                    kind="moved" if segment.moved else "degraded",
                    note=_note(record.choices.get(str(segment.clip))),
                )
            )
        position += segment.frame_count
    trimmed = any(segment.kind == "trimmed" for segment in record.segments)
    if trimmed:
        high = [
            Stretch(video="high", start_s=start, end_s=end, kind="removed")
            for start, end in record.high_intervals
        ]
    if drawn - remaining or trimmed:
        joins = record.low_intervals
        low += [Stretch(video="low", start_s=start, end_s=end, kind="join") for start, end in joins]
    if not low:
        raise UserInputError(f"pair {record.pair_id} has no degraded clip: it cannot be annotated")
    return (*high, *sorted(low, key=lambda stretch: stretch.start_s))


def _note(choice: Any) -> str:
    """Describe an operation's choice for a clip briefly, in the caption's words."""
    if not isinstance(choice, Mapping):
        return ""
    thing = str(choice.get("object") or choice.get("subject") or choice.get("style") or "")
    if "new_color" in choice:
        return f"{thing}: {choice.get('color', '')} → {choice['new_color']}"
    return thing


#: Unchanged stretches are as long as changed ones, as far as the clips allow: one of this many that fit best.
_BEST_FITTING = 3


def first_look(
    pair_id: str, stretches: Sequence[Stretch], clips: Sequence[ClipRow], fps: float
) -> tuple[tuple[float, float], ...]:
    """Return what is looked at first in both videos of a pair, in seconds, in order, without overlap.

    It is everything that is changed on either side, among as many unchanged clips of similar length, where
    there are enough. As it is the same for both sides, it does not reveal which one is changed.

    Parameters
    ----------
    stretches
        Parts to watch before rating, see :func:`must_see`.
    """
    changed = merged([(stretch.start_s, stretch.end_s) for stretch in stretches])
    spans = [(clip.first_frame / fps, (clip.first_frame + clip.frame_count) / fps) for clip in clips]
    free = [
        (start, end)
        for start, end in spans
        if start < end and all(end <= first or start >= last for first, last in changed)
    ]
    others = []
    for start, end in changed[: len(free)]:
        best = sorted(free, key=lambda span: abs(span[1] - span[0] - (end - start)))[:_BEST_FITTING]
        chosen = min(best, key=lambda span: keyed_rank(pair_id, "first look", f"{span[0]:.3f}"))
        free.remove(chosen)
        others.append(chosen)
    return merged([*changed, *others])


Place = Literal["left", "right"]
PLACES: tuple[Place, Place] = ("left", "right")
SIDES: tuple[SideWord, SideWord] = ("high", "low")
#: Maximum length of a stored comment, in characters.
MAX_COMMENT_LENGTH = 4000
#: Rows of (second, byte): media from that second on is at or after that byte of the file.
ByteIndex = tuple[tuple[float, int], ...]


class PromptClip(Frozen):
    """A part of the prompt: a clip's caption, and when the high side shows it, in seconds.

    `translation` is empty if there is none.
    """

    start_s: float
    end_s: float
    caption: str
    translation: str = ""


class PairMedia(Frozen):
    """The two files of a pair.

    Parameters
    ----------
    high_file, low_file
        Paths relative to the media folder.
    high_bytes, low_bytes
        Sizes of the files.
    high_index, low_index
        Position of each second in the file, so that the server can check whether what is reported as played
        was ever sent. If unknown, it is empty, and bytes count by their share of the file.
    """

    high_file: str
    low_file: str
    high_bytes: int
    low_bytes: int
    high_index: ByteIndex = ()
    low_index: ByteIndex = ()


class PairTask(PairMedia):
    """One pair as a task.

    Parameters
    ----------
    prompt_clips
        All clips of the source in order.
    high_s, low_s
        Length of the two videos in seconds.
    must_see
        Parts that a worker must watch before rating; a stretch's number is its index here.
    first_look
        Part of both videos that a worker watches before the preference; see :func:`first_look`.
    gold
        Whether the pair is a gold pair, which checks how carefully workers look.
    control
        Whether it is a control, in which no side is better.
    """

    kind: Literal["pair"] = "pair"
    pair_id: str
    source_id: str
    aspect: str
    prompt_clips: tuple[PromptClip, ...]
    high_s: float
    low_s: float
    must_see: tuple[Stretch, ...]
    first_look: tuple[tuple[float, float], ...]
    gold: bool = False
    control: bool = False

    @property
    def id(self) -> str:
        """Id of the task: the pair's."""
        return self.pair_id

    @property
    def check(self) -> Check | None:
        """Purpose of the task; None for a pair of the release."""
        return check_of(self.pair_id)[1]

    @property
    def group(self) -> str:
        """The group for the queue's balance and for progress: the aspect."""
        return self.aspect

    @property
    def fixed(self) -> object:
        """What may not change while a campaign runs."""
        return self.must_see

    def seconds(self, side: SideWord) -> float:
        """Return the duration of a side's video in seconds."""
        return self.high_s if side == "high" else self.low_s

    @property
    def videos_s(self) -> float:
        """The length of both videos together in seconds."""
        return self.high_s + self.low_s

    def looks(self, side: SideWord) -> tuple[tuple[float, float], ...]:
        """Return what is looked at first in a side's video, which may be the shorter one."""
        seconds = self.seconds(side)
        return tuple((start, min(end, seconds)) for start, end in self.first_look if start < seconds)

    def watch_s(self, look_share: float | None) -> float:
        """Return how long its videos must be watched, in seconds at normal speed.

        Both play side by side. First the worker watches the stretches, or the share, of both; after the
        preference, the changed parts, of which those at the same time in both videos count once.

        Parameters
        ----------
        look_share
            The campaign's share of each video that is looked at first; 0 for the stretches, None for
            free viewing, which counts whole videos.
        """
        if look_share is None:
            # in free viewing both are watched before the answer, and changed parts are only marked later
            return max(self.high_s, self.low_s)
        look_s = max(
            look_share * self.seconds(side) or sum(end - start for start, end in self.looks(side))
            for side in SIDES
        )
        changed = merged([(stretch.start_s, stretch.end_s) for stretch in self.must_see])
        return look_s + sum(end - start for start, end in changed)

    def bytes_of(self, side: SideWord) -> int:
        """Return the size of a side's file in bytes."""
        return self.high_bytes if side == "high" else self.low_bytes

    def index_of(self, side: SideWord) -> ByteIndex:
        """Return the byte index of a side's file; empty if unknown."""
        return self.high_index if side == "high" else self.low_index

    def file_of(self, side: SideWord) -> str:
        """Return a side's file, relative to the media folder."""
        return self.high_file if side == "high" else self.low_file


def task_of(
    release: Release,
    record: PairRecord,
    media: PairMedia,
    translations: Mapping[int, str] | Sequence[str] = (),
    gold: bool = False,
) -> PairTask:
    """Return a pair of a release as a task.

    Parameters
    ----------
    media
        The pair's two files.
    translations
        Translated captions by clip index; other clips are shown without one.
    gold
        Whether it is a gold pair, which checks how carefully workers look.

    Raises
    ------
    UserInputError
        If the pair has no degraded clip, so that the damage cannot be rated.
    """
    clips = release.clips(record.source_id)
    stretches = must_see(record, clips)
    words = translations if isinstance(translations, Mapping) else dict(enumerate(translations))
    values: dict[str, Any] = media.model_dump()
    return PairTask(
        pair_id=record.pair_id,
        source_id=record.source_id,
        aspect=record.aspect,
        prompt_clips=tuple(
            PromptClip(
                start_s=clip.start_s,
                end_s=clip.end_s,
                caption=clip.caption,
                translation=words.get(clip.clip, ""),
            )
            for clip in clips
        ),
        high_s=record.high_frames / record.fps,
        low_s=record.low_frames / record.fps,
        must_see=stretches,
        first_look=first_look(record.pair_id, stretches, clips, record.fps),
        gold=gold,
        control=record.control,
        **values,
    )
