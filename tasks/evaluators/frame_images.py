"""Frames as the images of a request: reduced, as JPEG files in data addresses."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

from PIL import Image

from tasks.evaluators.vlm_models import VlmModel
from tasks.pairs.view import Side


def image_size(width: int, height: int, side: int) -> tuple[int, int]:
    """Return the size to which a frame is reduced, so that its longer side is at most `side` pixels."""
    scale = min(1.0, side / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def image_part(video: Side, place: int, model: VlmModel) -> dict[str, Any]:
    """Return one frame of a video as a part of a message."""
    picture = Image.fromarray(video.rgb(place))
    size = image_size(picture.width, picture.height, model.image_side)
    if size != picture.size:
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=model.jpeg_quality)
    address = "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    return {"type": "image_url", "image_url": {"url": address}}


def video_parts(name: str, video: Side, places: Sequence[int], model: VlmModel) -> list[dict[str, Any]]:
    """Return the frames of a video as parts of a message, after a line that says whose they are."""
    head = {"type": "text", "text": f"The {name}, {len(places)} frames:"}
    return [head, *(image_part(video, place, model) for place in places)]
