"""Videos for the evaluators' tests: frames in memory, and a film with known cuts."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from storage_schemas.errors import Reason, SetAside
from storage_schemas.frames import ColorSpec, Planes
from tasks.pairs.file_pairs import VideoSide
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText

ASPECT = AspectText(name="aesthetics", dimension="aesthetics", description="How good it looks.")


class FrameList(Side):
    """Frames in memory, with a note of the places that were read at once."""

    color, fps = ColorSpec(), 1.0

    def __init__(self, frames: Sequence[Planes], width: int = 32, height: int = 16, family: str = "") -> None:
        self.frames, self.width, self.height = list(frames), width, height
        self.reads: list[list[int]] = []
        self._family = family

    @property
    def family(self) -> str:
        return self._family

    def __len__(self) -> int:
        return len(self.frames)

    def planes(self, places: Sequence[int]) -> Planes:
        self.reads.append(list(places))
        if not len(places):
            return np.empty((0, self.height * 3 // 2, self.width), np.uint8)
        return np.stack([self.frames[place] for place in places])


class Damaged(FrameList):
    """A film whose frames cannot be read once they are needed."""

    def __init__(self) -> None:
        super().__init__([flat(90)] * 4)

    def frame_ids(self, places: Sequence[int]) -> list[str]:
        return [f"damaged:{place}" for place in places]

    def planes(self, places: Sequence[int]) -> Planes:
        raise SetAside(Reason.UNDECODABLE_VIDEO, "the file ends early")


def noise(number: int, width: int = 32, height: int = 16) -> Planes:
    """A frame of random samples, each number another one."""
    return np.random.default_rng(number).integers(16, 236, (height * 3 // 2, width), dtype=np.uint8)


def flat(luma: int, width: int = 32, height: int = 16) -> Planes:
    """A frame of one grey."""
    frame = np.full((height * 3 // 2, width), 128, np.uint8)
    frame[:height] = luma
    return frame


def cut_video(lengths: Sequence[int], seed: int = 0) -> FrameList:
    """A video of flat scenes with hard cuts; each is found where its scene before has two frames or more."""
    rng = np.random.default_rng(seed)
    lumas = [16 + 200 * (scene % 2) + int(rng.integers(4)) for scene in range(len(lengths))]
    return FrameList([flat(luma) for luma, n in zip(lumas, lengths, strict=True) for _ in range(n)])


def film(ffmpeg: str, path: Path) -> VideoSide:
    """A film of 24 s: four test pictures that move, with hard cuts, and a fade."""
    shows = (
        "testsrc2=s=96x64:r=8:d=5",
        "mandelbrot=s=96x64:r=8:start_scale=0.5,trim=duration=6",
        "smptebars=s=96x64:r=8:d=3",
        "testsrc=s=96x64:r=8:d=4,negate",
        "life=s=96x64:r=8:mold=10:seed=3,trim=duration=6,fade=t=out:st=2:d=3",
    )
    inputs = [part for show in shows for part in ("-f", "lavfi", "-i", show)]
    joined = "".join(f"[{n}:v]format=yuv420p,setsar=1[v{n}];" for n in range(len(shows)))
    joined += "".join(f"[v{n}]" for n in range(len(shows))) + f"concat=n={len(shows)}[v]"
    coding = ("-c:v", "libx264", "-preset", "ultrafast", "-threads", "1")
    command = [ffmpeg, "-v", "error", "-nostdin", *inputs, "-filter_complex", joined, "-map", "[v]", *coding]
    subprocess.run([*command, path], check=True, timeout=120)
    return VideoSide(path, long_side=96)


def filter_values(ffmpeg: str, side: Side, filters: str, name: str) -> list[float]:
    """What an FFmpeg filter notes of a side's frames under a name.

    Without vector instructions, with which FFmpeg's scene score is wrong for very narrow pictures.
    """
    size = f"{side.width}x{side.height}"
    source = ("-cpuflags", "0", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", size, "-r", "1", "-i", "-")
    command = [ffmpeg, "-v", "error", *source, "-vf", f"{filters},metadata=print:file=-", "-f", "null", "-"]
    raw = b"".join(frame.tobytes() for frame in side)
    done = subprocess.run(command, input=raw, capture_output=True, check=True, timeout=120)
    lines = done.stdout.decode().splitlines()
    if name == "frame":
        return [float(line.split("pts_time:")[1]) for line in lines if line.startswith("frame:")]
    return [float(line.split("=")[1]) for line in lines if line.startswith(f"{name}=")]
