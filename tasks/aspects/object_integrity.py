"""Object integrity: a thing named in the caption is removed (SLVMEval, 4.3 and appendix E.2).

The paper's operation, Grounding DINO with Stable Diffusion, is in ``object_diffusion.py``. The one here is a
classical substitute: the region U²-Net finds salient is filled from its surroundings. It does not use the
caption to locate the thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.extras import lazy_package
from storage_schemas.frames import Planes
from tasks.aspects.base import (
    Aspect,
    ClipContext,
    ClipNotDegradable,
    ClipSpan,
    Control,
    FindingOperation,
    FoundParameters,
    Scale,
    blending,
)
from tasks.aspects.object_diffusion import GroundedInpainting
from tasks.media.planes import Mask, Rgb, merge_masked, planes_to_rgb, rgb_to_planes
from tasks.models.base import Models

cv2 = lazy_package("cv2")


class InpaintingParameters(FoundParameters):
    """Settings of saliency detection and inpainting.

    Parameters
    ----------
    model
        The saliency network.
    salience
        Minimum mask value, 1 to 255, that counts as subject.
    least_part
        Parts of the mask smaller than this share of the largest part are dropped.
    grow
        Growth of the mask as a share of the subject's longer side; at least `grow_px` pixels
        (5 % and 4 px, as for the boxes of the diffusion operation).
    reduce
        Factor by which the picture is reduced for inpainting: a large hole then gets soft areas instead of
        spokes, in a tenth of the time. 1 is the full size.
    radius
        Telea's neighbourhood in pixels of the reduced picture.
    least_share, most_share
        Frames whose mask covers less or more of the picture are not changed: nothing was found, or too little
        would be left to paint from.
    amount
        Weight of the inpainted picture against the original; 1 is the inpainted picture alone.
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
    """Return the pixels to paint over, ``(H, W)`` bool; none if their share is out of bounds."""
    salient = (salience >= parameters.salience).astype(np.uint8)
    count, labels, facts, _ = cv2.connectedComponentsWithStats(salient, connectivity=8)
    nothing = np.zeros(salience.shape, np.bool_)
    if count < 2:
        return nothing
    areas = facts[1:, cv2.CC_STAT_AREA]
    parts = np.flatnonzero(areas >= parameters.least_part * areas.max()) + 1
    sides = facts[parts][:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]]
    reach = max(parameters.grow_px, round(parameters.grow * int(sides.max())))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    subject = cv2.dilate(np.isin(labels, parts).astype(np.uint8), disc).astype(np.bool_)
    if not parameters.least_share <= subject.mean() <= parameters.most_share:
        return nothing
    return np.asarray(subject, np.bool_)


def paint_over(frame: Rgb, mask: Mask, parameters: InpaintingParameters) -> Rgb:
    """Return the picture ``(H, W, 3)`` with the pixels under the mask inpainted from their surroundings."""
    height, width = mask.shape
    small = (max(1, width // parameters.reduce), max(1, height // parameters.reduce))
    reduced = cv2.resize(frame, small, interpolation=cv2.INTER_AREA)
    # a reduced pixel that contains any of the subject must not be painted from
    hole = cv2.resize(mask.astype(np.float32), small, interpolation=cv2.INTER_AREA) > 0
    filled = cv2.inpaint(reduced, hole.astype(np.uint8), parameters.radius, cv2.INPAINT_TELEA)
    whole = cv2.resize(filled, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.where(mask[..., None], np.asarray(whole, np.uint8), frame)


class SaliencyTeleaInpainting(FindingOperation[InpaintingParameters]):
    """Inpaints the salient subject of each frame with Telea's method.

    The threshold of 0.5 steps over the whole clip requires more than a speck in a few frames: a subject of a
    tenth of the picture gave 3 to 9.
    """

    name = "saliency-telea-inpainting"
    parameters_type = InpaintingParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"amount": 0.35},
        "medium": {"amount": 0.65},
        "standard": {},
    }
    scale: ClassVar[Scale | None] = blending()
    default_strength: ClassVar[str] = "standard"
    models: ClassVar[tuple[str, ...]] = ("u2net", "u2netp")
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.5
    finds = "a subject stands out"

    def consumed_models(self, parameters: InpaintingParameters, models: Models) -> dict[str, Any]:
        """Return the network's checksum by name."""
        from tasks.models.hub import consumed_model

        return consumed_model(models, parameters.model)

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the subjects: one of them is drawn and recorded."""
        return analysis.subject

    def choose(self, clip: ClipContext, parameters: InpaintingParameters) -> dict[str, Any]:
        """Draw the subject recorded as removed."""
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
        """Return planes ``(n, H·3/2, W)`` without the subject; frames without a subject are unchanged."""
        cv2.setNumThreads(1)
        network = clip.models.get(parameters.model)
        rgb = planes_to_rgb(frames, clip.color)
        masks = np.zeros(rgb.shape[:3], np.bool_)
        painted = rgb.copy()
        share = round(parameters.amount * 256)
        for index, frame in enumerate(rgb):
            mask = subject_mask(network.mask(frame), parameters)
            if not mask.any():
                continue
            masks[index] = mask
            filled = paint_over(frame, mask, parameters)
            mixed = filled.astype(np.int32) * share + frame.astype(np.int32) * (256 - share)
            painted[index] = (mixed + 128) >> 8
        return merge_masked(frames, rgb_to_planes(painted, clip.color), masks)


#: Possible places of a control's hole: shares of the picture's width and height by which the mask moves.
_MOVES = tuple((x / 8, y / 8) for y in range(-4, 4) for x in range(-4, 4) if (x, y) != (0, 0))


class PatchInpainting(FindingOperation[InpaintingParameters]):
    """Inpaints as much of the background as the salient subject covers.

    The subject's mask is moved to where the middle frame is least salient. The threshold of 0.3 steps
    excludes clips without detail there.
    """

    name = "patch-telea-inpainting"
    parameters_type = InpaintingParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"control": {}}
    default_strength: ClassVar[str] = "control"
    models: ClassVar[tuple[str, ...]] = ("u2net", "u2netp")
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.3
    finds = "there is room for the hole next to a subject"

    def consumed_models(self, parameters: InpaintingParameters, models: Models) -> dict[str, Any]:
        """Return the network's checksum by name."""
        from tasks.models.hub import consumed_model

        return consumed_model(models, parameters.model)

    def choose(self, clip: ClipContext, parameters: InpaintingParameters) -> dict[str, Any]:
        """Return where the hole lies: the move of the subject's mask, as shares of width and height.

        Raises
        ------
        ClipNotDegradable
            If the middle frame has no subject.
        """
        frame = planes_to_rgb(clip.read(clip.span.frame_count // 2, 1), clip.color)[0]
        salience = clip.models.get(parameters.model).mask(frame)
        mask = subject_mask(salience, parameters)
        if not mask.any():
            raise ClipNotDegradable("no subject stands out in the middle frame")
        # of equally good places, the nearest
        ranked = sorted(_MOVES, key=lambda move: (abs(move[0]) + abs(move[1]), move))
        best = min(ranked, key=lambda move: int(salience[_moved(mask, move)].sum(dtype=np.int64)))
        return {"move": list(best)}

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: InpaintingParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return planes ``(n, H·3/2, W)`` with a hole painted over; unchanged without a subject."""
        cv2.setNumThreads(1)
        network = clip.models.get(parameters.model)
        rgb = planes_to_rgb(frames, clip.color)
        masks = np.zeros(rgb.shape[:3], np.bool_)
        painted = rgb.copy()
        for index, frame in enumerate(rgb):
            subject = subject_mask(network.mask(frame), parameters)
            hole = _moved(subject, choice["move"]) & ~subject
            # if the subject fills the picture, too little space is left next to it
            if hole.mean() < max(parameters.least_share, subject.mean() / 2):
                continue
            masks[index] = hole
            painted[index] = paint_over(frame, hole, parameters)
        return merge_masked(frames, rgb_to_planes(painted, clip.color), masks)


def _moved(mask: Mask, move: Sequence[float]) -> Mask:
    """Return a mask moved by shares of its width and height, wrapping around at the edges."""
    height, width = mask.shape
    return np.roll(mask, (round(move[1] * height), round(move[0] * width)), axis=(0, 1))


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
    control=Control(
        operation=PatchInpainting(),
        takes=names_a_subject,
        needs="a thing (`subject`)",
        reason="as much is painted over, but where nothing stands out that a caption would name",
        copies=("model",),
        # the largest damage of 12 clips of an animated film was 10.4
        max_difference=11.0,
    ),
    caption_advice='Name the person, animal or thing that the clip shows: "A dog runs along the beach."',
)
