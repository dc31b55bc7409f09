"""A pair as two lazy frame sequences: frames are read on access."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from textwrap import shorten
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import UserInputError
from storage_schemas.frames import ColorSpec, FrameReader, Planes
from storage_schemas.ids import digest_frame, digest_text
from storage_schemas.pair import Interval, PairRecord, Segment
from storage_schemas.release import Release, clip_path, frames_path
from storage_schemas.store import Store
from tasks.media.planes import planes_to_rgb

_BATCH = 16


#: What a notebook shows of a side and of a prompt; pixels of a picture.
_SHOWN_FRAMES, _SHOWN_CHARACTERS, _THUMBNAIL = 5, 300, (160, 160)


class Side(ABC):
    """One video of a pair as a lazy sequence of frames.

    ``side[7]`` is one frame ``(H·3/2, W)`` uint8, ``side[10:20]`` another lazy :class:`Side`. Frame k is
    shown from ``times_s[k]``, in seconds of this video.
    """

    width: int
    height: int
    color: ColorSpec
    fps: float

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of frames."""

    def __repr__(self) -> str:
        """Return number and size of the frames."""
        return f"<Side: {len(self)} frames of {self.width} × {self.height} at {self.fps:g} fps>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: some frames, evenly apart."""
        count = min(_SHOWN_FRAMES, len(self))
        indices = [round(at) for at in np.linspace(0, len(self) - 1, count)] if count else []
        pictures = "".join(_picture(self.rgb(index), f"{self.times_s[index]:.0f} s") for index in indices)
        return f"<figure>{pictures}<figcaption>{escape(repr(self)[1:-1])}</figcaption></figure>"

    @abstractmethod
    def planes(self, indices: Sequence[int]) -> Planes:
        """Return frames by index as ``(n, H·3/2, W)`` uint8."""

    @property
    def times_s(self) -> NDArray[np.float64]:
        """When each frame is shown, in seconds of this video, shape (n,)."""
        return np.arange(len(self)) / self.fps

    @property
    def family(self) -> str:
        """Id shared by all videos made of the same frames, such as a source's; empty if unknown."""
        return ""

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return the identity of frames: equal ids mean equal pixels, in planes and in RGB.

        This implementation reads the frames. Subclasses that identify frames without reading them may return
        different ids for equal pixels.
        """
        look = _look(self)
        ids: list[str] = []
        for start in range(0, len(indices), _BATCH):
            ids += [
                f"{digest_frame(frame):016x}{look}" for frame in self.planes(indices[start : start + _BATCH])
            ]
        return ids

    def identity(self) -> str:
        """Return a checksum of all frames in order and of the frame rate."""
        return digest_text("\n".join([f"{self.fps!r}", *self.frame_ids(range(len(self)))]))

    @overload
    def __getitem__(self, index: int) -> Planes: ...
    @overload
    def __getitem__(self, index: slice) -> Side: ...
    def __getitem__(self, index: int | slice) -> Planes | Side:
        """Return one frame's planes, or a lazy side for a slice."""
        if isinstance(index, slice):
            return SideSlice(self, range(len(self))[index])
        at = range(len(self))[index]
        frame: Planes = self.planes([at])[0]
        return frame

    def __iter__(self) -> Iterator[Planes]:
        """Yield every frame's planes in order, reading them in batches."""
        for start in range(0, len(self), _BATCH):
            yield from self.planes(range(start, min(start + _BATCH, len(self))))

    def rgb(self, index: int) -> NDArray[np.uint8]:
        """Return one frame as RGB, ``(H, W, 3)`` uint8."""
        view: NDArray[np.uint8] = planes_to_rgb(self[index][None], self.color)[0]
        return view


def _look(side: Side) -> str:
    """Return what determines a frame's RGB pixels besides the bytes of its planes."""
    reach = "full" if side.color.full_range else "limited"
    return f":{side.width}x{side.height}:{side.color.matrix}:{reach}"


class SideSlice(Side):
    """A slice of a side; its times are those of the whole video."""

    def __init__(self, whole: Side, indices: range) -> None:
        self._whole, self._indices = whole, indices
        self.width, self.height, self.color, self.fps = whole.width, whole.height, whole.color, whole.fps

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._indices)

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return frames by index within the slice."""
        return self._whole.planes([self._indices[index] for index in indices])

    @property
    def family(self) -> str:
        """Family of the whole video."""
        return self._whole.family

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return the identity of frames by index within the slice."""
        return self._whole.frame_ids([self._indices[index] for index in indices])

    @property
    def times_s(self) -> NDArray[np.float64]:
        """When each frame is shown, in seconds of the whole video."""
        return self._whole.times_s[np.asarray(self._indices, dtype=np.intp)]


class StoredSide(Side):
    """A side assembled from stored frames by an edit list; the high side is one segment, the whole source."""

    def __init__(self, store: Store, frames_id: str, segments: Sequence[Segment], fps: float) -> None:
        self._store, self._segments, self._frames_id = store, segments, frames_id
        self._ends = list(accumulate(segment.frame_count for segment in segments))
        self._source = FrameReader(frames_path(store, frames_id))
        self._clips: dict[str, FrameReader] = {}
        self.width, self.height = self._source.width, self._source.height
        self.color, self.fps = self._source.color, fps

    def __len__(self) -> int:
        """Return the number of frames."""
        return self._ends[-1] if self._ends else 0

    def locate(self, index: int) -> tuple[Segment, FrameReader, int]:
        """Return a frame's segment, the array it is read from and its index in that array.

        Raises
        ------
        IndexError
            If the index is outside the side.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"frame {index} of {len(self)}")
        at = bisect_right(self._ends, index)
        segment = self._segments[at]
        offset = index - (self._ends[at] - segment.frame_count)
        if segment.degraded_clip is not None:
            return segment, self._clip(segment.degraded_clip), offset
        if segment.frame_map is not None:
            return segment, self._source, segment.frame_map[offset]
        return segment, self._source, segment.first_frame + offset

    def _clip(self, id_: str) -> FrameReader:
        if id_ not in self._clips:
            self._clips[id_] = FrameReader(clip_path(self._store, id_))
        return self._clips[id_]

    @property
    def family(self) -> str:
        """Id of the source's frames, shared by both sides and all aspects."""
        return self._frames_id

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return frame identities from the stored checksums; no frame is read."""
        look = _look(self)
        located = [self.locate(index)[1:] for index in indices]
        return [f"{int(reader.digests[index]):016x}{look}" for reader, index in located]

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return frames by index; adjacent frames of one array are read together."""
        located = [self.locate(index)[1:] for index in indices]
        parts: list[Planes] = []
        start = 0
        for end in range(1, len(located) + 1):
            reader, first = located[start]
            follows = end < len(located) and located[end] == (reader, first + end - start)
            if not follows:
                parts.append(reader.read(first, end - start))
                start = end
        if not parts:
            return np.empty((0, self.height * 3 // 2, self.width), np.uint8)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _picture(rgb: NDArray[np.uint8], title: str) -> str:
    """Return a small picture as HTML."""
    import base64
    from io import BytesIO

    from PIL import Image

    image, file = Image.fromarray(rgb), BytesIO()
    image.thumbnail(_THUMBNAIL)
    image.save(file, "JPEG", quality=80)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img src="data:image/jpeg;base64,{data}" title="{title}" style="display: inline">'


@dataclass(frozen=True, repr=False)
class Pair:
    """A prompt, its high-quality and its low-quality video, and the aspect in which they differ.

    `high_intervals` and `low_intervals` are the degraded intervals in seconds of each side's own timeline;
    empty if unknown, as for a pair of user-supplied files.
    """

    id: str
    aspect: str
    prompt: str
    high: Side
    low: Side
    high_intervals: tuple[Interval, ...]
    low_intervals: tuple[Interval, ...]
    record: PairRecord | None
    details: dict[str, Any]

    def __repr__(self) -> str:
        """Return id, aspect and lengths; the prompt of a long video is long."""
        return f"<Pair {self.id[:12]}, {self.aspect}: {len(self.high)} and {len(self.low)} frames>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: frames of the first damage, and the prompt's beginning."""
        seen = [
            side if not intervals else side[slice(*(int(at * side.fps) for at in intervals[0]))]
            for side, intervals in ((self.high, self.high_intervals), (self.low, self.low_intervals))
        ]
        sides = "".join(
            f"<tr><th>{name}</th><td>{side._repr_html_()}</td></tr>"
            for name, side in zip(("high", "low"), seen, strict=True)
        )
        prompt = shorten(self.prompt, _SHOWN_CHARACTERS, placeholder=" …")
        return f"<p>{escape(repr(self)[1:-1])}</p><table>{sides}</table><p>{escape(prompt)}</p>"


def high_segment(record: PairRecord) -> Segment:
    """Return the single segment of the high-quality side."""
    return Segment(kind="source", clip=None, first_frame=record.first_frame, frame_count=record.high_frames)


def open_record(store: Store, record: PairRecord, prompt: str) -> Pair:
    """Open a pair from its record; frames are read on access.

    Raises
    ------
    StoreError
        If the source's frames were evicted.
    """
    return Pair(
        id=record.pair_id,
        aspect=record.aspect,
        prompt=prompt,
        high=StoredSide(store, record.frames_id, [high_segment(record)], record.fps),
        low=StoredSide(store, record.frames_id, record.segments, record.fps),
        high_intervals=record.high_intervals,
        low_intervals=record.low_intervals,
        record=record,
        details={"operation": record.operation, "parameters": record.parameters, "gold": "high"},
    )


def open_pair(store: Store, release: Release, pair_id: str) -> Pair:
    """Open a pair of a release by its id or an unambiguous prefix of it."""
    record = release.pair(pair_id)
    if not record.segments:
        raise UserInputError(f"pair {pair_id} has an empty edit list")
    return open_record(store, record, release.prompt_of(record))
