"""A video whose file system does not answer is neither damaged nor shorter."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.away import is_away
from storage_schemas.errors import SetAside
from storage_schemas.ids import digest_frame
from tasks.media import source_file
from tasks.media.decode import FrameSampler

OTHERS = ("mpg", "mov", "ogv", "nut", "mxf")


@pytest.fixture(
    params=["mp4", "mkv", "avi", "ts", *(pytest.param(one, marks=pytest.mark.slow) for one in OTHERS)]
)
def film(request: pytest.FixtureRequest, ffmpeg: str, tmp_path: Path) -> Path:
    path = tmp_path / f"film.{request.param}"
    # noise makes it larger than what is read at once
    source = "testsrc2=size=320x180:rate=25:duration=3,noise=alls=60:allf=t"
    codec = {"ogv": "libtheora", "mpg": "mpeg2video", "mxf": "mpeg2video"}.get(request.param, "mpeg4")
    command = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", source, "-c:v", codec, "-q:v", "2", str(path)]
    subprocess.run(command, check=True, timeout=60)
    return path


def test_failed_read_makes_no_other_or_damaged_film(film: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def frames() -> list[int]:
        sampler = FrameSampler(film, fps=Fraction(2), long_side=64, damaged="refuse")
        return [digest_frame(frame.planes) for frame in sampler]

    calls, fails_at = 0, 0

    def ask_again(read: Callable[[], Any]) -> Any:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise OSError(errno.EIO, "Input/output error", str(film))
        return read()

    monkeypatch.setattr(source_file, "ask_again", ask_again)
    whole, reads = frames(), calls
    assert len(whole) == 6 and reads > 8
    for number in {1, 2, 3, 4, reads // 2, reads - 2, reads - 1, reads}:
        calls, fails_at = 0, number
        try:
            # what is read behind the last picture may be in vain
            assert frames() == whole
        except (OSError, SetAside) as problem:
            assert is_away(problem), problem
