"""Background consistency: the background changes to random landscapes (SLVMEval, 4.3 and appendix E.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from PIL import Image
from pydantic import Field

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.frames import Planes
from tasks.aspects.base import (
    Aspect,
    ClipContext,
    ClipSpan,
    Control,
    Parameters,
    PixelOperation,
    Scale,
    blending,
)
from tasks.media.planes import merge_masked, planes_to_rgb, rgb_to_planes
from tasks.models.backgrounds import BackgroundSet
from tasks.models.base import Models


class BackgroundParameters(Parameters):
    """Parameters of foreground extraction and of the new background.

    Parameters
    ----------
    model
        The segmentation network; the paper's rembg used ``u2net``; ``u2netp`` is its small variant.
    backgrounds
        ``procedural`` draws landscapes; any other name is an image set in the model folder's subfolder
        ``backgrounds``.
    per
        A new image for each frame (as in the paper), or one for the whole clip.
    opacity
        Opacity of the new background over the old one.
    """

    model: Literal["u2net", "u2netp"] = "u2net"
    backgrounds: str = "nature-dataset"
    per: Literal["frame", "clip"] = "frame"
    opacity: float = Field(default=1.0, gt=0, le=1)


class RembgU2net(PixelOperation[BackgroundParameters]):
    """Composes each frame over another landscape with U²-Net's soft mask, as rembg does.

    Pixels that are entirely foreground (mask 255) stay bit-identical. The threshold of 3 steps excludes clips
    that the network considers foreground almost everywhere; over 15 frames of an animated film the minimum
    difference was 5.5 at `weak` and 15.9 at `paper`. `small-network` is as strong as `paper` but uses the
    small network and drawn landscapes instead of 176 MB of weights and a set of photographs.
    """

    name = "rembg-u2net"
    parameters_type = BackgroundParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"opacity": 0.35},
        "medium": {"opacity": 0.65},
        "small-network": {"model": "u2netp", "backgrounds": "procedural"},
        "paper": {},
    }
    scale: ClassVar[Scale | None] = blending("opacity")
    models: ClassVar[tuple[str, ...]] = ("u2net", "u2netp")
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 3.0

    def consumed_models(self, parameters: BackgroundParameters, models: Models) -> dict[str, Any]:
        """Return the checksums of the network and of the image set, by name."""
        from tasks.models.hub import BACKGROUNDS, consumed_model

        images = BACKGROUNDS + parameters.backgrounds
        return {**consumed_model(models, parameters.model), **consumed_model(models, images)}

    def choose(self, clip: ClipContext, parameters: BackgroundParameters) -> dict[str, Any]:
        """Draw the image of each frame; adjacent frames get different ones if the set allows it."""
        images = _backgrounds(clip, parameters)
        if parameters.per == "clip":
            return {"images": [images.draw(clip.rng("background"))]}
        drawn: list[str] = []
        for frame in range(clip.span.frame_count):
            rng = clip.rng("background", frame)
            id_ = images.draw(rng)
            for _ in range(8):  # the set may have only one image
                if not drawn or id_ != drawn[-1]:
                    break
                id_ = images.draw(rng)
            drawn.append(id_)
        return {"images": drawn}

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: BackgroundParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return planes ``(n, H·3/2, W)`` with another background."""
        network = clip.models.get(parameters.model)
        images = _backgrounds(clip, parameters)
        rgb = planes_to_rgb(frames, clip.color)
        count, height, width, _ = rgb.shape
        composed = np.empty_like(rgb)
        keep = np.empty((count, height, width), np.uint8)
        for index in range(count):
            mask = network.mask(rgb[index]).astype(np.int32)
            keep[index] = 255 - np.rint((255 - mask) * parameters.opacity).astype(np.uint8)
            id_ = choice["images"][first + index if parameters.per == "frame" else 0]
            behind = Image.fromarray(images.image(id_, height, width))
            frame, alpha = Image.fromarray(rgb[index]), Image.fromarray(keep[index])
            composed[index] = np.asarray(Image.composite(frame, behind, alpha))
        return merge_masked(frames, rgb_to_planes(composed, clip.color), keep < 255)


class OwnBackgroundParameters(Parameters):
    """Parameters of foreground extraction, and how far the background moves.

    Parameters
    ----------
    model
        The segmentation network.
    pixels
        How far the background moves behind it, in pixels.
    """

    model: Literal["u2net", "u2netp"] = "u2netp"
    pixels: int = Field(default=4, ge=1, le=32)


class OwnBackground(PixelOperation[OwnBackgroundParameters]):
    """Cuts out the foreground and puts it back over its own background, moved by a few pixels.

    The seams are those of :class:`RembgU2net`, and the background is the same in all frames. Without the
    shift nothing would change. The threshold of 0.3 steps excludes clips without a detailed background.
    """

    name = "own-background"
    parameters_type = OwnBackgroundParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"control": {}}
    default_strength: ClassVar[str] = "control"
    models: ClassVar[tuple[str, ...]] = ("u2net", "u2netp")
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.3

    def consumed_models(self, parameters: OwnBackgroundParameters, models: Models) -> dict[str, Any]:
        """Return the checksum of the network, by name."""
        from tasks.models.hub import consumed_model

        return consumed_model(models, parameters.model)

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: OwnBackgroundParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return planes ``(n, H·3/2, W)`` with the background moved to the right."""
        network = clip.models.get(parameters.model)
        rgb = planes_to_rgb(frames, clip.color)
        composed = np.empty_like(rgb)
        keep = np.empty(rgb.shape[:3], np.uint8)
        for index, frame in enumerate(rgb):
            keep[index] = network.mask(frame)
            around = ((0, 0), (parameters.pixels, 0), (0, 0))
            behind = np.pad(frame, around, mode="symmetric")[:, : frame.shape[1]]
            layers = (Image.fromarray(frame), Image.fromarray(np.ascontiguousarray(behind)))
            composed[index] = np.asarray(Image.composite(*layers, Image.fromarray(keep[index])))
        return merge_masked(frames, rgb_to_planes(composed, clip.color), keep < 255)


def _backgrounds(clip: ClipContext, parameters: BackgroundParameters) -> BackgroundSet:
    from tasks.models.hub import BACKGROUNDS

    backgrounds: BackgroundSet = clip.models.get(BACKGROUNDS + parameters.backgrounds)
    return backgrounds


def names_a_background(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return whether the caption describes the background."""
    return bool(analysis.background)


ASPECT = Aspect(
    name="background_consistency",
    dimension="background_consistency",
    category="quality",
    needs="a background (`background`)",
    takes=names_a_background,
    operations={RembgU2net.name: RembgU2net()},
    control=Control(
        operation=OwnBackground(),
        takes=names_a_background,
        needs="a background (`background`)",
        reason="the background is the clip's own, and the same in all frames",
        copies=("model",),
    ),
    caption_advice='Describe the background: "A man reads a newspaper. '
    'In the background there is a green meadow."',
)
