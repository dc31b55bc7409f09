"""Appearance style: the clip is redrawn in one of five styles (SLVMEval, 4.3 and appendix E.2).

OpenCV uses BGR, and some filters treat the channels differently (grey levels, the pencil's tint). Every
style function therefore takes and returns BGR, as a script around ``cv2.VideoCapture`` would; the operation
converts from and to RGB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from storage_schemas.extras import lazy_package
from storage_schemas.frames import Planes
from tasks.aspects.base import (
    ANY_CAPTION,
    Aspect,
    ClipContext,
    Parameters,
    PixelOperation,
    Scale,
    any_clip,
    blending,
)
from tasks.aspects.spatial_relationship import MIRRORED

cv2 = lazy_package("cv2")

Bgr = NDArray[np.uint8]
StyleName = Literal["cartoon", "detail", "oil", "pencil", "watercolor"]


def cartoon(image: Bgr) -> Bgr:
    """Return flat colours with black outlines; BGR ``(H, W, 3)`` uint8."""
    smooth = cv2.edgePreservingFilter(image, flags=1, sigma_s=40, sigma_r=0.20)
    grey = cv2.medianBlur(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), 5)
    edges = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, blockSize=11, C=3)
    edges = cv2.medianBlur(edges, 5)
    return cast("Bgr", cv2.bitwise_and(smooth, smooth, mask=edges))


def detail(image: Bgr) -> Bgr:
    """Return the picture with its detail overdrawn; BGR ``(H, W, 3)`` uint8."""
    return cast("Bgr", cv2.detailEnhance(image, sigma_s=5, sigma_r=0.08))


def oil(image: Bgr) -> Bgr:
    """Return an oil painting; BGR ``(H, W, 3)`` uint8."""
    return cast("Bgr", cv2.xphoto.oilPainting(image, size=5, dynRatio=1))


def pencil(image: Bgr) -> Bgr:
    """Return a sketch in coloured pencil; BGR ``(H, W, 3)`` uint8."""
    _, coloured = cv2.pencilSketch(image, sigma_s=40, sigma_r=0.05, shade_factor=0.015)
    return cast("Bgr", coloured)


def watercolor(image: Bgr) -> Bgr:
    """Return a watercolour; BGR ``(H, W, 3)`` uint8."""
    return cast("Bgr", cv2.stylization(image, sigma_s=40, sigma_r=0.25))


#: The five styles with the paper's arguments.
STYLES: Mapping[StyleName, Callable[[Bgr], Bgr]] = {
    "cartoon": cartoon,
    "detail": detail,
    "oil": oil,
    "pencil": pencil,
    "watercolor": watercolor,
}


class StyleParameters(Parameters):
    """The styles to draw from, and the weight of the style against the original (1 is the style alone)."""

    styles: tuple[StyleName, ...] = Field(default=tuple(STYLES), min_length=1)
    amount: float = Field(default=1.0, gt=0, le=1)

    @field_validator("styles")
    @classmethod
    def _each_once(cls, styles: tuple[StyleName, ...]) -> tuple[StyleName, ...]:
        if len(set(styles)) < len(styles):
            raise ValueError("each style may be named only once, since all are drawn with equal probability")
        return styles


class OpencvStyle(PixelOperation[StyleParameters]):
    """One of OpenCV's stylisations, the same in all clips of a video.

    Weaker presets blend the style with the original. The mildest style determines the threshold: over 20
    frames of an animated film, detail enhancement changed at least 0.48 at `weak` and 1.4 at `paper`.
    """

    name = "opencv-style"
    parameters_type = StyleParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"amount": 0.35},
        "medium": {"amount": 0.65},
        "paper": {},
    }
    scale: ClassVar[Scale | None] = blending()
    works_on: ClassVar[Literal["planes", "rgb"]] = "rgb"
    threshold = 0.3

    def choose(self, clip: ClipContext, parameters: StyleParameters) -> dict[str, Any]:
        """Draw the style; all clips of a video use the same one."""
        index = int(clip.video_rng("style").integers(len(parameters.styles)))
        return {"style": parameters.styles[index]}

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: StyleParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return RGB ``(n, H, W, 3)`` in the chosen style."""
        cv2.setNumThreads(1)  # each core already runs one process
        style = STYLES[choice["style"]]
        changed = np.empty_like(frames)
        for index, frame in enumerate(frames):
            changed[index] = style(np.ascontiguousarray(frame[..., ::-1]))[..., ::-1]
        if parameters.amount < 1:
            share = round(parameters.amount * 256)
            mixed = changed.astype(np.int32) * share + frames.astype(np.int32) * (256 - share)
            changed = ((mixed + 128) >> 8).astype(np.uint8)
        return changed


ASPECT = Aspect(
    name="appearance_style",
    dimension="appearance_style",
    category="quality",
    needs="nothing",
    takes=any_clip,
    operations={OpencvStyle.name: OpencvStyle()},
    control=MIRRORED,
    caption_advice=ANY_CAPTION,
)
