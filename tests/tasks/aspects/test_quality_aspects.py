"""Aesthetics, technical quality, appearance style, background: the same pixels as the tools of the paper."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from PIL import Image

from storage_schemas.errors import UserInputError
from storage_schemas.frames import ColorSpec, Planes
from tasks.aspects import appearance_style
from tasks.aspects.aesthetics import ASPECT as AESTHETICS
from tasks.aspects.aesthetics import eq_contrast_table
from tasks.aspects.appearance_style import STYLES, OpencvStyle
from tasks.aspects.background_consistency import RembgU2net
from tasks.aspects.base import ClipContext, ClipNotDegradable
from tasks.aspects.technical_quality import LanczosDownUp
from tasks.media.planes import planes_to_rgb, split_planes
from tests.tasks.aspects.conftest import SMALL_NETWORK

#: The presets, the identity, whole numbers, and values that binary fractions cannot hold.
CONTRASTS = [-0.8, 0.6, 0.2, 1.0, 0.0, -2.0, 1.7, -0.333, 0.1, 3.14159, -7.89]
LAYOUTS = [(37, "gray"), (64, "yuv420p"), (50, "yuv444p")]


def ffmpeg_eq(ffmpeg: str, raw: bytes, size: str, pixels: str, contrast: float) -> np.ndarray:
    raw_video = ["-f", "rawvideo", "-pix_fmt", pixels, "-s", size]
    command = [ffmpeg, "-v", "error", *raw_video, "-i", "-", "-vf", f"eq=contrast={contrast}"]
    command += ["-f", "rawvideo", "-pix_fmt", pixels, "-"]
    done = subprocess.run(command, input=raw, capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8)


@pytest.mark.parametrize(
    ("contrast", "width", "pixels"),
    [
        *((contrast, 256, "gray") for contrast in CONTRASTS),
        # odd widths leave FFmpeg's vector code for its scalar one
        *((contrast, *layout) for contrast in (-0.8, -0.333) for layout in LAYOUTS),
    ],
)
def test_eq_contrast_table_is_ffmpegs(ffmpeg: str, contrast: float, width: int, pixels: str) -> None:
    rng = np.random.default_rng(3)
    height = 32
    chroma = {"gray": 0, "yuv420p": width * height // 2, "yuv444p": 2 * width * height}[pixels]
    luma = np.resize(np.arange(256, dtype=np.uint8), width * height)
    rest = rng.integers(0, 256, chroma, dtype=np.uint8)
    out = ffmpeg_eq(ffmpeg, luma.tobytes() + rest.tobytes(), f"{width}x{height}", pixels, contrast)
    assert (out[: luma.size] == eq_contrast_table(contrast)[luma]).all()
    assert (out[luma.size :] == rest).all()


def test_eq_on_planes_is_ffmpegs(ffmpeg: str, photographs: Planes, degrade: Callable[..., Planes]) -> None:
    operation = AESTHETICS.operation("ffmpeg-eq")
    for strength in operation.strengths:
        contrast = operation.parameters(strength).contrast
        expected = ffmpeg_eq(ffmpeg, photographs.tobytes(), "512x96", "yuv420p", contrast)
        assert (degrade(operation, photographs, strength).ravel() == expected).all()


def test_the_papers_contrast_inverts_and_compresses() -> None:
    table = eq_contrast_table(-0.8)
    assert (table[0], table[255]) == (229, 25)
    assert (np.diff(table.astype(int)) <= 0).all()


def test_lanczos_is_pillows_both_ways(photographs: Planes, clip_of: Callable[..., ClipContext]) -> None:
    operation = LanczosDownUp()
    rgb = planes_to_rgb(photographs, ColorSpec())
    result = operation.apply(rgb, 0, clip_of(3), operation.parameters(), {})
    for before, after in zip(rgb, result, strict=True):
        small = Image.fromarray(before).resize((256, 48), Image.Resampling.LANCZOS)
        assert (np.asarray(small.resize((512, 96), Image.Resampling.LANCZOS)) == after).all()


def test_lanczos_refuses_frames_that_are_small(photographs: Planes, degrade: Callable[..., Planes]) -> None:
    with pytest.raises(ClipNotDegradable, match="512×96"):
        degrade(LanczosDownUp(), photographs, long_side=512)


def plain_opencv(name: str, image: np.ndarray) -> np.ndarray:
    """The paper's calls, one by one."""
    if name == "cartoon":
        color = cv2.edgePreservingFilter(image, flags=1, sigma_s=40, sigma_r=0.20)
        grey = cv2.medianBlur(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), 5)
        edge = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, 11, 3)
        return cv2.bitwise_and(color, color, mask=cv2.medianBlur(edge, 5))
    if name == "detail":
        return cv2.detailEnhance(image, sigma_s=5, sigma_r=0.08)
    if name == "oil":
        return cv2.xphoto.oilPainting(image, 5, 1)
    if name == "pencil":
        return cv2.pencilSketch(image, sigma_s=40, sigma_r=0.05, shade_factor=0.015)[1]
    return cv2.stylization(image, sigma_s=40, sigma_r=0.25)


@pytest.mark.parametrize("style", STYLES)
def test_styles_are_opencvs(style: str, photographs: Planes, clip_of: Callable[..., ClipContext]) -> None:
    operation = OpencvStyle()
    rgb = planes_to_rgb(photographs[:2, :, 100:260], ColorSpec())
    result = operation.apply(rgb, 0, clip_of(2), operation.parameters(), {"style": style})
    for before, after in zip(rgb, result, strict=True):
        expected = plain_opencv(style, cv2.cvtColor(before, cv2.COLOR_RGB2BGR))
        assert (cv2.cvtColor(after, cv2.COLOR_RGB2BGR) == expected).all()


def test_one_style_a_video_and_all_styles_over_videos(clip_of: Callable[..., ClipContext]) -> None:
    operation = OpencvStyle()
    parameters = operation.parameters()
    for source in ("a", "b", "c"):
        styles = {operation.choose(clip_of(4, index=i, source=source), parameters)["style"] for i in range(9)}
        assert len(styles) == 1
    over_videos = {operation.choose(clip_of(4, source=str(i)), parameters)["style"] for i in range(60)}
    assert over_videos == set(appearance_style.STYLES)


def test_a_style_named_twice_is_refused() -> None:
    with pytest.raises(UserInputError, match="once"):
        OpencvStyle().parameters(overrides={"styles": ["oil", "oil"]})


def test_the_foreground_stays_to_the_bit_and_the_rest_becomes_the_landscape(
    photographs: Planes, degrade: Callable[..., Planes], clip_of: Callable[..., ClipContext]
) -> None:
    after = degrade(RembgU2net(), photographs, **SMALL_NETWORK)
    clip = clip_of(3)
    mask = clip.models.get("u2netp").mask(planes_to_rgb(photographs[:1], clip.color)[0])
    before_y, after_y = split_planes(photographs).y, split_planes(after).y
    assert (before_y[:, mask == 255] == after_y[:, mask == 255]).all()
    choice = RembgU2net().choose(clip, RembgU2net().parameters(overrides=SMALL_NETWORK))
    landscape = clip.models.get("backgrounds:procedural").image(choice["images"][1], 96, 512)
    shown = planes_to_rgb(after[1:2], clip.color)[0].astype(int)
    # planes keep a quarter of the chroma, so grain and edges differ a little
    assert np.abs(shown - landscape)[mask == 0].mean() < 3


def test_a_new_background_for_each_frame_or_one_for_the_clip(clip_of: Callable[..., ClipContext]) -> None:
    operation = RembgU2net()
    each = operation.choose(clip_of(12), operation.parameters(overrides=SMALL_NETWORK))["images"]
    assert len(set(each)) == 12
    one = operation.choose(clip_of(12), operation.parameters(overrides={**SMALL_NETWORK, "per": "clip"}))
    assert len(one["images"]) == 1
