"""Figures of ingest: CPU against the ffmpeg command, equality of frames, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
from av.filter import Graph

from tasks.media.decode import FrameSampler
from tests.bench.measuring import Comparison, Usage, child, compare, run
from tests.bench.report import Measured
from tests.bench.settings import Settings
from tests.tasks.media.corpus import CASES
from tests.tasks.media.test_decode import MENDED_CLOCK, TURNED, command_choice, command_frames, graph_frames

#: How near the time of a frame must be to that of the ffmpeg command's, seconds; its log has six digits.
_SAME_TIME_S = 0.002


def _sampled_by_ffmpeg(video: Path) -> Usage:
    width, height = FrameSampler(video).size
    chain = f"fps=1,scale={width}:{height}:flags=lanczos,format=yuv420p"
    command = ["ffmpeg", "-nostdin", "-v", "error", "-i", video, "-an", "-sn", "-vf", chain]
    return run([*command, "-f", "null", "-"])


def _ingested(settings: Settings, video: Path) -> Usage:
    with settings.scratch() as folder:
        return child("ingest", video, folder / "store")


def _ingest_over_ffmpeg(
    settings: Settings, video: Path, decoder: str, runs: int
) -> tuple[Comparison, dict[str, Any]]:
    compared = compare(lambda: _ingested(settings, video), lambda: _sampled_by_ffmpeg(video), runs)
    said = compared.runs[0]["numerator"]["said"]
    if said["decoder"] != decoder:
        raise RuntimeError(f"{video.name} was decoded by {said['decoder']}, not by {decoder}")
    inner = [run["numerator"]["said"]["cpu_s"] / run["denominator"]["cpu_s"] for run in compared.runs]
    details = {
        "ratio": round(compared.ratio, 4),
        "ratio_without_start": round(float(np.median(inner)), 4),
        "frames": said["frames"],
        "decoder": decoder,
        "fallback_reason": said["fallback_reason"],
    }
    return compared, details


_COMMAND = "ffmpeg -i FILE -an -sn -vf fps=1,scale=W:H:flags=lanczos,format=yuv420p -f null -"


def ingest_over_ffmpeg(settings: Settings) -> Measured:
    """CPU of ingest over that of the ffmpeg command, H.264 with closed groups."""
    video = settings.films.bunny
    compared, details = _ingest_over_ffmpeg(settings, video, "packet_plan", settings.times(5))
    return Measured(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "CPU s",
        f"a process that ingests the film into a new store, start of Python included, over `{_COMMAND}`",
        [video.name],
        details,
        compared.runs,
    )


def ingest_fallback_over_ffmpeg(settings: Settings) -> Measured:
    """The same for files of which everything has to be decoded; the worse of two."""
    films = {
        "Big Buck Bunny coded again with open groups": settings.films.open_gop(),
        "the city film (MPEG-2) 40 times in a row": settings.films.long_city(),
    }
    results = {}
    for name, video in films.items():
        results[name] = _ingest_over_ffmpeg(settings, video, "filter_graph", settings.times(3))
    worst, _ = max(results.values(), key=lambda result: result[0].ratio)
    return Measured(
        worst.ratio,
        worst.numerator,
        worst.denominator,
        "CPU s",
        f"a process that ingests the film, start of Python included, over `{_COMMAND}`; the worse of two",
        list(films),
        {name: details for name, (_, details) in results.items()},
        worst.runs,
    )


def _same_pixels(ffmpeg: str, name: str, video: Path, sampler: FrameSampler) -> dict[int, bool]:
    """Return by frame whether its planes are those of FFmpeg's filters in the same libswscale."""
    width, height = sampler.size
    if name in MENDED_CLOCK:
        # the command mends the clock, which the bare filters do not: choose by it, scale by PyAV's
        expected = _scaled_command_frames(ffmpeg, video, width, height)
    else:
        expected = graph_frames(video, width, height, TURNED.get(name, []))
    found = {frame.index: frame.planes for frame in sampler}
    numbers = {number for number in expected if number >= 0} | set(found)
    return {
        number: number in found and number in expected and np.array_equal(found[number], expected[number])
        for number in numbers
    }


def _scaled_command_frames(
    ffmpeg: str, video: Path, width: int, height: int
) -> dict[int, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Return the frames that the ffmpeg command chooses (4:2:0, not turned), scaled by PyAV's filters."""
    with av.open(str(video)) as container:
        context = container.streams.video[0].codec_context
        in_width, in_height = context.width, context.height
        first = next(container.decode(video=0))
        told = f"colorspace={first.colorspace}:range={first.color_range}"
    data = np.frombuffer(command_frames(ffmpeg, video), np.uint8)
    graph = Graph()
    size = f"video_size={in_width}x{in_height}:pix_fmt=yuv420p:time_base=1/1:pixel_aspect=1/1:{told}"
    chain = [
        graph.add("buffer", size),
        graph.add("scale", f"{width}:{height}:flags=lanczos"),
        graph.add("format", "yuv420p"),
        graph.add("buffersink"),
    ]
    graph.link_nodes(*chain).configure()
    frames = {}
    for place, planes in enumerate(data.reshape(-1, in_height * 3 // 2, in_width)):
        image = av.VideoFrame.from_ndarray(np.ascontiguousarray(planes), format="yuv420p")
        image.pts = place
        graph.vpush(image)
        frames[place] = graph.vpull().to_ndarray()
    first_number = command_choice(ffmpeg, video)[0][0]
    return {first_number + place: planes for place, planes in frames.items()}


def _same_choice(ffmpeg: str, video: Path, sampler: FrameSampler) -> dict[int, bool]:
    """Return by frame whether it is the image that the ffmpeg command chooses."""
    chosen = dict(command_choice(ffmpeg, video))
    found = {frame.index: frame.pts_s for frame in sampler}
    return {
        number: number in found
        and number in chosen
        and min(abs(found[number] - time) for time in chosen[number]) < _SAME_TIME_S
        for number in set(found) | set(chosen)
    }


def frames_exact(settings: Settings) -> Measured:
    """Share of the frames that are FFmpeg's own, over the two films and all files of the tests."""
    ffmpeg = "ffmpeg"
    equal = total = 0
    wrong: dict[str, list[int]] = {}
    modes: dict[str, int] = {"packet_plan": 0, "filter_graph": 0}
    with settings.scratch() as folder:
        videos = {"bunny": settings.films.bunny, "city": settings.films.city}
        for case in CASES:
            (folder / case.name).mkdir()
            videos[case.name] = case.make(ffmpeg, folder / case.name)
        for name, video in videos.items():
            sampler = FrameSampler(video)
            modes[sampler.mode] += 1
            pixels = _same_pixels(ffmpeg, name, video, sampler)
            choice = _same_choice(ffmpeg, video, sampler)
            good = {
                number: pixels.get(number, False) and choice.get(number, False) for number in pixels | choice
            }
            equal, total = equal + sum(good.values()), total + len(good)
            if not all(good.values()):
                wrong[name] = sorted(number for number, same in good.items() if not same)
    return Measured(
        equal / total,
        equal,
        total,
        "frames",
        "frames whose planes equal those of FFmpeg's fps and scale filters in the libswscale of PyAV, and "
        "whose image is the one that the ffmpeg command chooses, over all frames",
        list(videos),
        {"files": len(videos), **modes, "wrong": wrong},
    )


def memory_3h_over_10min(settings: Settings) -> Measured:
    """Peak memory of ingest: three hours over ten minutes."""
    films = settings.films
    compared = compare(
        lambda: _ingested(settings, films.three_hours()),
        lambda: _ingested(settings, films.bunny),
        settings.times(1),
        lambda usage: usage.peak_mb,
    )
    return Measured(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "MB",
        "largest resident memory of a process that ingests the film 18 times in a row (3 h) over it once",
        [films.three_hours().name, films.bunny.name],
        {"frames": [compared.runs[0][side]["said"]["frames"] for side in ("numerator", "denominator")]},
        compared.runs,
    )
