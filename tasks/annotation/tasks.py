"""One pair as it is put before a worker: prompt, files, and what has to be seen of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from storage_schemas.model import Frozen
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.votes import SideWord
from tasks.annotation.intervals import Stretch, must_see

Place = Literal["left", "right"]
PLACES: tuple[Place, Place] = ("left", "right")
#: Rows of (second, byte): from the second on, media lie at or after that byte of the file.
ByteIndex = tuple[tuple[float, int], ...]


class PromptClip(Frozen):
    """A part of the prompt: a clip's caption and when the clip is shown, in seconds of the high side.

    `translation` is empty where there is none.
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
        Paths relative to the folder of media.
    high_bytes, low_bytes
        Sizes of the files.
    high_index, low_index
        Where in the file each second lies, by which the server knows whether what was claimed as seen was
        ever sent; empty where it is not known: then bytes count by their share of the file.
    """

    high_file: str
    low_file: str
    high_bytes: int
    low_bytes: int
    high_index: ByteIndex = ()
    low_index: ByteIndex = ()


class PairTask(PairMedia):
    """One pair as it is shown.

    Parameters
    ----------
    prompt_clips
        All clips of the source in order.
    high_s, low_s
        Length of the two videos in seconds.
    must_see
        What a worker has to see before the rating; a stretch's number is its place here.
    gold
        Whether the pair is mixed in to see how well the worker looks.
    """

    pair_id: str
    source_id: str
    aspect: str
    prompt_clips: tuple[PromptClip, ...]
    high_s: float
    low_s: float
    must_see: tuple[Stretch, ...]
    gold: bool = False

    def seconds(self, side: SideWord) -> float:
        """Return how long a side's video is."""
        return self.high_s if side == "high" else self.low_s

    def bytes_of(self, side: SideWord) -> int:
        """Return how large a side's file is."""
        return self.high_bytes if side == "high" else self.low_bytes

    def index_of(self, side: SideWord) -> ByteIndex:
        """Return where in a side's file its seconds lie; empty where it is not known."""
        return self.high_index if side == "high" else self.low_index

    def file_of(self, side: SideWord) -> str:
        """Return a side's file, relative to the folder of media."""
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
        Its two files.
    translations
        Translated captions by clip index; clips without one are shown without.
    gold
        Whether it is mixed in to see how well workers look.

    Raises
    ------
    UserInputError
        If the pair has nothing that is degraded: nobody could say whether the damage is visible.
    """
    clips = release.clips(record.source_id)
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
        must_see=must_see(record, clips),
        gold=gold,
        **values,
    )
