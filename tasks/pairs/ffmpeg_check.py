"""Stored frames against those of the site's ffmpeg command: every frame of a source, pixel by pixel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from storage_schemas.errors import IntegrityError, SetAside
from storage_schemas.frames import FrameReader, Planes
from storage_schemas.ids import digest_file
from tasks.media.ffmpeg_command import FfmpegCommand


@dataclass(frozen=True)
class FrameDifference:
    """A stored frame that differs from the command's.

    Parameters
    ----------
    frame, time_s
        Its number in the store, and its time in seconds of the source.
    most
        Largest difference of a sample of its planes, in steps of 255.
    share
        Share of the samples that differ.
    """

    frame: int
    time_s: float
    most: int
    share: float


@dataclass(frozen=True)
class SourceFrames:
    """Frames of one source, compared.

    Parameters
    ----------
    frames
        Number of frames compared.
    differences
        The frames that differ, in order.
    problem
        Why the source is not equal as a whole: its video cannot be read or changed, or the counts differ.
    lost_s
        Times in seconds of the frames that the command leaves out between others. It builds its filters again
        where size or colours of the pictures change, and loses the frame that waits in them.
    """

    frames: int
    differences: tuple[FrameDifference, ...] = ()
    problem: str = ""
    lost_s: tuple[float, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether all frames that the command gives are equal, and it ends with the same one."""
        return not self.differences and not self.problem


def compare_frames(
    command: FfmpegCommand,
    reader: FrameReader,
    video: Path,
    content_sha256: str,
    fps: float,
    tolerance: int = 0,
) -> SourceFrames:
    """Compare all stored frames of a source with those that the command reads from its video.

    Frames are compared by their time, counted from the first one.

    Parameters
    ----------
    command
        The program.
    reader
        The stored frames.
    video, content_sha256
        The source's file, and its checksum when it was catalogued.
    fps
        Frames a second.
    tolerance
        Steps of 255 by which a sample may differ: other versions of FFmpeg may round otherwise.
    """
    if not video.is_file():
        return SourceFrames(0, problem=f"its video is no longer at {video}: put it back")
    if digest_file(video) != content_sha256:
        return SourceFrames(0, problem=f"{video} changed since it was catalogued: restore it, or build again")
    differences: list[FrameDifference] = []
    theirs = command.frames(video, fps, reader.width, reader.height, reader.color.full_range)
    first: int | None = None
    count, following = 0, 0
    lost: list[float] = []
    try:
        for number, frame in theirs:
            first = number if first is None else first
            index = number - first
            lost += map(float, reader.pts_s[following:index])
            following = index + 1
            if index < reader.count:
                count += 1
                most, share = _difference(reader.read(index)[0], frame)
                if most > tolerance:
                    differences.append(FrameDifference(index, float(reader.pts_s[index]), most, share))
    except (SetAside, IntegrityError) as problem:
        return SourceFrames(count, tuple(differences), str(problem))
    counts = ""
    if following != reader.count:
        counts = f"the store has {reader.count} frames, {command.words} reads {following}"
    return SourceFrames(count, tuple(differences), counts, tuple(lost))


def _difference(ours: Planes, theirs: Planes) -> tuple[int, float]:
    """Return the largest difference of two frames and the share of samples that differ."""
    if np.array_equal(ours, theirs):
        return 0, 0.0
    steps = np.abs(ours.astype(np.int16) - theirs)
    return int(steps.max()), float((steps > 0).mean())
