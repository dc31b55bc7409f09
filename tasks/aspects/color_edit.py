"""The paper's operation for color: Qwen-Image-Edit-2509 gives a thing another colour in every frame.

Also which thing of a caption gets which colour, and how far an edit changed the rest of a picture.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, field_validator

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.frames import Planes
from tasks.aspects.base import ClipContext, ClipNotDegradable, Parameters, PixelOperation, Pool
from tasks.llm.prompt_files import checked_template, prompt_text
from tasks.media.color_names import named_colours, rgb_to_lab, said_colours
from tasks.media.planes import Rgb
from tasks.models.base import ImageEditor, Models
from tasks.models.residence import Batches

#: Distance in CIE Lab (CIE76) from which a pixel's colour counts as another one. 2.3 is just noticeable; the
#: nearest two colours of the palette (black, gray and white) lie about 40 apart, and this is half of that.
NOTABLE = 20.0


class EditMeasures(NamedTuple):
    """What an edit did to one picture.

    Attributes
    ----------
    changed_share
        Share of the pixels whose colour moved by `NOTABLE` or more in Lab.
    rest_shift
        Mean absolute difference of all other pixels, in 8-bit steps of RGB; 0 where there are none.
    edges_kept
        Correlation of the strength of the edges in the luma of both, −1 to 1: near 1 where every outline
        stands where it stood. 1 if neither has edges, 0 if only one has.
    """

    changed_share: float
    rest_shift: float
    edges_kept: float


def measure_edit(before: Planes, after: Planes) -> EditMeasures:
    """Compare a picture ``(H, W, 3)`` uint8 (sRGB) with its edited form of the same size."""
    distance = np.linalg.norm(rgb_to_lab(after) - rgb_to_lab(before), axis=-1)
    changed = distance >= NOTABLE
    shift = np.abs(after.astype(np.int16) - before)[~changed]
    return EditMeasures(
        changed_share=float(changed.mean()),
        rest_shift=float(shift.mean()) if shift.size else 0.0,
        edges_kept=_correlation(_edges(before), _edges(after)),
    )


def _edges(rgb: Planes) -> NDArray[np.float64]:
    """Return how steep the luma is at each pixel, ``(H, W)``."""
    luma = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float64)
    return np.hypot(cv2.Sobel(luma, cv2.CV_64F, 1, 0), cv2.Sobel(luma, cv2.CV_64F, 0, 1))


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return Pearson's r of two arrays; 1 if both are flat, 0 if one is."""
    one, other = one - one.mean(), other - other.mean()
    sizes = float(np.linalg.norm(one)), float(np.linalg.norm(other))
    if min(sizes) < 1e-6:
        return 1.0 if max(sizes) < 1e-6 else 0.0
    return float(np.vdot(one, other)) / (sizes[0] * sizes[1])


#: A colour that can be drawn (SLVMEval, appendix F.6).
PaletteColour = Literal[
    "black", "white", "red", "green", "yellow", "blue", "brown", "purple", "pink", "orange", "gray"
]


def _another_is_left(value: tuple[PaletteColour, ...]) -> tuple[PaletteColour, ...]:
    if len(set(value)) < 2 or len(set(value)) < len(value):
        raise ValueError("give two or more colours, each once")
    return value


#: The colours to draw the new one from: two or more, so that one is left beside the original.
Palette = Annotated[tuple[PaletteColour, ...], AfterValidator(_another_is_left)]
#: All of them.
PALETTE: Palette = get_args(PaletteColour)


def colour_choices(analysis: CaptionAnalysis) -> list[tuple[str, str]]:
    """Return (colour, thing) for each thing that the caption gives exactly one colour of the palette."""
    by_thing: dict[str, set[str]] = defaultdict(set)
    for entry in analysis.color:
        # the words of the thing count too: a "white" "red-roofed house" has two colours
        by_thing[entry.object] |= said_colours(entry.color) | named_colours(entry.object)
    return [(next(iter(colours)), thing) for thing, colours in by_thing.items() if len(colours) == 1]


def drawn_colour(clip: ClipContext, palette: Palette) -> dict[str, str]:
    """Draw a thing of the clip's caption, and the colour that it gets.

    Returns
    -------
    dict
        `object`, the thing as the caption has it; `color`, which of the palette's colours it has there;
        `new_color`, any other of `palette`.

    Raises
    ------
    ClipNotDegradable
        If the caption gives no thing exactly one colour.
    """
    choices = colour_choices(clip.analysis)
    if not choices:
        raise ClipNotDegradable("the caption gives no thing exactly one colour of the palette")
    colour, thing = choices[int(clip.rng("object").integers(len(choices)))]
    others = [name for name in palette if name != colour]
    return {
        "object": thing,
        "color": colour,
        "new_color": others[int(clip.rng("new color").integers(len(others)))],
    }


#: Longest name of a thing that goes into the instruction, in characters; captions come from anywhere.
_LONGEST_NAME = 200


class ColourEditParameters(Parameters):
    """What is asked of the editor, and what must come of it.

    Parameters
    ----------
    editor
        The model, by the name that it has in the model folder.
    palette
        The colours to draw the new one from, two or more; the original is never drawn.
    instruction, negative
        What to do, with ``{object}`` and ``{color}``, and what should not be seen (empty: a blank). ``@FILE``
        in a recipe takes the text from a file.
    steps, guidance
        Denoising steps, and weight of the instruction (``true_cfg_scale``); 1 is none.
    dtype
        In which numbers the editor computes.
    step_cache
        Threshold of the editor's step cache; 0 computes every step in full.
    amount
        How much of the edit is seen; 1 is all of it.
    least_share
        A frame counts as changed where at least this share of its pixels has another colour.
    least_changed
        Share of the clip's frames that must be changed; 0 asks for nothing, as the paper.
    most_changed_share
        Greatest share of a frame that may change, on the mean of the frames; 1 allows all.
    most_rest_shift
        How far the other pixels may move, on the mean of the frames, in 8-bit steps; 255 allows all.
    least_edges_kept
        How well the outlines must stay, on the mean of the frames; −1 asks for nothing.
    """

    editor: str = Field(default="qwen-image-edit-2509", min_length=1)
    palette: Palette = PALETTE
    instruction: str = prompt_text("tasks.aspects", "color_instruction")
    negative: str = ""
    # the editor's schedule divides by zero at one step
    steps: int = Field(default=40, ge=2, le=1000)
    guidance: float = Field(default=4.0, ge=1, le=100)
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    step_cache: float = Field(default=0.0, ge=0, lt=1)
    amount: float = Field(default=1.0, gt=0, le=1)
    least_share: float = Field(default=0.005, gt=0, le=1)
    least_changed: float = Field(default=0.0, ge=0, le=1)
    most_changed_share: float = Field(default=1.0, ge=0, le=1)
    most_rest_shift: float = Field(default=255.0, ge=0, le=255)
    least_edges_kept: float = Field(default=-1.0, ge=-1, le=1)

    @field_validator("instruction")
    @classmethod
    def _names_thing_and_colour(cls, value: str) -> str:
        return checked_template(value, required=["object", "color"])


class QwenImageEdit(PixelOperation[ColourEditParameters]):
    """Each frame is what the editor makes of it when it is told to give the thing another colour.

    The whole frame comes from the editor, so all of it changes a little. Of each frame is recorded
    `changed_share`, `rest_shift` and `edges_kept`; see :mod:`tasks.aspects.color_edit`. In `paper` they
    decide nothing. The threshold of 0.5 steps is what one hundredth of the picture makes when it turns from
    dark to light, as for the other operation of this aspect.

    `lightning` is the same edit with diffusers' first block cache: faster, other pixels, not the paper's. At
    its threshold of 0.1 the authors of that cache found other models 1.8 to 2.9 times as fast; artefacts came
    above 0.2 (huggingface/diffusers, pull request 11180). Neither is measured on this model. It is no adapter
    for few steps.
    """

    name = "qwen-image-edit"
    parameters_type = ColourEditParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"amount": 0.35},
        "medium": {"amount": 0.65},
        "lightning": {"step_cache": 0.1},
        "paper": {},
    }
    pool: ClassVar[Pool] = "h100"
    models: ClassVar[tuple[str, ...]] = ("qwen-image-edit-2509",)
    works_on: ClassVar[Literal["planes", "rgb"]] = "rgb"
    threshold = 0.5
    # an edit takes tens of seconds
    frames_at_once: ClassVar[int] = 1

    def consumed_models(self, parameters: ColourEditParameters, models: Models) -> dict[str, Any]:
        """Return what is known of the editor, by its name."""
        from tasks.models.hub import consumed_model

        return consumed_model(models, parameters.editor)

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the colours and things to draw from."""
        return colour_choices(analysis)

    def choose(self, clip: ClipContext, parameters: ColourEditParameters) -> dict[str, Any]:
        """Draw the thing, and the colour that it gets; `instruction` is what the editor is told."""
        drawn = drawn_colour(clip, parameters.palette)
        thing = " ".join(drawn["object"].split())[:_LONGEST_NAME]
        told = parameters.instruction.format(object=thing, color=drawn["new_color"])
        return {**drawn, "instruction": told}

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: ColourEditParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return RGB ``(n, H, W, 3)``, edited one by one; the noise of a frame depends on its place alone."""
        cv2.setNumThreads(1)
        after = np.empty_like(frames)
        for place, frame in enumerate(frames):
            edited = self._edit(frame, first + place, clip, parameters, choice["instruction"])
            after[place] = mixed(frame, edited, parameters.amount)
            for name, value in measure_edit(frame, after[place])._asdict().items():
                clip.log.measure(name, value)
        return after

    def settle(
        self, changed: int, frames: int, parameters: ColourEditParameters, clip: ClipContext
    ) -> dict[str, Any]:
        """Return in how many frames the colour of something changed.

        Raises
        ------
        ClipNotDegradable
            If what was measured is out of the bounds that `parameters` set.
        """
        measured = clip.log.measured
        seen = sum(share >= parameters.least_share for share in measured["changed_share"])
        refused = _out_of_bounds(measured, seen, parameters)
        if refused:
            raise ClipNotDegradable(refused)
        return {"changed_frames": seen, "frames": frames}

    def _edit(
        self, frame: Rgb, place: int, clip: ClipContext, parameters: ColourEditParameters, instruction: str
    ) -> Rgb:
        # the editor is not kept beyond a frame, so that it can be freed for another model
        editor: ImageEditor = clip.models.get(
            parameters.editor, dtype=parameters.dtype, step_cache=parameters.step_cache
        )
        asked = (instruction, parameters.negative, clip.frame_seed("edit", place))
        edit = Batches(1, owner=editor).run(
            1, lambda _: [editor.edit(frame, *asked, parameters.steps, parameters.guidance)]
        )
        ran = {name: getattr(editor, name) for name in ("device", "dtype") if hasattr(editor, name)}
        clip.log.ran(image_editor={**ran, "step_cache": parameters.step_cache})
        return edit[0]


def mixed(before: Rgb, after: Rgb, amount: float) -> Rgb:
    """Return the picture moved towards another by a share `amount`, rounded; all of it at 1."""
    share = round(amount * 256)
    weighed = before.astype(np.int32) * (256 - share) + after.astype(np.int32) * share
    return ((weighed + 128) >> 8).astype(np.uint8)


def _out_of_bounds(
    measured: Mapping[str, Sequence[float]], changed: int, parameters: ColourEditParameters
) -> str | None:
    """Return what is wrong with an edited clip, or None."""
    frames = len(measured["changed_share"])
    share, shift, edges = (fmean(measured[name]) for name in ("changed_share", "rest_shift", "edges_kept"))
    if changed < parameters.least_changed * frames:
        return f"the editor changed a colour in {changed} of {frames} frames only"
    if share > parameters.most_changed_share:
        return (
            f"the editor changed {share:.0%} of a frame, at most {parameters.most_changed_share:.0%} may be"
        )
    if shift > parameters.most_rest_shift:
        return (
            f"the rest of a frame moved by {shift:.2f} steps, at most {parameters.most_rest_shift:g} may be"
        )
    if edges < parameters.least_edges_kept:
        return f"the outlines stayed by {edges:.2f} only, {parameters.least_edges_kept:g} is asked for"
    return None
