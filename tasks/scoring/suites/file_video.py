"""A generated video's file as a lazy frame sequence, at its own frame rate unless the user says otherwise."""

from __future__ import annotations

import threading
from collections import OrderedDict
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from tasks.media.probe import probe
from tasks.pairs.file_pairs import VideoSide
from tasks.pairs.view import Side

#: Frames per second of a file without a rate, such as a picture.
UNKNOWN_RATE = Fraction(24)
#: Maximum number of videos a process keeps open, besides those in use; each caches at most 64 frames.
OPEN_VIDEOS = 8


class FrameRate(Frozen):
    """Sampling of videos; part of every score's key.

    Parameters
    ----------
    fps
        Frames per second, such as ``2`` or ``30000/1001``; ``native`` for the file's own average rate.
    long_side
        Longer side in pixels.
    blur
        Standard deviation in pixels of a Gaussian blur, to measure robustness; 0 for none.
    """

    fps: str = "native"
    long_side: int = 512
    blur: float = 0.0

    @property
    def suffix(self) -> str:
        """Suffix that distinguishes the scores of blurred videos; empty without blur."""
        return f"+blur{self.blur:g}" if self.blur else ""

    def rate(self) -> Fraction | None:
        """Return the rate, None for the file's own.

        Raises
        ------
        UserInputError
            If it is not a number above 0.
        """
        if self.fps == "native":
            return None
        try:
            rate = Fraction(self.fps)
        except (ValueError, ZeroDivisionError) as problem:
            raise UserInputError(f"fps is {self.fps!r}: give a number, or native") from problem
        if rate <= 0:
            raise UserInputError(f"fps is {self.fps}: give a number above 0, or native")
        return rate

    def check(self) -> None:
        """Raise UserInputError if a value is invalid."""
        self.rate()
        if self.long_side < 4 or self.long_side % 4:
            raise UserInputError(f"long_side is {self.long_side}; give a positive multiple of 4, such as 512")
        if not 0 <= self.blur <= 100:
            raise UserInputError(f"blur is {self.blur}; give pixels from 0 to 100")


class FileVideo(VideoSide):
    """A video file, read on access; at most 64 frames are cached.

    Raises
    ------
    SetAside
        On first access, if the video cannot be used.
    """

    def __init__(self, path: Path, sampling: FrameRate) -> None:
        self._given = sampling.rate()
        super().__init__(path, self._given or UNKNOWN_RATE, sampling.long_side)
        # both are read from the file on access
        del self.__dict__["fps"], self.__dict__["_rate"]

    @cached_property
    def fps(self) -> float:  # type: ignore[override]
        """Frames a second of the sequence."""
        return float(self._rate)

    @cached_property
    def _rate(self) -> Fraction:  # type: ignore[override]
        return self._given or probe(self.path, quick=True).frame_rate or UNKNOWN_RATE


class OpenVideos:
    """The videos of this process by path; the latest few stay open."""

    def __init__(self, sampling: FrameRate, most: int = OPEN_VIDEOS) -> None:
        self._sampling, self._most = sampling, most
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Side] = OrderedDict()

    @property
    def suffix(self) -> str:
        """Suffix of the checksum of a blurred video."""
        return self._sampling.suffix

    def open(self, path: str) -> Side:
        """Return a video; the same object while it stays open."""
        with self._lock:
            video = self._open.pop(path, None)
            # its truth value would be its length, which reads the file
            video = self._new(path) if video is None else video
            self._open[path] = video
            while len(self._open) > self._most:
                self._open.popitem(last=False)
            return video

    def _new(self, path: str) -> Side:
        plain = FileVideo(Path(path), self._sampling)
        if not self._sampling.blur:
            return plain
        # statistics, which take a second to import, come with it
        from tasks.scoring.suites.blurred_video import BlurredVideo

        return BlurredVideo(plain, self._sampling.blur)
