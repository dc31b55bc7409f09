"""A baseline script that makes the same seven videos with ffmpeg and OpenCV, one after the other.

``python -m bench.plain_script VIDEO EDITS.json FOLDER``: for each aspect decode the film at 1 frame a
second and 512 px, change the frames that the edits name, and re-encode everything.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

Image = np.ndarray[Any, np.dtype[np.uint8]]

SAMPLE = "fps=1,scale={width}:{height}:flags=lanczos"
ENCODE = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "18", "-pix_fmt", "yuv420p"]
QUIET = ["ffmpeg", "-nostdin", "-v", "error", "-y"]


def decode(video: str, width: int, height: int) -> list[Image]:
    """Return the film's frames as BGR ``(H, W, 3)`` uint8."""
    sample = SAMPLE.format(width=width, height=height)
    command = [*QUIET, "-i", video, "-an", "-vf", sample, "-f", "rawvideo", "-pix_fmt", "bgr24", "-"]
    data = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return list(np.frombuffer(data, np.uint8).reshape(-1, height, width, 3))


def encode(frames: list[Image], width: int, height: int, target: Path) -> None:
    """Encode frames as an MP4 of 1 frame a second."""
    pictures = ["-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{width}x{height}", "-r", "1", "-i", "-"]
    with subprocess.Popen([*QUIET, *pictures, *ENCODE, str(target)], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for frame in frames:
            process.stdin.write(frame.tobytes())
        process.stdin.close()
    if process.returncode:
        raise RuntimeError(f"ffmpeg ended with {process.returncode}")


def blurred(image: Image) -> Image:
    """Return the picture downscaled to half its size and upscaled again."""
    height, width = image.shape[:2]
    small = cv2.resize(image, (width // 2, height // 2), interpolation=cv2.INTER_LANCZOS4)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_LANCZOS4)


def mirrored(image: Image) -> Image:
    """Return the picture mirrored horizontally."""
    return cv2.flip(image, 1)


def cartoon(image: Image) -> Image:
    """Return flat colours with black outlines."""
    smooth = cv2.edgePreservingFilter(image, flags=1, sigma_s=40, sigma_r=0.20)
    grey = cv2.medianBlur(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), 5)
    edges = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, 11, 3)
    return cv2.bitwise_and(smooth, smooth, mask=cv2.medianBlur(edges, 5))


STYLES: dict[str, Callable[[Image], Image]] = {
    "cartoon": cartoon,
    "detail": lambda image: cv2.detailEnhance(image, sigma_s=5, sigma_r=0.08),
    "oil": lambda image: cv2.xphoto.oilPainting(image, size=5, dynRatio=1),
    "pencil": lambda image: cv2.pencilSketch(image, sigma_s=40, sigma_r=0.05, shade_factor=0.015)[1],
    "watercolor": lambda image: cv2.stylization(image, sigma_s=40, sigma_r=0.25),
}


def pale(video: str, segments: list[Any], width: int, height: int, target: Path) -> None:
    """Lower the contrast of the degraded frames with ffmpeg only."""
    when = "+".join(
        f"between(n,{first},{first + count - 1})" for first, count, changed in segments if changed
    )
    chain = f"{SAMPLE.format(width=width, height=height)},eq=contrast=-0.8:enable='{when}'"
    command = [*QUIET, "-i", video, "-an", "-vf", chain, *ENCODE, str(target)]
    subprocess.run(command, check=True)


def changed_frames(aspect: str, style: str, frames: list[Image]) -> list[Image]:
    """Return the frames of one clip, degraded for the aspect."""
    if aspect == "dynamics_degree":
        return [frames[len(frames) // 2]] * len(frames)
    change = {"technical_quality": blurred, "spatial_relationship": mirrored}.get(aspect) or STYLES[style]
    return [change(frame) for frame in frames]


def main(video: str, edits_file: str, folder: str) -> None:
    """Create one video per aspect."""
    cv2.setNumThreads(1)
    edits = json.loads(Path(edits_file).read_text(encoding="utf-8"))
    width, height = edits["size"]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for aspect, edit in edits["aspects"].items():
        target = Path(folder) / f"{aspect}.mp4"
        if aspect == "aesthetics":
            pale(video, edit["segments"], width, height, target)
            continue
        frames = decode(video, width, height)
        shown: list[Image] = []
        for first, count, changed in edit["segments"]:
            clip = frames[first : first + count]
            shown += changed_frames(aspect, edit["style"], clip) if changed else clip
        encode(shown, width, height, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
