"""Pairs made of a user's own video files, with a prompt, an aspect and a gold answer; no build needed."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from storage_schemas.checksum_cache import remembered_digests
from storage_schemas.errors import Reason, SetAside, UserInputError, suggestion
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.ids import digest_value
from storage_schemas.model import Frozen
from storage_schemas.regular_files import check_regular, in_either_form, read_regular, why_unread
from storage_schemas.value_problems import first_error
from tasks.aspects.registry import aspect_names
from tasks.media.decode import FrameSampler, SampledFrame
from tasks.pairs.view import Pair, Side
from tasks.sources.base import check_id

Gold = Literal["a", "b", "tie"]

#: Decoded frames cached by each side: 14 MB at 512×288.
KEPT_FRAMES = 64


class VideoSide(Side):
    """A video file as a side of a pair, sampled like a source; frames are read on first access.

    If the packets tell which pictures are needed, only those are decoded, starting at the preceding key
    frame. Otherwise a random access decodes the video from its beginning; sequential access decodes it once.

    Parameters
    ----------
    path
        The video file.
    fps, long_side
        Sampling rate in frames a second, and longer side in pixels.

    Raises
    ------
    SetAside
        On first access, if the video cannot be used; see :class:`tasks.media.decode.FrameSampler`.
    """

    def __init__(self, path: Path, fps: Fraction = Fraction(1), long_side: int = 512) -> None:
        self.path = path
        self.fps = float(fps)
        self._rate, self._long_side = fps, long_side
        self._kept: OrderedDict[int, Planes] = OrderedDict()
        self._ahead: tuple[int, Iterator[SampledFrame]] | None = None
        # end of the last packet-plan read; the initial value is so far back that no read follows it
        self._stopped = -(1 << 40)
        # threads share one decoder
        self._lock = threading.RLock()

    @cached_property
    def sampler(self) -> FrameSampler:
        """Sampler that selects and decodes the frames."""
        return FrameSampler(self.path, fps=self._rate, long_side=self._long_side)

    @cached_property
    def width(self) -> int:  # type: ignore[override]
        """Width of the frames in pixels."""
        return self.sampler.size[0]

    @cached_property
    def height(self) -> int:  # type: ignore[override]
        """Height of the frames in pixels."""
        return self.sampler.size[1]

    @cached_property
    def color(self) -> ColorSpec:  # type: ignore[override]
        """Matrix and range of the planes."""
        return ColorSpec(self.sampler.info.matrix, self.sampler.info.full_range)

    @cached_property
    def _extent(self) -> tuple[int, int]:
        """Index of the first frame and the frame count; decodes the video once if the packets do not tell."""
        if self.sampler.first_index is not None and self.sampler.frame_count:
            return self.sampler.first_index, self.sampler.frame_count
        first, count = 0, 0
        for frame in self.sampler:
            if not count:
                first = frame.index
            if count < KEPT_FRAMES:
                self._keep(count, frame.planes)
            count += 1
        return first, count

    def __len__(self) -> int:
        """Return the number of frames."""
        with self._lock:
            return self._extent[1]

    @cached_property
    def family(self) -> str:
        """SHA-256 of the file, cached while the file does not change."""
        try:
            return remembered_digests(self.path.parent, [self.path.name])[self.path.name]
        except OSError as problem:
            raise SetAside(
                Reason.VIDEO_MISSING, f"{self.path} cannot be read ({problem.strerror}): put it back"
            ) from problem

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return frame identities made of the file's content, the sampling and the index."""
        sampling = f"{self.family}:{self._rate}:{self._long_side}"
        return [f"{sampling}:{index}" for index in indices]

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return frames by index as ``(n, H·3/2, W)`` uint8; adjacent frames are decoded together.

        Raises
        ------
        IndexError
            If an index is outside the video.
        """
        with self._lock:
            return self._read(indices)

    def _read(self, indices: Sequence[int]) -> Planes:
        frames: dict[int, Planes] = {}
        missing: list[int] = []
        for index in sorted(set(indices)):
            if not 0 <= index < len(self):
                raise IndexError(f"frame {index} of {len(self)} of {self.path}")
            if index in self._kept:
                self._kept.move_to_end(index)
                frames[index] = self._kept[index]
            else:
                missing.append(index)
        for start, stop in _runs(missing):
            frames.update(self._decode(start, stop))
        if not frames:
            return np.empty((0, self.height * 3 // 2, self.width), np.uint8)
        return np.stack([frames[index] for index in indices])

    def _decode(self, start: int, stop: int) -> dict[int, Planes]:
        first = self._extent[0]
        frames: dict[int, Planes] = {}
        for frame in self._from(first + start, first + stop):
            if first + start <= frame.index < first + stop:
                frames[frame.index - first] = frame.planes
                self._keep(frame.index - first, frame.planes)
            if frame.index == first + stop - 1:
                break
        if len(frames) != stop - start:
            raise SetAside(
                Reason.VIDEO_CHANGED,
                f"{self.path} has fewer frames than when it was opened: do not change it while it is read",
            )
        return frames

    def _from(self, start: int, stop: int) -> Iterator[SampledFrame]:
        """Yield the sampler's frames from `start` on, continuing an earlier read where possible."""
        at, frames = self._ahead or (0, iter(()))
        if self.sampler.mode == "packet_plan":
            # continue a read that ended at most one second earlier: a new one would decode from the key frame
            follows, self._stopped = 0 <= start - self._stopped <= self.fps, stop
            if not follows:
                yield from self.sampler.frames(start, stop)
                return
            continues = self._ahead is not None and 0 <= start - at <= self.fps
        else:
            # a new read would decode the video from its beginning
            continues = self._ahead is not None and at <= start
        if not continues:
            at, frames = start, self.sampler.frames(start)
        self._ahead = None
        for frame in frames:
            at = frame.index + 1
            self._ahead = (at, frames)
            yield frame
        self._ahead = None

    def _keep(self, index: int, planes: NDArray[np.uint8]) -> None:
        self._kept[index] = planes
        while len(self._kept) > KEPT_FRAMES:
            self._kept.popitem(last=False)


def _runs(indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield ``(start, stop)`` of each run of consecutive numbers in sorted indices."""
    start = 0
    for end in range(1, len(indices) + 1):
        if end == len(indices) or indices[end] != indices[end - 1] + 1:
            yield indices[start], indices[end - 1] + 1
            start = end


def open_video_pair(
    first: Path | str,
    second: Path | str,
    prompt: str,
    aspect: str,
    gold: Gold,
    *,
    id_: str | None = None,
    fps: Fraction = Fraction(1),
    long_side: int = 512,
) -> Pair:
    """Open two video files as a pair, without a build; frames are read on first access.

    Parameters
    ----------
    first, second
        The videos a and b.
    gold
        Which video is better for the aspect. It becomes the pair's `high`; for a tie, a does.
    id_
        Id of the pair; by default derived from the file names, the prompt and the aspect.
    fps, long_side
        Sampling rate in frames a second, and longer side in pixels. A video shorter than half a second needs
        a rate above 1 to have a frame.

    Raises
    ------
    UserInputError
        If a video does not exist, or the aspect, gold answer or rate is not valid.
    """
    first, second = in_either_form(Path(first)), in_either_form(Path(second))
    for path in (first, second):
        try:
            check_regular(path)
        except FileNotFoundError as problem:
            raise UserInputError(f"no video {path}") from problem
        except OSError as problem:
            raise UserInputError(f"{path} is not a video: {why_unread(problem)}") from problem
    if aspect not in aspect_names():
        raise UserInputError(f"no aspect {aspect!r}: {suggestion(aspect, aspect_names(), 'there are')}")
    if gold not in ("a", "b", "tie"):
        raise UserInputError(f"gold is {gold!r}: say a, b or tie")
    if fps <= 0:
        raise UserInputError(f"fps is {fps}: give a number above 0")
    sides = [VideoSide(path, fps, long_side) for path in (first, second)]
    if gold == "b":
        sides.reverse()
    return Pair(
        id=id_ or f"b{digest_value([first.name, second.name, prompt, aspect])[:20]}",
        aspect=aspect,
        prompt=prompt,
        high=sides[0],
        low=sides[1],
        high_intervals=(),
        low_intervals=(),
        record=None,
        details={"gold": gold, "video_a": str(first), "video_b": str(second)},
    )


class FilePair(Frozen):
    """One line of a pairs file; paths are relative to the file's folder."""

    id: str
    video_a: str = Field(min_length=1)
    video_b: str = Field(min_length=1)
    prompt: str
    aspect: str
    gold: Gold


def read_pairs_file(path: Path, *, fps: Fraction = Fraction(1), long_side: int = 512) -> list[Pair]:
    """Open the pairs of a JSON Lines file, one pair per line; no video is opened yet.

    Each line has exactly the keys `id`, `video_a`, `video_b`, `prompt`, `aspect` and `gold` (``a``, ``b`` or
    ``tie``); empty lines are skipped.

    Raises
    ------
    UserInputError
        If the file or a video is missing, or a line is not valid; the message names the file and the line.
    """
    try:
        lines = read_regular(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as problem:
        raise UserInputError(f"pairs file {path}: {problem.strerror}") from problem
    pairs: list[Pair] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            pair = _read_line(line, path.parent, fps, long_side)
        except UserInputError as problem:
            raise UserInputError(f"pairs file {path}, line {number}: {problem}") from problem
        if pair.id in seen:
            raise UserInputError(
                f"pairs file {path}, line {number}: line {seen[pair.id]} has the id {pair.id!r} already"
            )
        seen[pair.id] = number
        pairs.append(pair)
    if not pairs:
        raise UserInputError(f"pairs file {path} has no pairs: write one JSON object per line")
    return pairs


def _read_line(line: bytes, folder: Path, fps: Fraction, long_side: int) -> Pair:
    try:
        values: Any = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise UserInputError(f"not UTF-8 at byte {problem.start}") from problem
    except json.JSONDecodeError as problem:
        raise UserInputError(f"not JSON at character {problem.pos + 1}") from problem
    if not isinstance(values, dict):
        raise UserInputError(f"a pair is a JSON object, this is a {type(values).__name__}")
    try:
        pair = FilePair.model_validate(values)
        check_id(pair.id, "id")
    except ValidationError as problem:
        raise UserInputError(first_error(problem, FilePair.model_fields)) from problem
    except SetAside as problem:
        raise UserInputError(problem.message) from problem
    return open_video_pair(
        folder / pair.video_a,
        folder / pair.video_b,
        pair.prompt,
        pair.aspect,
        pair.gold,
        id_=pair.id,
        fps=fps,
        long_side=long_side,
    )
