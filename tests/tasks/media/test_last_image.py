"""How long the last image is shown, with pictures that are reordered and a rate that varies.

It is shown as long as its packet says, which need not be the last packet: so do FFmpeg 9.0.2 and PyAV's
libraries. The command 5.1.9 reads no duration from an MP4 with reordered pictures, and ends sooner.
"""

from __future__ import annotations

import subprocess
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from tasks.media.decode import FrameSampler
from tests.tasks.media.corpus import VP9, X264, made, without_durations

MILLISECOND = Fraction(1, 1000)
#: Gaps between images, ms.
GAPS = [40, 500, 40, 1000, 80, 40, 800, 1000, 40, 1000, 560]


def write(path: Path, images: int, last_ms: int) -> list[tuple[int, int]]:
    """Write images with B-frames, the last packet so long; return packets' times and durations in ms."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "ultrafast", "bf": "2"})
        stream.options = {"x264-params": "bframes=2:b-adapt=0:scenecut=0:keyint=50", "preset": "ultrafast"}
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.time_base = stream.codec_context.time_base = MILLISECOND
        packets = []
        for number, at in enumerate(np.cumsum([0, *GAPS])[:images]):
            grey = np.full((72, 64), 16 + 10 * number, np.uint8)
            image = av.VideoFrame.from_ndarray(grey, format="yuv420p")
            image.pts, image.time_base = int(at), MILLISECOND
            packets += stream.encode(image)
        packets += stream.encode()
        packets[-1].duration = last_ms
        for packet in packets:
            container.mux(packet)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        unit = stream.time_base / MILLISECOND
        return [(int(p.pts * unit), int(p.duration * unit)) for p in container.demux(stream) if p.size]


@pytest.mark.parametrize("last_ms", [1, 40, 399, 401, 1000, 2600])
@pytest.mark.parametrize(("images", "is_last_packet"), [(9, False), (10, False), (11, True), (12, False)])
def test_the_last_image_lasts_as_long_as_its_packet_says(
    tmp_path: Path, ffmpeg: str, images: int, is_last_packet: bool, last_ms: int
) -> None:
    path = tmp_path / "film.mp4"
    packets = write(path, images, last_ms)
    assert any(after[0] < before[0] for before, after in pairwise(packets)), "no B-frames"
    shown = max(packets)
    assert (shown == packets[-1]) is is_last_packet
    frames = int(Fraction(sum(shown), 1000) + Fraction(1, 2))
    planned, decoded = FrameSampler(path), FrameSampler(path, mode="full")
    assert planned.mode == "packet_plan"
    assert [frame.index for frame in planned] == list(range(frames))
    assert [(frame.index, frame.pts_s) for frame in decoded] == [(f.index, f.pts_s) for f in planned]
    command = [ffmpeg, "-v", "error", "-i", str(path), "-vf", "fps=1", "-f", "framecrc", "-"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert sum(not line.startswith("#") for line in told.splitlines()) == frames


@pytest.mark.parametrize("arguments", [X264, f"{X264} -bf 0", VP9])
def test_last_image_without_a_duration_is_average(tmp_path: Path, ffmpeg: str, arguments: str) -> None:
    path = tmp_path / "recorded.mkv"
    # the last two begin 1,050 ms apart, and no image is as long as that on average
    times = "settb=1/1000,setpts='if(lt(N,53),N*25,1300+(N-53)*1050)'"
    without_durations(made(f"{arguments} -enc_time_base 1/1000 -fps_mode vfr", seconds="2.3", vf=times))(
        ffmpeg, path
    )
    planned, decoded = FrameSampler(path), FrameSampler(path, mode="full")
    assert planned.mode == "packet_plan"
    assert [(f.pts_s, f.planes.tobytes()) for f in planned] == [
        (f.pts_s, f.planes.tobytes()) for f in decoded
    ]
    assert [frame.pts_s for frame in planned] == [0.475, 1.301, 2.35]
