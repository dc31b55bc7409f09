"""Videos of files: their own rate, one frame, an hour; memory does not grow with the length."""

from __future__ import annotations

import subprocess
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from storage_schemas.errors import UserInputError
from tasks.scoring.suites.blurred_video import BlurredSide
from tasks.scoring.suites.file_video import FileVideo, FrameRate, OpenVideos
from tests.tasks.scoring.judges.short_films import short_film


def made(ffmpeg: str, path: Path, source: str, *more: str) -> Path:
    command = [ffmpeg, "-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", source, *more, str(path)]
    subprocess.run(command, check=True)
    return path


def test_a_video_keeps_its_own_rate_unless_another_is_asked_for(ffmpeg: str, tmp_path: Path) -> None:
    path = short_film(ffmpeg, tmp_path / "film.mp4", 2.0)
    native = FileVideo(path, FrameRate(long_side=32))
    assert (native.fps, len(native), native.width, native.height) == (8.0, 16, 32, 24)
    assert native.times_s[1] == 0.125
    assert len(FileVideo(path, FrameRate(fps="2", long_side=32))) == 4
    assert FileVideo(path, FrameRate(fps="30000/1001")).fps == pytest.approx(29.97, abs=0.001)
    assert FrameRate(fps="2.5").rate() == Fraction(5, 2)
    still = made(ffmpeg, tmp_path / "still.mp4", "testsrc2=s=64x48:r=8", "-frames:v", "1")
    assert [frame.shape for frame in FileVideo(still, FrameRate(long_side=32))] == [(36, 32)]
    for wrong in (FrameRate(fps="0"), FrameRate(fps="x"), FrameRate(long_side=30), FrameRate(blur=-1)):
        with pytest.raises(UserInputError):
            wrong.check()


def test_a_blurred_video_is_another_one(ffmpeg: str, tmp_path: Path) -> None:
    path = short_film(ffmpeg, tmp_path / "film.mp4", 1.0)
    plain, blurred = FrameRate(long_side=64), FrameRate(long_side=64, blur=1.5)
    (before, after) = (OpenVideos(one).open(str(path)) for one in (plain, blurred))
    assert (after.fps, after.width, len(after)) == (before.fps, before.width, len(before))
    same = BlurredSide(FileVideo(path, plain), 1.5)
    assert np.array_equal(after[3], same[3])
    assert not np.array_equal(after[3], before[3])
    assert after.frame_ids([0]) != before.frame_ids([0])
    # else what is kept of all blurred videos' frames would be read for each of them
    assert after.family == before.family != ""
    assert (plain.suffix, blurred.suffix) == ("", "+blur1.5")


def test_an_hour_needs_no_more_memory_than_a_minute(ffmpeg: str, tmp_path: Path) -> None:
    coding = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "30", "-threads", "1")
    path = made(ffmpeg, tmp_path / "long.mp4", "color=c=gray:s=64x48:r=1:d=3600", *coding)
    video = FileVideo(path, FrameRate(long_side=64))
    assert len(video) == 3600
    tracemalloc.start()
    # key frames from its beginning to its end, more of them than are kept
    total = sum(int(frame[0, 0]) for frame in video[:3600:30])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total > 0
    assert peak < 4_000_000, "64 frames of 4.6 kB and what decodes them"
    # few videos stay open
    videos = OpenVideos(FrameRate(), most=2)
    first = videos.open("a")
    assert videos.open("a") is first
    for name in "bc":
        videos.open(name)
    assert videos.open("a") is not first
