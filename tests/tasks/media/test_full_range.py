"""A video of full range looks the same in the store, in the MP4 of a pair and in a judge's JPEG."""

from __future__ import annotations

import base64
import io
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from storage_schemas.frames import ColorSpec
from storage_schemas.ids import artifact_id
from storage_schemas.source import ClipRow
from storage_schemas.store import FRAMES, Store
from tasks.llm.vision_models import VlmModel
from tasks.media.decode import FrameSampler
from tasks.media.encode import encode_units
from tasks.media.planes import planes_to_rgb
from tasks.report.pictures import clip_strip, jpeg
from tasks.scoring.judges.frame_images import video_parts
from tasks.scoring.suites.file_video import FileVideo, FrameRate
from tests.frame_arrays import write_frames
from tests.tasks.media.corpus import X264, made


def as_ffmpeg_shows(ffmpeg: str, path: Path, size: tuple[int, int], *filters: str) -> np.ndarray:
    """Return the pictures of a video as RGB by ffmpeg's own conversion."""
    chain = ",".join([*filters, "format=rgb24"])
    command = [ffmpeg, "-v", "error", "-i", str(path), "-vf", chain, "-f", "rawvideo", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, size[1], size[0], 3).astype(np.int16)


def pictured(packed: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(packed))).astype(np.int16)


@pytest.mark.parametrize(("pixels", "full_range"), [("yuv420p", False), ("yuvj420p", True)])
def test_it_looks_like_its_source(pixels: str, full_range: bool, ffmpeg: str, tmp_path: Path) -> None:
    film, size = tmp_path / "film.mp4", (320, 180)
    made(f"{X264} -pix_fmt {pixels}", seconds="2", vf="scale=320:180")(ffmpeg, film)
    sampler = FrameSampler(film, long_side=320)
    planes = np.stack([frame.planes.copy() for frame in sampler])
    color = ColorSpec(sampler.info.matrix, sampler.info.full_range)
    assert color.full_range is full_range
    shown = as_ffmpeg_shows(ffmpeg, film, size, "fps=1", "scale=320:180")

    stored = planes_to_rgb(planes, color).astype(np.int16)
    assert stored.shape == shown.shape
    error = np.abs(stored - shown).mean()
    assert error < 1
    # taken for limited range, it would be too bright and too dark
    wrong = planes_to_rgb(planes, ColorSpec(color.matrix, not color.full_range)).astype(np.int16)
    assert np.abs(wrong - shown).mean() > 5 * error

    encode_units(tmp_path / "pair.mp4", [planes], *size, color, 1.0)
    played = as_ffmpeg_shows(ffmpeg, tmp_path / "pair.mp4", size)
    assert np.abs(played - shown).mean() < 1

    # a judge's picture: JPEG halves the colours' resolution and rounds
    side = FileVideo(film, FrameRate(fps="1", long_side=320))
    limits = {"context_tokens": 4096, "answer_tokens": 64, "most_images": 8, "image_side": 320}
    _, sent = video_parts(
        "video", side, [0], VlmModel.model_validate({"model": "m", "server": "s", **limits})
    )
    packed = base64.b64decode(sent["image_url"]["url"].partition(",")[2])
    assert np.abs(pictured(packed) - shown[0]).mean() < 5

    # the gallery's
    store = Store.create(tmp_path / "store")
    with store.stage(FRAMES, {"n": 1}) as staged:
        write_frames(staged.path / "planes.zarr", [planes[0]], [0.0], color)
    clip = ClipRow(source_id="s", clip=0, start_s=0.0, end_s=1.0, first_frame=0, frame_count=1, caption="c")
    tile = pictured(jpeg(clip_strip(store, artifact_id(FRAMES, {"n": 1}), [clip])))[:72, :128]
    filters = ("fps=1", "scale=320:180", "scale=128:72:flags=lanczos")
    small = as_ffmpeg_shows(ffmpeg, film, (128, 72), *filters)[0]
    # so small a JPEG has other edges, but its contrast would be 16 % more or less in the other range
    assert abs(tile.std() / small.std() - 1) < 0.06
    assert abs(tile.mean() - small.mean()) < 5
