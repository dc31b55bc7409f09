"""Frames as the images of a request: scaled down, as JPEG data URIs."""

from __future__ import annotations

import base64
import io
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from PIL import Image

from tasks.llm.vision_models import VlmModel
from tasks.pairs.view import Side

#: Size of a process's cache of encoded frames: about 5,000 of 512×288.
KEPT_BYTES = 256 << 20


def image_size(width: int, height: int, side: int) -> tuple[int, int]:
    """Return a frame's scaled size, with a longer side of at most `side` pixels."""
    scale = min(1.0, side / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


class _KeptImages:
    """Least-recently-used cache of this process's encoded frames."""

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


def _address(video: Side, place: int, id_: str, model: VlmModel) -> str:
    key = (id_, model.image_side, model.jpeg_quality)
    cached = _kept.get(key)
    if cached is not None:
        return cached
    picture = Image.fromarray(video.rgb(place))
    size = image_size(picture.width, picture.height, model.image_side)
    if size != picture.size:
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=model.jpeg_quality)
    address = "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    _kept.put(key, address)
    return address


def video_parts(name: str, video: Side, places: Sequence[int], model: VlmModel) -> list[dict[str, Any]]:
    """Return a video's frames as parts of a message, after a line that names the video."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": f"The {name}, {len(places)} frames:"}]
    for place, id_ in zip(places, video.frame_ids(places), strict=True):
        parts.append({"type": "image_url", "image_url": {"url": _address(video, place, id_, model)}})
    return parts


def with_times(parts: Sequence[dict[str, Any]], times_s: Iterable[float]) -> list[dict[str, Any]]:
    """Return a video's line and images, as of :func:`video_parts`, with its time before each image."""
    line, *images = parts
    timed = [line]
    for time_s, image in zip(times_s, images, strict=True):
        timed += [{"type": "text", "text": f"{time_s:.1f} s:"}, image]
    return timed
