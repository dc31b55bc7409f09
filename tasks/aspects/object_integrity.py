"""Object integrity: a thing that the caption names is gone (SLVMEval, 4.2 and appendix F).

The paper's operation, Grounding DINO with Stable Diffusion, is in ``object_diffusion.py``. The one here is a
classical stand-in: what U²-Net finds salient is painted over from its surroundings. It does not read the
caption to find the thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.frames import Planes
from tasks.aspects.base import (
    Aspect,
    ClipContext,
    ClipNotDegradable,
    ClipSpan,
    FindingOperation,
    FoundParameters,
)
from tasks.aspects.object_diffusion import GroundedInpainting
from tasks.media.planes import Mask, Rgb, merge_masked, planes_to_rgb, rgb_to_planes
from tasks.models.base import Models


class InpaintingParameters(FoundParameters):
    """How the subject is found and painted over.

    Parameters
    ----------
    model
        The network that finds what is salient.
    salience
        Least value of the mask, 1 to 255, that counts as subject.
    least_part
        Parts of the mask smaller than this share of its largest part are left out.
    grow
        How far the mask grows, as a share of the subject's longer side; never less than `grow_px` pixels
        (5 % and 4 px, as for the boxes of the diffusion operation).
    reduce
        The filling is computed on a picture so many times smaller: a large hole then gets soft areas
        instead of spokes, in a tenth of the time. 1 is the full size.
    radius
        Telea's neighbourhood in pixels of the reduced picture.
    least_share, most_share
        A frame whose mask covers less or more of the picture is left as it is: nothing was found, or
        nothing would be left to paint from.
    amount
        How much of the subject is painted over; 1 is all of it.
    """

    model: Literal["u2net", "u2netp"] = "u2netp"
    salience: int = Field(default=128, ge=1, le=255)
    least_part: float = Field(default=0.1, ge=0, le=1)
    grow: float = Field(default=0.05, ge=0, le=0.5)
    grow_px: int = Field(default=4, ge=0)
    reduce: int = Field(default=4, ge=1, le=16)
    radius: float = Field(default=5.0, gt=0, le=50)
    least_share: float = Field(default=0.005, ge=0, le=1)
    most_share: float = Field(default=0.6, gt=0, le=1)
    amount: float = Field(default=1.0, gt=0, le=1)


def subject_mask(salience: NDArray[np.uint8], parameters: InpaintingParameters) -> Mask:
    """Return the pixels to paint over, ``(H, W)`` bool; none where the share is out of bounds."""
    found = (salience >= parameters.salience).astype(np.uint8)
    count, labels, facts, _ = cv2.connectedComponentsWithStats(found, connectivity=8)
    nothing = np.zeros(salience.shape, np.bool_)
    if count < 2:
        return nothing
    areas = facts[1:, cv2.CC_STAT_AREA]
    kept = np.flatnonzero(areas >= parameters.least_part * areas.max()) + 1
    sides = facts[kept][:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]]
    reach = max(parameters.grow_px, round(parameters.grow * int(sides.max())))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    subject = cv2.dilate(np.isin(labels, kept).astype(np.uint8), disc).astype(np.bool_)
    if not parameters.least_share <= subject.mean() <= parameters.most_share:
        return nothing
    return np.asarray(subject, np.bool_)


def paint_over(frame: Rgb, mask: Mask, parameters: InpaintingParameters) -> Rgb:
    """Return the picture ``(H, W, 3)`` with the pixels under the mask made up from those around it."""
    height, width = mask.shape
    small = (max(1, width // parameters.reduce), max(1, height // parameters.reduce))
    reduced = cv2.resize(frame, small, interpolation=cv2.INTER_AREA)
    # a small pixel that holds anything of the subject is no source to paint from
    hole = cv2.resize(mask.astype(np.float32), small, interpolation=cv2.INTER_AREA) > 0
    filled = cv2.inpaint(reduced, hole.astype(np.uint8), parameters.radius, cv2.INPAINT_TELEA)
    whole = cv2.resize(filled, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.where(mask[..., None], np.asarray(whole, np.uint8), frame)


class SaliencyTeleaInpainting(FindingOperation[InpaintingParameters]):
    """The salient subject of each frame painted over by Telea's method.

    The threshold of 0.5 steps over the whole clip asks for more than a speck in a few frames: a subject of a
    tenth of the picture made 3 to 9.
    """

    name = "saliency-telea-inpainting"
    parameters_type = InpaintingParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"amount": 0.35},
        "medium": {"amount": 0.65},
        "standard": {},
    }
    default_strength: ClassVar[str] = "standard"
    models: ClassVar[tuple[str, ...]] = ("u2net", "u2netp")
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.5
    finds = "a subject stands out"

    def consumed_models(self, parameters: InpaintingParameters, models: Models) -> dict[str, Any]:
        """Return the network's checksum by its name."""
        from tasks.models.hub import consumed_model

        return consumed_model(models, parameters.model)

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the subjects: one of them is drawn and recorded."""
        return analysis.subject

    def choose(self, clip: ClipContext, parameters: InpaintingParameters) -> dict[str, Any]:
        """Draw the subject that the pair says is gone."""
        subjects = clip.analysis.subject
        if not subjects:
            raise ClipNotDegradable("the caption names no subject")
        return {"subject": subjects[int(clip.rng("subject").integers(len(subjects)))]}

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: InpaintingParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return planes ``(n, H·3/2, W)`` without the subject; frames where none was found as they were."""
        cv2.setNumThreads(1)
        network = clip.models.get(parameters.model)
        rgb = planes_to_rgb(frames, clip.color)
        masks = np.zeros(rgb.shape[:3], np.bool_)
        painted = rgb.copy()
        share = round(parameters.amount * 256)
        for place, frame in enumerate(rgb):
            mask = subject_mask(network.mask(frame), parameters)
            if not mask.any():
                continue
            masks[place] = mask
            filled = paint_over(frame, mask, parameters)
            mixed = filled.astype(np.int32) * share + frame.astype(np.int32) * (256 - share)
            painted[place] = (mixed + 128) >> 8
        return merge_masked(frames, rgb_to_planes(painted, clip.color), masks)


def names_a_subject(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return whether the caption names a thing."""
    return bool(analysis.subject)


ASPECT = Aspect(
    name="object_integrity",
    dimension="object_removal",
    category="consistency",
    needs="a thing (`subject`)",
    takes=names_a_subject,
    operations={
        GroundedInpainting.name: GroundedInpainting(),
        SaliencyTeleaInpainting.name: SaliencyTeleaInpainting(),
    },
)
