"""A generated video as an MP4 for browsers: copied if they can play it, encoded again if not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import av
import numpy as np
import pytest

from storage_schemas.errors import Reason, SetAside
from tasks.media.playable import write_playable

SHAPES = {
    "plain.mp4": ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-metadata", "title=model A", "-bf", "2"],
    "444.mkv": ["-c:v", "libx264", "-pix_fmt", "yuv444p"],
    "odd.gif": ["-s", "65x37"],
}


def read(path: Path) -> tuple[av.video.stream.VideoStream, list[np.ndarray], dict[str, str]]:
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        return stream, [frame.to_ndarray(format="gray") for frame in file.decode(stream)], dict(file.metadata)


@pytest.mark.parametrize("name", SHAPES)
def test_the_pictures_stay_and_nothing_else(tmp_path: Path, ffmpeg: str, name: str) -> None:
    given, target = tmp_path / name, tmp_path / "out.mp4"
    sound = ["-f", "lavfi", "-i", "sine=duration=1", "-shortest"] if name == "plain.mp4" else []
    picture = ["-f", "lavfi", "-i", "testsrc2=size=64x36:rate=10:duration=1"]
    subprocess.run([ffmpeg, "-v", "error", *picture, *sound, *SHAPES[name], str(given)], check=True)
    assert write_playable(given, target) == pytest.approx(1.0)
    stream, pictures, tags = read(target)
    _, before, _ = read(given)
    assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
    assert len(pictures) == len(before) == 10
    assert "title" not in tags
    if name == "plain.mp4":
        assert all((one == other).all() for one, other in zip(pictures, before, strict=True))
    if name == "444.mkv":
        assert max(np.abs(o.astype(int) - p).mean() for o, p in zip(pictures, before, strict=True)) < 3
    # the index comes first, so that it plays while it loads
    data = target.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_what_is_not_a_video_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "no.mp4").write_bytes(b"no")
    with pytest.raises(SetAside) as caught:
        write_playable(tmp_path / "no.mp4", tmp_path / "out.mp4")
    assert caught.value.reason is Reason.UNDECODABLE_VIDEO
