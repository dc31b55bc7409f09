"""CPU seconds of LoCoT2V-Bench's arithmetic metrics: ``python -m bench.suite_metrics``.

The video is a minute of *Big Buck Bunny* with cuts, re-encoded at 512×288 and 24 frames a second. Each figure
includes decoding, in its own process with one thread; ``read`` is decoding to RGB only.
``transition_smoothness`` uses mean colours instead of the model's features. ``--minutes`` selects a longer
film, to check that memory stays constant.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.films import Films, run_ffmpeg
from bench.measuring import ROOT, run
from tasks.extras.locot2v.visual_settings import VisualSettings
from tasks.pairs.view import Side
from tasks.scoring.suites.file_video import FileVideo, FrameRate

WIDTH, HEIGHT, FPS = 512, 288, 24
#: Start of the minute in the film, in seconds.
FROM_S = 150


def _read(video: Side) -> Any:
    return sum(int(video.rgb(index)[0, 0, 0]) for index in range(len(video)))


def _visual() -> VisualSettings:
    return VisualSettings.model_validate("cpu-approx")


def _pixels(name: str) -> Callable[[Side], Any]:
    def measure(video: Side) -> Any:
        from tasks.extras.locot2v import pixel_metrics
        from tasks.extras.locot2v.flow import dis_flow

        metric = getattr(pixel_metrics, name)(video, dis_flow, _visual().pixels)
        return {"value": metric.value, "steps": metric.steps}

    return measure


def _both_of_flow(video: Side) -> Any:
    from tasks.extras.locot2v.optical_flow import DisFlow
    from tasks.extras.locot2v.pixel_scorers import KeptSteps
    from tasks.scoring.features import FeatureCache

    with TemporaryDirectory() as folder:
        # as in two tasks of a run: the results of the first are on disk
        pixels = _visual().pixels
        flicker, warping = (
            KeptSteps(FeatureCache(Path(folder)), pixels, DisFlow(pixels.flow)) for _ in range(2)
        )
        metrics = flicker.flicker(video), warping.warping(video)
    return [{"value": one.value, "steps": one.steps} for one in metrics]


def _cuts(video: Side) -> Any:
    from tasks.extras.locot2v.transitions import find_cuts

    return {"cuts": len(find_cuts(video))}


def _transitions(video: Side) -> Any:
    from tasks.extras.locot2v.flow import dis_flow
    from tasks.extras.locot2v.transitions import find_cuts, transition_smoothness, transitions

    def features(indices: Sequence[int]) -> Any:
        return np.stack([video.rgb(index).mean((0, 1)) for index in indices]).astype(np.float64)

    found = transitions(video, find_cuts(video), features, dis_flow, _visual().transitions)
    metric = transition_smoothness(found)
    return {"value": metric.value, "cuts": metric.steps}


def _dover_views(video: Side) -> Any:
    from tasks.extras.locot2v.technical_quality import pieces, views

    parts = pieces(len(video), video.fps, 10.0)
    for number, piece in enumerate(parts):
        views(video, piece, 3, number)
    return {"pieces": len(parts)}


METRICS: dict[str, Callable[[Side], Any]] = {
    "read": _read,
    "temporal_flickering": _pixels("temporal_flicker"),
    "dynamic_degree": _pixels("moving_share"),
    "motion_smoothness": _pixels("motion_smoothness"),
    "warping_error": _pixels("warping_error"),
    "temporal_flickering and warping_error": _both_of_flow,
    "cuts": _cuts,
    "transition_smoothness": _transitions,
    "technical_quality without the network": _dover_views,
}


def measure(name: str, film: Path) -> dict[str, Any]:
    """Return one metric's usage for a film in this process, without starting Python."""
    import cv2

    cv2.setNumThreads(1)
    video = FileVideo(film, FrameRate(long_side=WIDTH))
    began = time.process_time()
    result = METRICS[name](video)
    taken = time.process_time() - began
    minutes = len(video) / video.fps / 60
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {
        "metric": name,
        "cpu_s_a_minute": round(taken / minutes, 2),
        "peak_mb": round(peak),
        "frames": len(video),
        "result": result,
    }


def film_of(films: Films, minutes: int) -> Path:
    """Return the film, created once."""
    path = films.work / f"suite_{minutes}_min.mp4"
    if not path.is_file():
        draft = path.with_name(f"draft-{path.name}")
        start = ["-ss", str(FROM_S), "-stream_loop", "-1", "-i", films.bunny, "-t", str(60 * minutes), "-an"]
        size = ["-vf", f"fps={FPS},scale={WIDTH}:{HEIGHT}"]
        run_ffmpeg(*start, *size, "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", draft)
        draft.replace(path)
    return path


def keep(path: Path, row: dict[str, Any]) -> None:
    """Replace one metric's figures, keeping the others."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    by_metric = {one["metric"]: one for one in rows} | {row["metric"]: row}
    path.write_text(json.dumps([by_metric[name] for name in METRICS if name in by_metric], indent=1))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the metrics, print a line for each, and store them with earlier figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.suite_metrics")
    parser.add_argument("--only", nargs="+", choices=METRICS, metavar="METRIC", help=", ".join(METRICS))
    parser.add_argument("--minutes", type=int, default=1)
    parser.add_argument("--films", type=Path, help="folder with the film; by default it is fetched")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.here:
        print(json.dumps(measure(chosen.only[0], chosen.here)))
        return 0
    out = chosen.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    film = film_of(Films.find(chosen.films, out / "films", ROOT / "build" / "demo"), chosen.minutes)
    for name in chosen.only or METRICS:
        used = run([sys.executable, "-m", "bench.suite_metrics", "--only", name, "--here", film])
        keep(out / f"suite_metrics_{chosen.minutes}_min.json", used.output)
        print(f"{name:40} {used.output['cpu_s_a_minute']:8.2f} s  {used.output['peak_mb']:5} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
