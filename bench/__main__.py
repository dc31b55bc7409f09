"""``make bench``: measure the figures and write ``ratios.json``.

``python -m bench --only KEY`` measures one figure and keeps the others; ``--missing`` completes an
interrupted run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench import building, exactness, media, orchestration, publishing
from bench.films import Films
from bench.measuring import ROOT, child
from bench.report import RATIOS, Aim, BenchFigure, machine, print_report, write_figure
from bench.settings import Settings

#: All figures: how each is measured, and its aim.
FIGURES: dict[str, tuple[Callable[[Settings], BenchFigure], Aim]] = {
    "ingest_over_ffmpeg": (media.ingest_over_ffmpeg, Aim(0.65)),
    "ingest_hevc_over_ffmpeg": (partial(media.ingest_codec_over_ffmpeg, codec="hevc"), Aim(0.65)),
    "ingest_vp9_over_ffmpeg": (partial(media.ingest_codec_over_ffmpeg, codec="vp9"), Aim(1.15)),
    "ingest_av1_over_ffmpeg": (partial(media.ingest_codec_over_ffmpeg, codec="av1"), Aim(0.7)),
    "ingest_fallback_over_ffmpeg": (media.ingest_fallback_over_ffmpeg, Aim(1.15)),
    "frames_exact": (exactness.frames_exact, Aim(1.0, exact=True)),
    "build7_over_ingest": (building.build7_over_ingest, Aim(1.6)),
    "build7_over_script": (building.build7_over_script, Aim(0.12)),
    "degraded_bytes": (building.degraded_bytes, Aim(1.1)),
    "materialise_pixels": (publishing.materialise_pixels, Aim(0.25)),
    "materialise_order": (publishing.materialise_order, Aim(0.02)),
    "memory_3h_over_10min": (media.memory_3h_over_10min, Aim(1.1)),
    "memory_3h_hevc": (partial(media.memory_3h_of_codec, codec="hevc"), Aim(1.1)),
    "memory_3h_vp9": (partial(media.memory_3h_of_codec, codec="vp9"), Aim(1.1)),
    "memory_3h_av1": (partial(media.memory_3h_of_codec, codec="av1"), Aim(1.1)),
    "two_threads_over_one": (media.two_threads_over_one, Aim(0.556)),
    "rebuild_over_build": (building.rebuild_over_build, Aim(0.02)),
    "one_new_over_alone": (building.one_new_over_alone, Aim(1.2)),
    "orchestrated_over_direct": (orchestration.orchestrated_over_direct, Aim(1.15)),
    "orchestration_growth": (orchestration.overhead_growth, Aim(1.25)),
}


def measure(keys: Sequence[str], settings: Settings, out: Path) -> list[str]:
    """Measure figures, writing each as soon as it is measured; return those that failed."""
    about = machine()
    child("warm_up")
    failed = []
    for index, key in enumerate(keys, 1):
        print(f"[{index}/{len(keys)}] {key} …", file=sys.stderr, flush=True)
        started = time.monotonic()
        figure, aim = FIGURES[key]
        try:
            measured = figure(settings)
        except Exception:  # noqa: BLE001 - reported, and counted in the exit code; the others continue
            traceback.print_exc()
            failed.append(key)
            continue
        write_figure(out, key, measured, aim, about)
        took = time.monotonic() - started
        print(f"    {measured.ratio:.3f} (aim {aim}), took {took:.0f} s", file=sys.stderr, flush=True)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return 1 if ffmpeg is missing or a figure could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="measure the figures")
    parser.add_argument("--only", nargs="+", choices=FIGURES, metavar="KEY", help=", ".join(FIGURES))
    parser.add_argument("--missing", action="store_true", help="only figures missing from ratios.json")
    parser.add_argument("--runs", type=int, help="number of measurements per figure")
    parser.add_argument(
        "--films", type=Path, help="folder with the films and u2netp.onnx; by default they are fetched"
    )
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for ratios.json")
    chosen = parser.parse_args(arguments)
    if shutil.which("ffmpeg") is None:
        print("no ffmpeg command, which the figures are compared with: install ffmpeg", file=sys.stderr)
        return 1
    out: Path = chosen.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    films = Films.find(chosen.films, out / "films", ROOT / "build" / "demo")
    path = out / RATIOS
    keys = chosen.only or list(FIGURES)
    if chosen.missing and path.is_file():
        figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
        keys = [key for key in keys if key not in figures]
    failed = measure(keys, Settings(films, out, chosen.runs), out)
    if path.is_file():
        print_report(json.loads(path.read_text(encoding="utf-8")), list(FIGURES))
        print(f"{path}")
    for key in failed:
        print(f"could not be measured: {key}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
