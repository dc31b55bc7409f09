"""The figure of exactness: every frame compared with FFmpeg's filters, and its choice with the command's."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame

from bench.report import BenchFigure
from bench.settings import Settings
from tasks.media.decode import FrameSampler
from tests.tasks.media.corpus import CASES
from tests.tasks.media.reference import Planes, filtered_frames, told_graph
from tests.tasks.media.test_decode import REPAIRED_CLOCK, TURNED, command_choice, command_frames

#: Maximum difference in seconds from a frame's time in the ffmpeg command; its log has six digits.
_SAME_TIME_S = 0.002


def _same_pixels(name: str, video: Path, sampler: FrameSampler) -> dict[int, bool]:
    """Return for each frame whether its planes equal those of FFmpeg's filters in the same libswscale."""
    width, height = sampler.size
    if name in REPAIRED_CLOCK:
        # unlike the bare filters, the command repairs the clock: use its choice, and PyAV's scaling
        expected = _scaled_command_frames(video, width, height)
    else:
        expected = filtered_frames(video, width, height, TURNED.get(name, []))
    decoded = {frame.index: frame.planes for frame in sampler}
    numbers = {number for number in expected if number >= 0} | set(decoded)
    return {
        number: number in decoded and number in expected and np.array_equal(decoded[number], expected[number])
        for number in numbers
    }


def _scaled_command_frames(video: Path, width: int, height: int) -> dict[int, Planes]:
    """Return the frames that the ffmpeg command chooses (4:2:0, not rotated), scaled by PyAV's filters."""
    with av.open(str(video)) as container:
        image = next(container.decode(video=0))
    graph = told_graph(image, Fraction(1), [f"scale={width}:{height}:flags=lanczos", "format=yuv420p"])
    data = np.frombuffer(command_frames("ffmpeg", video), np.uint8)
    numbers = [number for number, _ in command_choice("ffmpeg", video)]
    frames = {}
    for number, planes in zip(numbers, data.reshape(-1, image.height * 3 // 2, image.width), strict=True):
        chosen = VideoFrame.from_ndarray(np.ascontiguousarray(planes), format="yuv420p")
        chosen.pts = number
        chosen.colorspace, chosen.color_range = image.colorspace, image.color_range
        graph.vpush(chosen)
        frames[number] = graph.vpull().to_ndarray()
    return frames


def _same_choice(video: Path, sampler: FrameSampler) -> dict[int, bool]:
    """Return for each frame whether it is the image that the ffmpeg command chooses."""
    chosen = dict(command_choice("ffmpeg", video))
    decoded = {frame.index: frame.pts_s for frame in sampler}
    return {
        number: number in decoded
        and number in chosen
        and min(abs(decoded[number] - time) for time in chosen[number]) < _SAME_TIME_S
        for number in set(decoded) | set(chosen)
    }


def frames_exact(settings: Settings) -> BenchFigure:
    """Share of frames that equal FFmpeg's, over the two films and all files of the tests."""
    equal = total = 0
    wrong: dict[str, list[int]] = {}
    modes: dict[str, int] = {"packet_plan": 0, "filter_graph": 0}
    with settings.scratch() as folder:
        videos = {"bunny": settings.films.bunny, "city": settings.films.city}
        for case in CASES:
            (folder / case.name).mkdir()
            videos[case.name] = case.make("ffmpeg", folder / case.name)
        for name, video in videos.items():
            sampler = FrameSampler(video)
            modes[sampler.mode] += 1
            pixels = _same_pixels(name, video, sampler)
            choice = _same_choice(video, sampler)
            good = {
                number: pixels.get(number, False) and choice.get(number, False) for number in pixels | choice
            }
            equal, total = equal + sum(good.values()), total + len(good)
            if not all(good.values()):
                wrong[name] = sorted(number for number, same in good.items() if not same)
    return BenchFigure(
        equal / total,
        equal,
        total,
        "frames",
        "frames whose planes equal those of FFmpeg's fps and scale filters in the libswscale of PyAV, and "
        "whose image is the one that the ffmpeg command chooses, over all frames",
        list(videos),
        {"files": len(videos), **modes, "wrong": wrong},
    )
