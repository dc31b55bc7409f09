"""Frames as parts of a request: scaled down, each as an image, or all of a video as one video."""

from __future__ import annotations

import base64
import io
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from storage_schemas.frames import Planes
from storage_schemas.model import ProviderName
from tasks.llm.prompt_files import filled
from tasks.llm.vision_models import VlmModel
from tasks.media.encode import encode_units
from tasks.pairs.view import Side

#: Size of a process's cache of encoded frames and videos: about 5,000 frames of 512×288.
KEPT_BYTES = 256 << 20


def image_size(width: int, height: int, side: int) -> tuple[int, int]:
    """Return a frame's scaled size, with a longer side of at most `side` pixels."""
    scale = min(1.0, side / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


class _KeptImages:
    """Least-recently-used cache of this process's encoded frames and videos."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._images: OrderedDict[tuple[str, int, int], str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, int, int]) -> str | None:
        with self._lock:
            image = self._images.get(key)
            if image is not None:
                self._images.move_to_end(key)
            return image

    def put(self, key: tuple[str, int, int], address: str) -> None:
        with self._lock:
            self._bytes += len(address) - len(self._images.pop(key, ""))
            self._images[key] = address
            while self._bytes > self._most:
                self._bytes -= len(self._images.popitem(last=False)[1])


#: Shared because a pair is asked in two orders, and the pairs of a source share most of their frames.
_kept = _KeptImages(KEPT_BYTES)


def _address(video: Side, index: int, id_: str, model: VlmModel) -> str:
    key = (id_, model.image_side, model.jpeg_quality)
    cached = _kept.get(key)
    if cached is not None:
        return cached
    picture = Image.fromarray(video.rgb(index))
    size = image_size(picture.width, picture.height, model.image_side)
    if size != picture.size:
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=model.jpeg_quality)
    address = "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    _kept.put(key, address)
    return address


def video_parts(line: str, video: Side, indices: Sequence[int], model: VlmModel) -> list[dict[str, Any]]:
    """Return a video's frames as parts of a message, after a line that names the video."""
    return [{"type": "text", "text": line}, *image_parts(video, indices, model)]


def image_parts(video: Side, indices: Sequence[int], model: VlmModel) -> list[dict[str, Any]]:
    """Return a video's frames as parts of a message."""
    return [
        {"type": "image_url", "image_url": {"url": _address(video, index, id_, model)}}
        for index, id_ in zip(indices, video.frame_ids(indices), strict=True)
    ]


def whole_video_parts(
    line: str, video: Side, model: VlmModel, provider: ProviderName
) -> list[dict[str, Any]]:
    """Return all frames of a video as one video, after a line that names it.

    For Google it is an MP4 at the video's own rate, for others vLLM's form: its frames as JPEG.
    """
    if provider == "google":
        address = _mp4_address(video, model)
    else:
        ids = video.frame_ids(range(len(video)))
        frames = (_address(video, index, id_, model) for index, id_ in enumerate(ids))
        address = "data:video/jpeg;base64," + ",".join(frame.partition(",")[2] for frame in frames)
    return [{"type": "text", "text": line}, {"type": "video_url", "video_url": {"url": address}}]


def _mp4_address(video: Side, model: VlmModel) -> str:
    key = (f"mp4:{video.identity()}", model.image_side, 0)
    cached = _kept.get(key)
    if cached is not None:
        return cached
    # the encoder takes even sizes
    width, height = (
        max(2, side // 2 * 2) for side in image_size(video.width, video.height, model.image_side)
    )
    with tempfile.TemporaryDirectory(prefix="slvmeval-video-") as folder:
        path = Path(folder) / "video.mp4"
        encode_units(path, [_scaled(video, width, height)], width, height, video.color, video.fps)
        address = "data:video/mp4;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
    _kept.put(key, address)
    return address


def _scaled(video: Side, width: int, height: int) -> Iterator[Planes]:
    """Yield a video's frames in another size, ``(height·3/2, width)`` uint8."""
    for planes in video:
        if (video.width, video.height) == (width, height):
            yield planes
        else:
            frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
            scaled = frame.reformat(width=width, height=height, interpolation="LANCZOS").to_ndarray()
            yield scaled.astype(np.uint8, copy=False)


def with_times(
    parts: Sequence[dict[str, Any]], times_s: Iterable[float], time_line: str
) -> list[dict[str, Any]]:
    """Return a video's line and images, as of :func:`video_parts`, with its time before each image.

    Parameters
    ----------
    time_line
        What stands before an image, with ``{seconds}`` for its time.
    """
    line, *images = parts
    timed = [line]
    for time_s, image in zip(times_s, images, strict=True):
        timed += [{"type": "text", "text": filled(time_line, seconds=f"{time_s:.1f}")}, image]
    return timed
