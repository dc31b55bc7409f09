"""Figures of ingest: CPU compared with the ffmpeg command, and memory."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring import ProcessUsage, SideBySide, child, compare, run
from bench.report import BenchFigure
from bench.settings import Settings
from storage_schemas.ids import digest_file
from tasks.media.decode import FrameSampler
from tasks.media.packet_plan import Unsafe, probe_and_plan


def sampled_by_ffmpeg(video: Path) -> ProcessUsage:
    """Sample and scale a film as ingest does, with the ffmpeg command, which discards the frames."""
    width, height = FrameSampler(video).size
    chain = f"fps=1,scale={width}:{height}:flags=lanczos,format=yuv420p"
    command = ["ffmpeg", "-nostdin", "-v", "error", "-i", video, "-an", "-sn", "-vf", chain]
    return run([*command, "-f", "null", "-"])


def ingested(settings: Settings, video: Path, threads: int = 1) -> ProcessUsage:
    """Ingest a film into a new store; its checksum is known, as in a build, from the catalogue."""
    with settings.scratch() as folder:
        return child("ingest", video, folder / "store", digest_file(video), str(threads))


def _ingest_over_ffmpeg(
    settings: Settings, video: Path, decoder: str, runs: int
) -> tuple[SideBySide, dict[str, Any]]:
    compared = compare(lambda: ingested(settings, video), lambda: sampled_by_ffmpeg(video), runs)
    output = compared.runs[0]["numerator"]["output"]
    if output["decoder"] != decoder:
        raise RuntimeError(f"{video.name} was decoded by {output['decoder']}, not by {decoder}")
    inner = [run["numerator"]["output"]["cpu_s"] / run["denominator"]["cpu_s"] for run in compared.runs]
    details = {
        "ratio": round(compared.ratio, 4),
        "ratio_without_start": round(float(np.median(inner)), 4),
        "frames": output["frames"],
        "decoder": decoder,
        "fallback_reason": output["fallback_reason"],
    }
    return compared, details


_COMMAND = "ffmpeg -i FILE -an -sn -vf fps=1,scale=W:H:flags=lanczos,format=yuv420p -f null -"


def ingest_over_ffmpeg(settings: Settings) -> BenchFigure:
    """CPU of ingest, divided by that of the ffmpeg command, for H.264 with closed groups."""
    video = settings.films.bunny
    compared, details = _ingest_over_ffmpeg(settings, video, "packet_plan", settings.times(5))
    return BenchFigure(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "CPU s",
        f"a process that ingests the film into a new store, start of Python included, over `{_COMMAND}`",
        [video.name],
        details,
        compared.runs,
    )


def ingest_codec_over_ffmpeg(settings: Settings, codec: str) -> BenchFigure:
    """The same for three minutes of the film in another codec."""
    video = settings.films.coded_as(codec)
    compared, details = _ingest_over_ffmpeg(settings, video, "packet_plan", settings.times(3))
    plan = probe_and_plan(video, Fraction(1))[1]
    if not isinstance(plan, Unsafe):
        details["share_of_packets"] = round(float((plan.needed > 0).mean()), 4)
    return BenchFigure(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "CPU s",
        f"a process that ingests the film into a new store, start of Python included, over `{_COMMAND}`",
        [video.name],
        details,
        compared.runs,
    )


def ingest_fallback_over_ffmpeg(settings: Settings) -> BenchFigure:
    """The same for files that must be decoded completely; the worse of two."""
    films = {
        "Big Buck Bunny coded again with open groups": settings.films.open_gop(),
        "the city film (MPEG-2) 80 times in a row": settings.films.long_city(),
    }
    results = {}
    for name, video in films.items():
        results[name] = _ingest_over_ffmpeg(settings, video, "filter_graph", settings.times(3))
    worst, _ = max(results.values(), key=lambda result: result[0].ratio)
    return BenchFigure(
        worst.ratio,
        worst.numerator,
        worst.denominator,
        "CPU s",
        f"a process that ingests the film, start of Python included, over `{_COMMAND}`; the worse of two",
        list(films),
        {name: details for name, (_, details) in results.items()},
        worst.runs,
    )


def memory_3h_over_10min(settings: Settings) -> BenchFigure:
    """Peak memory of ingest: three hours compared with ten minutes."""
    films = settings.films
    what = "the film 18 times in a row (3 h) over it once"
    return _memory(settings, films.three_hours(), films.bunny, what)


def memory_3h_of_codec(settings: Settings, codec: str) -> BenchFigure:
    """The same in another codec: three hours compared with nine minutes of small pictures."""
    films = settings.films
    what = "three minutes of the film 60 times in a row (3 h) over three times, at 320×180"
    return _memory(settings, films.small(codec, 60), films.small(codec, 3), what)


def _memory(settings: Settings, long: Path, short: Path, what: str) -> BenchFigure:
    compared = compare(
        lambda: ingested(settings, long),
        lambda: ingested(settings, short),
        settings.times(1),
        lambda usage: usage.peak_mb,
    )
    outputs = [compared.runs[0][side]["output"] for side in ("numerator", "denominator")]
    return BenchFigure(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "MB",
        f"largest resident memory of a process that ingests {what}",
        [long.name, short.name],
        {"frames": [output["frames"] for output in outputs], "decoder": outputs[0]["decoder"]},
        compared.runs,
    )


def two_threads_over_one(settings: Settings) -> BenchFigure:
    """Wall time of ingesting an hour with two decoding threads, divided by that with one."""
    video = settings.films.repeated(6)
    compared = compare(
        lambda: ingested(settings, video, threads=2),
        lambda: ingested(settings, video),
        settings.times(3),
        lambda usage: usage.output["wall_s"],
    )
    checksums = {
        run[side]["output"]["checksum"] for run in compared.runs for side in ("numerator", "denominator")
    }
    if len(checksums) != 1:
        raise RuntimeError(f"{video.name} has other frames with two threads")
    cpu = [
        run["numerator"]["output"]["cpu_s"] / run["denominator"]["output"]["cpu_s"] for run in compared.runs
    ]
    return BenchFigure(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "s",
        "wall time of ingest of an hour, without the start of Python: two decoding threads over one",
        [video.name],
        {"cpu": round(float(np.median(cpu)), 4)},
        compared.runs,
    )
