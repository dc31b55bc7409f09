"""The paper's operation for color: Qwen-Image-Edit-2509 changes a thing's colour in every frame.

Also the draw of thing and colour from a caption, and measures of unintended changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, field_validator

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.extras import lazy_package
from storage_schemas.frames import Planes
from storage_schemas.placement import Hardware
from tasks.aspects.base import (
    ClipContext,
    ClipNotDegradable,
    Parameters,
    PixelOperation,
    Scale,
    blending,
)
from tasks.llm.prompt_files import checked_template, filled, prompt_text
from tasks.media.color_names import field_colours, named_colours, rgb_to_lab
from tasks.media.planes import Rgb
from tasks.models.base import ImageEditor, Models
from tasks.models.residence import Batches

cv2 = lazy_package("cv2")

#: Minimum CIE Lab distance (CIE76) for a pixel's colour to count as changed. 2.3 is just noticeable; the
#: closest palette colours (black, gray and white) are about 40 apart, and this is half of that.
NOTABLE = 20.0


class EditMeasures(NamedTuple):
    """Measures of an edit of one picture.

    Attributes
    ----------
    changed_share
        Share of the pixels whose colour moved by `NOTABLE` or more in Lab.
    rest_shift
        Mean absolute difference of all other pixels, in 8-bit steps of RGB; 0 if there are none.
    edges_kept
        Correlation of the luma edge strengths, −1 to 1: near 1 if every outline keeps its place. 1 if neither
        picture has edges, 0 if only one has.
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
    """Return the luma gradient magnitude, ``(H, W)``."""
    luma = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float64)
    edges: NDArray[np.float64] = np.hypot(
        cv2.Sobel(luma, cv2.CV_64F, 1, 0), cv2.Sobel(luma, cv2.CV_64F, 0, 1)
    )
    return edges


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return Pearson's r of two arrays; 1 if both are flat, 0 if one is."""
    one, other = one - one.mean(), other - other.mean()
    sizes = float(np.linalg.norm(one)), float(np.linalg.norm(other))
    if min(sizes) < 1e-6:
        return 1.0 if max(sizes) < 1e-6 else 0.0
    return float(np.vdot(one, other)) / (sizes[0] * sizes[1])


#: The colours to draw from (SLVMEval, appendix E.2).
PaletteColour = Literal[
    "black", "white", "red", "green", "yellow", "blue", "brown", "purple", "pink", "orange", "gray"
]


def _another_is_left(value: tuple[PaletteColour, ...]) -> tuple[PaletteColour, ...]:
    if len(set(value)) < 2 or len(set(value)) < len(value):
        raise ValueError("give two or more colours, each once")
    return value


#: Colours from which the new one is drawn: two or more, so that one remains besides the original.
Palette = Annotated[tuple[PaletteColour, ...], AfterValidator(_another_is_left)]
#: All of them.
PALETTE: Palette = get_args(PaletteColour)


def colour_choices(analysis: CaptionAnalysis) -> list[tuple[str, str]]:
    """Return (colour, thing) for each thing to which the caption assigns exactly one palette colour."""
    by_thing: dict[str, set[str]] = defaultdict(set)
    for entry in analysis.color:
        # colour words in the thing's name count too: a "white" "red-roofed house" has two colours
        by_thing[entry.object] |= field_colours(entry.color) | named_colours(entry.object)
    return [(next(iter(colours)), thing) for thing, colours in by_thing.items() if len(colours) == 1]


def coloured_things(analysis: CaptionAnalysis) -> list[tuple[str, str]]:
    """Return (colour, thing) for each thing to which the caption gives a colour, whatever it is called."""
    named = ((entry.color, entry.object) for entry in analysis.color if entry.color and entry.object)
    return list(dict.fromkeys(named))


def drawn_colour(clip: ClipContext, things: Sequence[tuple[str, str]], palette: Palette) -> dict[str, str]:
    """Draw a thing of the clip's caption and its new colour.

    Parameters
    ----------
    things
        (colour, thing), as the caption calls them or with a colour of the palette.
    palette
        Colours from which the new one is drawn.

    Returns
    -------
    dict
        `object` and `color`, the thing and its colour as given; `new_color`, any colour of `palette` that
        the thing does not have.

    Raises
    ------
    ClipNotDegradable
        If there is no such thing, or no colour is left.
    """
    if not things:
        raise ClipNotDegradable("the caption gives no object a colour that this operation can change")
    colour, thing = things[int(clip.rng("object").integers(len(things)))]
    own = {name for other, same in things if same == thing for name in field_colours(other)}
    others = [name for name in palette if name not in own]
    if not others:
        raise ClipNotDegradable(f"{thing} has every colour of the palette")
    return {
        "object": thing,
        "color": colour,
        "new_color": others[int(clip.rng("new color").integers(len(others)))],
    }


#: Maximum characters of a thing's name in the instruction; captions are untrusted.
_MAX_NAME_LENGTH = 200


class ColourEditParameters(Parameters):
    """Settings of the editor and requirements on its result.

    Parameters
    ----------
    editor
        Name of the model in the model folder.
    palette
        Two or more colours from which the new one is drawn; the original is never drawn.
    instruction, negative
        The instruction, with ``{object}`` and ``{color}``, and the negative prompt (empty: a blank).
        ``@FILE`` in a recipe reads the text from a file.
    steps, guidance
        Denoising steps, and weight of the instruction (``true_cfg_scale``); 1 is none.
    dtype
        Floating-point type of the editor on a GPU; on the CPU it is ``float32``.
    step_cache
        Threshold of the editor's step cache; 0 computes every step in full.
    amount
        Weight of the edit against the original; 1 is the edit alone.
    least_share
        A frame counts as changed if at least this share of its pixels has another colour.
    least_changed
        Minimum share of changed frames in a clip; 0 disables the check, as in the paper.
    most_changed_share
        Maximum share of a frame that may change, averaged over the frames; 1 disables the check.
    most_rest_shift
        Maximum shift of the other pixels in 8-bit steps, averaged over the frames; 255 disables the check.
    least_edges_kept
        Minimum correlation of the outlines, averaged over the frames; −1 disables the check.
    """

    editor: str = Field(default="qwen-image-edit-2509", min_length=1)
    palette: Palette = PALETTE
    instruction: str = prompt_text("operations/color_instruction")
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
        return checked_template(value, needs=["object", "color"])


class QwenImageEdit(PixelOperation[ColourEditParameters]):
    """Edits each frame with an instruction to change the colour of a thing.

    The editor generates the whole frame, so everything changes slightly. `changed_share`, `rest_shift` and
    `edges_kept` (see :class:`EditMeasures`) are recorded for each frame; in `paper` they decide nothing. The
    threshold of 0.5 steps corresponds to one hundredth of the picture turning from dark to light, as for the
    other operation of this aspect.

    `lightning` is the same edit with diffusers' first block cache: faster, but with pixels that differ from
    the paper's. At its threshold of 0.1 the cache's authors measured speed-ups of 1.8 to 2.9 on other
    models, with artefacts above 0.2 (huggingface/diffusers, pull request 11180). Neither was measured on
    this model. It is not a few-step adapter.
    """

    name = "qwen-image-edit"
    parameters_type = ColourEditParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"amount": 0.35},
        "medium": {"amount": 0.65},
        "lightning": {"step_cache": 0.1},
        "paper": {},
    }
    scale: ClassVar[Scale | None] = blending()
    hardware: ClassVar[Hardware] = "gpu"
    models: ClassVar[tuple[str, ...]] = ("qwen-image-edit-2509",)
    prompts: ClassVar[Mapping[str, str]] = {"instruction": "operations/color_instruction"}
    works_on: ClassVar[Literal["planes", "rgb"]] = "rgb"
    threshold = 0.5
    # an edit takes tens of seconds
    frames_at_once: ClassVar[int] = 1

    def consumed_models(self, parameters: ColourEditParameters, models: Models) -> dict[str, Any]:
        """Return the checksum of the editor by name."""
        from tasks.models.hub import consumed_model

        return consumed_model(models, parameters.editor)

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the colours and things to draw from."""
        return coloured_things(analysis)

    def choose(self, clip: ClipContext, parameters: ColourEditParameters) -> dict[str, Any]:
        """Draw the thing and its new colour; `instruction` is the text given to the editor."""
        drawn = drawn_colour(clip, coloured_things(clip.analysis), parameters.palette)
        thing = " ".join(drawn["object"].split())[:_MAX_NAME_LENGTH]
        instruction = filled(parameters.instruction, object=thing, color=drawn["new_color"])
        return {**drawn, "instruction": instruction}

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: ColourEditParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return RGB ``(n, H, W, 3)``, edited one by one; the noise of a frame depends only on its place."""
        cv2.setNumThreads(1)
        after = np.empty_like(frames)
        for index, frame in enumerate(frames):
            edited = self._edit(frame, first + index, clip, parameters, choice["instruction"])
            after[index] = mixed(frame, edited, parameters.amount)
            for name, value in measure_edit(frame, after[index])._asdict().items():
                clip.log.measure(name, value)
        return after

    def settle(
        self, changed: int, frames: int, parameters: ColourEditParameters, clip: ClipContext
    ) -> dict[str, Any]:
        """Return the number of frames in which a colour changed.

        Raises
        ------
        ClipNotDegradable
            If a measurement is outside the bounds set in `parameters`.
        """
        measured = clip.log.measured
        seen = sum(share >= parameters.least_share for share in measured["changed_share"])
        refused = _out_of_bounds(measured, seen, parameters)
        if refused:
            raise ClipNotDegradable(refused)
        return {"changed_frames": seen, "frames": frames}

    def _edit(
        self, frame: Rgb, index: int, clip: ClipContext, parameters: ColourEditParameters, instruction: str
    ) -> Rgb:
        # do not hold the editor between frames, so that it can be evicted for another model
        editor: ImageEditor = clip.models.get(
            parameters.editor, dtype=parameters.dtype, step_cache=parameters.step_cache
        )
        arguments = (instruction, parameters.negative, clip.frame_seed("edit", index))
        edit = Batches(1, owner=editor).run(
            1, lambda _: [editor.edit(frame, *arguments, parameters.steps, parameters.guidance)]
        )
        ran = {name: getattr(editor, name) for name in ("device", "dtype") if hasattr(editor, name)}
        clip.log.ran(image_editor={**ran, "step_cache": parameters.step_cache})
        return edit[0]


def mixed(before: Rgb, after: Rgb, amount: float) -> Rgb:
    """Blend two pictures with weight `amount` of the second, rounded."""
    share = round(amount * 256)
    weighed = before.astype(np.int32) * (256 - share) + after.astype(np.int32) * share
    return ((weighed + 128) >> 8).astype(np.uint8)


def _out_of_bounds(
    measured: Mapping[str, Sequence[float]], changed: int, parameters: ColourEditParameters
) -> str | None:
    """Return which bound an edited clip violates, or None."""
    frames = len(measured["changed_share"])
    share, shift, edges = (fmean(measured[name]) for name in ("changed_share", "rest_shift", "edges_kept"))
    if changed < parameters.least_changed * frames:
        return f"the editor changed a colour in {changed} of {frames} frames only"
    if share > parameters.most_changed_share:
        return (
            f"the editor changed {share:.0%} of a frame; the maximum is {parameters.most_changed_share:.0%}"
        )
    if shift > parameters.most_rest_shift:
        return (
            f"the rest of a frame moved by {shift:.2f} steps; the maximum is {parameters.most_rest_shift:g}"
        )
    if edges < parameters.least_edges_kept:
        return f"the outlines correlate by {edges:.2f} only; the minimum is {parameters.least_edges_kept:g}"
    return None
