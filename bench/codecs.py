"""Cost of ingest in each codec, next to the ffmpeg command: ``python -m bench.codecs``.

The first minute of the demonstration's film is encoded by each encoder, with its own key frames and with
fixed ones, as on video sites. It is repeated without re-encoding, so that the start of libraries matters as
little as in a film, and ingested. Prints a table in Markdown. Encoding takes some minutes, once. The last
column is the limit: the cost of only decoding the required frames.
"""

from __future__ import annotations

import argparse
import statistics
import time
from fractions import Fraction
from pathlib import Path

from bench.films import Films
from bench.measuring import ROOT, compare
from bench.media import ingested, sampled_by_ffmpeg
from bench.settings import Settings
from tasks.media.images import planned_images
from tasks.media.packet_plan import PacketPlan, probe_and_plan
from tasks.media.source_file import open_video

#: Frames per second of the film.
RATE = 24
#: Number of repetitions of the minute in a measured file.
TIMES = 4
#: Seconds between fixed key frames; None leaves them to the encoder.
KEY_FRAMES_S = (None, 2, 5)
#: By encoder: options, and the suffix of its file. Slow encoders get a faster setting than their default.
ENCODERS: dict[str, tuple[list[str], str]] = {
    "libx264": ([], "mp4"),
    "libx265": (["-x265-params", "log-level=none"], "mp4"),
    "libvpx-vp9": (["-crf", "32", "-b:v", "0", "-cpu-used", "4", "-row-mt", "1"], "webm"),
    "libsvtav1": ([], "mp4"),
    "libaom-av1": (["-crf", "32", "-b:v", "0", "-cpu-used", "8", "-row-mt", "1"], "mp4"),
}


def encoder_options(encoder: str, key_frames_s: int | None) -> list[str]:
    """Return an encoder's options for fixed key frames every few seconds, or for its own."""
    options, _ = ENCODERS[encoder]
    if key_frames_s is None:
        return ["-c:v", encoder, *options]
    frames = key_frames_s * RATE
    if encoder == "libx265":
        fixed = f"keyint={frames}:min-keyint={frames}:scenecut=0:open-gop=0"
        options = ["-x265-params", f"log-level=none:{fixed}"]
    limits = ["-g", str(frames), "-keyint_min", str(frames)]
    return ["-c:v", encoder, *options, *limits, *(["-sc_threshold", "0"] if encoder == "libx264" else [])]


def row(settings: Settings, encoder: str, key_frames_s: int | None) -> str:
    """Return a row of the table."""
    name = f"codec.{encoder}.{key_frames_s or 'own'}.{ENCODERS[encoder][1]}"
    films = settings.films
    video = films.in_a_row(films.minute(name, encoder_options(encoder, key_frames_s)), TIMES)
    plan = probe_and_plan(video, Fraction(1))[1]
    if not isinstance(plan, PacketPlan):
        raise RuntimeError(f"{video.name} has no plan: {plan.reason}")
    compared = compare(lambda: ingested(settings, video), lambda: sampled_by_ffmpeg(video), settings.times(5))
    without_start = statistics.median(
        one["numerator"]["output"]["cpu_s"] / one["denominator"]["cpu_s"] for one in compared.runs
    )
    decoding = statistics.median(_decoding_s(video, plan) for _ in compared.runs) / compared.denominator
    keys = "its own" if key_frames_s is None else f"each {key_frames_s} s"
    return (
        f"| {encoder} | {keys} | {100 * (plan.needed > 0).mean():.0f} % "
        f"| {compared.ratio:.2f} | {without_start:.2f} | {decoding:.2f} |"
    )


def _decoding_s(video: Path, plan: PacketPlan) -> float:
    """Return the CPU seconds of decoding the plan's frames on one thread, without scaling or storing."""
    with open_video(video) as opened:
        started = time.process_time()
        for _ in planned_images(opened, plan, plan.packets(0, len(plan.chosen))):
            pass
        return time.process_time() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, help="number of measurements per file")
    parser.add_argument("--films", type=Path, help="folder with the films; by default they are fetched")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench")
    chosen = parser.parse_args()
    films = Films.find(chosen.films, chosen.out.resolve() / "films", ROOT / "build" / "demo")
    settings = Settings(films, chosen.out.resolve(), chosen.runs)
    columns = ["encoder", "key frames", "packets decoded", "CPU over ffmpeg's", "without the start of Python"]
    print(f"| {' | '.join(columns)} | decoding alone |")
    print("|---|---|---|---|---|---|")
    for key_frames_s in KEY_FRAMES_S:
        for encoder in ENCODERS:
            print(row(settings, encoder, key_frames_s), flush=True)


if __name__ == "__main__":
    main()
