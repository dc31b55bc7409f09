"""The paper's operation for object integrity: detect with Grounding DINO, inpaint with Stable Diffusion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor
from typing import Any, ClassVar, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field, field_validator

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.frames import Planes
from storage_schemas.placement import Hardware
from tasks.aspects.base import (
    ClipContext,
    ClipNotDegradable,
    FindingOperation,
    FoundParameters,
    Scale,
    blending,
)
from tasks.llm.prompt_files import checked_template, filled, prompt_text
from tasks.media.planes import Mask, Rgb, merge_masked, planes_to_rgb, rgb_to_planes
from tasks.models.base import Box, Detector, Inpainter, Models
from tasks.models.residence import Batches

#: Words that two phrases may share without naming the same object.
_EMPTY = frozenset(
    "an the of in on at to by for from with and or near into onto over under his her its their our my your "
    "this that these those some any".split()
)
_IRREGULAR = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "people": "person",
    "mice": "mouse",
    "leaves": "leaf",
    "knives": "knife",
    "wolves": "wolf",
}


def content_words(text: str) -> frozenset[str]:
    """Return the content words of a phrase, in lower case, reduced to stems."""
    words = re.findall(r"[^\W_]+", text.casefold())
    # a single Latin letter is an article or the remainder of a contraction
    meant = (word for word in words if word not in _EMPTY and not re.fullmatch("[a-z]", word))
    return frozenset(map(_stem, meant))


def _stem(word: str) -> str:
    """Return the common stem of a noun's singular and plural: ``hors`` for horse and horses."""
    word = _IRREGULAR.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def share_a_word(one: str, other: str) -> bool:
    """Return whether two phrases have a content word in common.

    In scripts without spaces a "word" is a whole phrase, so one may contain the other.
    """
    return any(
        first == second or (not (first + second).isascii() and (first in second or second in first))
        for first in content_words(one)
        for second in content_words(other)
    )


def scene_without(analysis: CaptionAnalysis, thing: str) -> tuple[str, ...]:
    """Return the distinct phrases for background and scene that do not name the object.

    Other subjects are omitted, since the model would paint them into the gap.
    """
    once: dict[str, str] = {}
    for phrase in (*analysis.background, *analysis.scene):
        words = " ".join(phrase.split())
        if words and not share_a_word(words, thing):
            once.setdefault(words.casefold(), words)
    return tuple(once.values())


#: Left, top, right, bottom in pixels; right and bottom exclusive.
Corners = tuple[int, int, int, int]


def grown(box: Box, share: float, least: int, height: int, width: int) -> Corners | None:
    """Return a box grown on each side, in whole pixels, clipped to the picture.

    Parameters
    ----------
    box
        Box from the detector.
    share, least
        Growth of each side: this share of the box's width or height, but at least this many pixels.
    height, width
        Size of the picture.

    Returns
    -------
    tuple or None
        None if the box contains no pixel of the picture.
    """
    if min(box.right, width) <= max(box.left, 0) or min(box.bottom, height) <= max(box.top, 0):
        return None
    across = max(least, share * (box.right - box.left))
    down = max(least, share * (box.bottom - box.top))
    return (
        max(0, floor(box.left - across)),
        max(0, floor(box.top - down)),
        min(width, ceil(box.right + across)),
        min(height, ceil(box.bottom + down)),
    )


def boxes_mask(boxes: Iterable[Sequence[int]], height: int, width: int) -> Mask:
    """Return the pixels inside any of the boxes, ``(height, width)`` bool."""
    mask = np.zeros((height, width), np.bool_)
    for left, top, right, bottom in boxes:
        mask[top:bottom, left:right] = True
    return mask


def touches(box: Box, mask: Mask) -> bool:
    """Return whether a box overlaps a pixel of the mask, even partly."""
    rows = slice(max(0, floor(box.top)), max(0, ceil(box.bottom)))
    columns = slice(max(0, floor(box.left)), max(0, ceil(box.right)))
    return bool(mask[rows, columns].any())


T = TypeVar("T")

#: Frames read at once: 14 MB of RGB at 512×288.
_READ_FRAMES = 32
#: Current batch size of each loaded model, by the size requested in the recipe.
_sizes: WeakKeyDictionary[Any, dict[int, int]] = WeakKeyDictionary()


class ErasingParameters(FoundParameters):
    """Settings of detection and inpainting.

    Parameters
    ----------
    least_frames
        Minimum share of the clip's frames with a detection; 0 means one frame suffices, as in the paper.
    detector, inpainter
        Names of the models in the model folder.
    box_threshold, text_threshold
        Minimum score of a box, and of a word of the thing's name in it.
    detector_batch, batch
        Maximum frames per batch of the detector and the inpainting model. Batch sizes affect the last digit
        of pixels; if memory is short, smaller batches are used and recorded in the provenance.
    grow, grow_px
        Growth of a box on each side: a share of its width or height, but at least this many pixels.
    most_share
        Frames of which the boxes cover more are not changed.
    prompt, negative
        Prompt with ``{scene}`` for the caption's description of the place, and negative prompt with
        ``{object}``. ``@FILE`` in a recipe reads the text from a file.
    no_scene
        Replaces ``{scene}`` if the caption describes no place apart from the thing.
    steps, guidance
        Denoising steps, and weight of the prompt.
    dtype, compile
        Floating-point type of the inpainting model on a GPU (the published weights are ``float16``; on the
        CPU it is ``float32``), and whether torch compiles it.
    amount
        Weight of the inpainted picture against the original; 1 is the inpainted picture alone.
    least_gone
        Minimum share of frames in which the detector no longer finds the thing; 0 disables the check, as in
        the paper.
    """

    least_frames: float = Field(default=0, ge=0, le=1)
    detector: str = Field(default="grounding-dino-base", min_length=1)
    inpainter: str = Field(default="stable-diffusion-inpainting", min_length=1)
    box_threshold: float = Field(default=0.4, ge=0, le=1)
    text_threshold: float = Field(default=0.3, ge=0, le=1)
    detector_batch: int = Field(default=8, ge=1, le=_READ_FRAMES)
    grow: float = Field(default=0.05, ge=0, le=0.5)
    grow_px: int = Field(default=4, ge=0)
    most_share: float = Field(default=1.0, gt=0, le=1)
    prompt: str = prompt_text("operations/object_prompt")
    negative: str = prompt_text("operations/object_negative")
    no_scene: str = Field(default=prompt_text("operations/object_no_scene"), min_length=1)
    steps: int = Field(default=50, ge=1, le=1000)
    guidance: float = Field(default=7.5, ge=1, le=100)
    dtype: Literal["bfloat16", "float16", "float32"] = "float16"
    batch: int = Field(default=16, ge=1, le=_READ_FRAMES)
    compile: bool = False
    amount: float = Field(default=1.0, gt=0, le=1)
    least_gone: float = Field(default=0, ge=0, le=1)

    @field_validator("prompt")
    @classmethod
    def _prompt_has_scene(cls, value: str) -> str:
        return checked_template(value, needs=["scene"], may=["object"])

    @field_validator("negative")
    @classmethod
    def _negative_has_object(cls, value: str) -> str:
        return checked_template(value, needs=["object"], may=["scene"])


def things(analysis: CaptionAnalysis) -> tuple[str, ...]:
    """Return the distinct objects named in the caption, in order."""
    return tuple(dict.fromkeys(name for each in analysis.subject if (name := " ".join(each.split()))))


class GroundedInpainting(FindingOperation[ErasingParameters]):
    """Detects an object named in the caption in each frame and inpaints its boxes.

    Pixels outside the boxes stay bit-identical. The threshold of 0.01 steps requires hardly more than any
    change, since one frame per clip suffices in the paper: a twentieth of one frame in a hundred, changed by
    20 steps, gives this value (computed, not measured).
    """

    name = "grounding-dino-sd-inpainting"
    parameters_type = ErasingParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"amount": 0.35},
        "medium": {"amount": 0.65},
        "paper": {},
    }
    scale: ClassVar[Scale | None] = blending()
    hardware: ClassVar[Hardware] = "gpu"
    models: ClassVar[tuple[str, ...]] = ("grounding-dino-base", "stable-diffusion-inpainting")
    prompts: ClassVar[Mapping[str, str]] = {
        "prompt": "operations/object_prompt",
        "negative": "operations/object_negative",
        "no_scene": "operations/object_no_scene",
    }
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.01
    finds = "an object was found and painted over"

    def consumed_models(self, parameters: ErasingParameters, models: Models) -> dict[str, Any]:
        """Return the checksums of the detector and the inpainting model, by name."""
        from tasks.models.hub import consumed_model

        names = (parameters.detector, parameters.inpainter)
        return {key: model for name in names for key, model in consumed_model(models, name).items()}

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the objects to try and the phrases used in the prompts."""
        return {
            "subject": list(things(analysis)),
            "background": list(analysis.background),
            "scene": list(analysis.scene),
        }

    def choose(self, clip: ClipContext, parameters: ErasingParameters) -> dict[str, Any]:
        """Try the caption's objects in random order; take the first that is detected in enough frames.

        Returns
        -------
        dict
            `object`; `not_found`, the things tried before it; `prompt` and `negative`; `boxes`, for each
            frame of the clip a list of grown boxes ``[left, top, right, bottom]``.
        """
        names = things(clip.analysis)
        if not names:
            raise ClipNotDegradable("the caption names no thing")
        least = max(1.0, parameters.least_frames * clip.span.frame_count)
        not_found: list[str] = []
        for index in clip.rng("object").permutation(len(names)):
            name = names[int(index)]
            boxes = self._boxes(name, clip, parameters)
            if sum(map(bool, boxes)) < least:
                not_found.append(name)
                continue
            phrases = scene_without(clip.analysis, name)
            values = {"scene": ", ".join(phrases) or parameters.no_scene, "object": name}
            return {
                "object": name,
                "not_found": not_found,
                "prompt": filled(parameters.prompt, **values),
                "negative": filled(parameters.negative, **values),
                "boxes": [[list(box) for box in each] for each in boxes],
            }
        shown = ", ".join(repr(name[:40]) for name in names[:3]) + (", …" if len(names) > 3 else "")
        raise ClipNotDegradable(f"the detector finds nothing of the caption in enough frames ({shown})")

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: ErasingParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return planes ``(n, H·3/2, W)`` without the thing; frames without a detection are unchanged.

        Afterwards the detector checks the result: `gone` is 1 for a frame without detections that touch a
        box, else 0; `found_again_score` is the highest score of such detections.
        """
        indices = [index for index in range(len(frames)) if choice["boxes"][first + index]]
        if not indices:
            return frames.copy()
        rgb = planes_to_rgb(frames[indices], clip.color)
        masks = np.stack([boxes_mask(choice["boxes"][first + index], *rgb.shape[1:3]) for index in indices])
        seeds = [clip.frame_seed("inpainting", first + index) for index in indices]
        painted = self._paint(rgb, masks, seeds, clip, parameters, choice).astype(np.int32)
        share = round(parameters.amount * 256)
        mixed = ((painted * share + rgb.astype(np.int32) * (256 - share) + 128) >> 8).astype(np.uint8)
        after = frames.copy()
        after[indices] = merge_masked(frames[indices], rgb_to_planes(mixed, clip.color), masks)
        seen = self._find(planes_to_rgb(after[indices], clip.color), choice["object"], clip, parameters)
        for boxes, mask in zip(seen, masks, strict=True):
            scores = [box.score for box in boxes if touches(box, mask)]
            clip.log.measure("gone", not scores)
            clip.log.measure("found_again_score", max(scores, default=0.0))
        return after

    def settle(
        self, changed: int, frames: int, parameters: ErasingParameters, clip: ClipContext
    ) -> dict[str, Any]:
        """Return the number of changed frames and the share of them in which the thing is gone.

        Raises
        ------
        ClipNotDegradable
            If too few frames changed, or the thing is gone in less than `least_gone` of them.
        """
        settled = super().settle(changed, frames, parameters, clip)
        looked = clip.log.measured.get("gone", [])
        gone = sum(looked) / max(1, len(looked))
        if gone < parameters.least_gone:
            raise ClipNotDegradable(
                f"the detector still finds the thing in {len(looked) - sum(looked):g} of {len(looked)} frames"
            )
        return {**settled, "gone": round(gone, 4)}

    def _boxes(self, name: str, clip: ClipContext, parameters: ErasingParameters) -> list[list[Corners]]:
        """Return the grown boxes of a thing in each frame; none if they cover too much of the frame."""
        boxes: list[list[Corners]] = []
        count = clip.span.frame_count
        for index in range(0, count, _READ_FRAMES):
            rgb = planes_to_rgb(clip.read(index, min(_READ_FRAMES, count - index)), clip.color)
            height, width = rgb.shape[1:3]
            for detections in self._find(rgb, name, clip, parameters):
                larger = (
                    grown(box, parameters.grow, parameters.grow_px, height, width) for box in detections
                )
                corners = sorted({box for box in larger if box})
                covered = boxes_mask(corners, height, width).mean()
                boxes.append(corners if covered <= parameters.most_share else [])
        return boxes

    def _find(
        self, rgb: Rgb, name: str, clip: ClipContext, parameters: ErasingParameters
    ) -> Sequence[list[Box]]:
        # do not hold a model between calls, so that each can be evicted for the other
        detector: Detector = clip.models.get(parameters.detector)
        thresholds = (parameters.box_threshold, parameters.text_threshold)
        return _in_batches(
            "detector",
            detector,
            clip,
            parameters.detector_batch,
            len(rgb),
            lambda batch: detector.find(rgb[batch], name, *thresholds),
        )

    def _paint(
        self,
        rgb: Rgb,
        masks: Mask,
        seeds: Sequence[int],
        clip: ClipContext,
        parameters: ErasingParameters,
        choice: Mapping[str, Any],
    ) -> Rgb:
        inpainter: Inpainter = clip.models.get(
            parameters.inpainter, dtype=parameters.dtype, compile=parameters.compile
        )
        prompts = (choice["prompt"], choice["negative"])
        read = [inpainter.read(text) for text in prompts]
        if read != [*prompts]:
            clip.log.ran(prompts_read=read)
        painted = _in_batches(
            "inpainter",
            inpainter,
            clip,
            parameters.batch,
            len(rgb),
            lambda batch: list(
                inpainter.inpaint(
                    rgb[batch], masks[batch], *prompts, seeds[batch], parameters.steps, parameters.guidance
                )
            ),
        )
        return np.stack(painted)


def _in_batches(
    role: str, model: Any, clip: ClipContext, requested: int, count: int, work: Callable[[slice], Sequence[T]]
) -> list[T]:
    """Process `count` frames in batches that fit in memory, and record the batch size and device."""
    sizes = _sizes.setdefault(model, {})
    batches = Batches(requested, owner=model)
    batches.size = sizes.get(requested, requested)
    done = batches.run(count, work)
    sizes[requested] = batches.size
    earlier = clip.log.facts.get(role, {}).get("batch_sizes", [])
    facts = {name: getattr(model, name) for name in ("device", "dtype") if hasattr(model, name)}
    clip.log.ran(**{role: {**facts, "batch_sizes": sorted({*earlier, *batches.sizes_ran}, reverse=True)}})
    return done
