"""A video of full range looks the same in the store, in the MP4 of a pair and in a judge's JPEG."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from storage_schemas.frames import ColorSpec
from tasks.media.decode import FrameSampler
from tasks.media.encode import encode_units
from tasks.media.planes import planes_to_rgb

Video = Callable[[str], Path]


def as_ffmpeg_shows(ffmpeg: str, path: Path, width: int, height: int, *filters: str) -> np.ndarray:
    """Return the pictures of a video as RGB by ffmpeg's own conversion."""
    chain = ",".join([*filters, "format=rgb24"])
    command = [ffmpeg, "-v", "error", "-i", str(path), "-vf", chain, "-f", "rawvideo", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3).astype(np.int16)


@pytest.mark.parametrize("name", ["plain", "full_range"])
def test_it_looks_like_its_source(name: str, video: Video, ffmpeg: str, tmp_path: Path) -> None:
    sampler = FrameSampler(video(name), long_side=320)
    planes = np.stack([frame.planes.copy() for frame in sampler])
    color = ColorSpec(sampler.info.matrix, sampler.info.full_range)
    assert color.full_range == (name == "full_range")
    height, width = planes.shape[1] * 2 // 3, planes.shape[2]
    shown = as_ffmpeg_shows(ffmpeg, video(name), width, height, "fps=1", f"scale={width}:{height}")

    stored = planes_to_rgb(planes, color).astype(np.int16)
    assert stored.shape == shown.shape
    error = np.abs(stored - shown).mean()
    assert error < 1
    # taken for limited range, it would be too bright and too dark
    wrong = planes_to_rgb(planes, ColorSpec(color.matrix, not color.full_range)).astype(np.int16)
    assert np.abs(wrong - shown).mean() > 5 * error

    encode_units(tmp_path / "pair.mp4", [planes], width, height, color, 1.0)
    played = as_ffmpeg_shows(ffmpeg, tmp_path / "pair.mp4", width, height)
    assert np.abs(played - shown).mean() < 1

    sent = io.BytesIO()
    Image.fromarray(planes_to_rgb(planes[:1], color)[0]).save(sent, "JPEG", quality=90)
    seen = np.asarray(Image.open(sent))
    # JPEG halves the colours' resolution and rounds
    assert np.abs(seen.astype(np.int16) - shown[0]).mean() < 5
