"""Base classes of aspects and operations: names, eligibility of clips, and degradations."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from pydantic import Field, ValidationError

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import SlvmevalError, UserInputError
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.model import Frozen
from storage_schemas.placement import Hardware
from storage_schemas.rng import derived_seed, keyed_rng
from storage_schemas.value_problems import value_problem
from tasks.models.base import Models

Category = Literal["quality", "consistency"]

#: Strength of parameters that match no preset; no preset's name starts with it.
CUSTOM = "custom"
#: Strength of a control.
CONTROL = "control"


class Parameters(Frozen):
    """Base class for operation parameters: frozen, strict, JSON-serialisable."""


P = TypeVar("P", bound=Parameters)


class ClipNotDegradable(SlvmevalError):
    """This operation cannot degrade this clip; another eligible clip replaces it."""


@dataclass(frozen=True, slots=True)
class ClipSpan:
    """Index of a clip and the source frames it owns."""

    index: int
    first_frame: int
    frame_count: int


class ClipLog:
    """Measurements and facts that an operation records for a clip.

    Attributes
    ----------
    measured
        Values by name, one per frame in frame order; available to `settle`.
    facts
        Execution details (batch sizes, device), for the provenance only.
    """

    def __init__(self) -> None:
        self.measured: dict[str, list[float]] = {}
        self.facts: dict[str, Any] = {}

    def measure(self, name: str, value: float) -> None:
        """Record a value of the next frame."""
        self.measured.setdefault(name, []).append(float(value))

    def ran(self, **facts: Any) -> None:
        """Record execution details, JSON-serialisable; later values replace earlier ones."""
        self.facts |= facts


@dataclass(frozen=True)
class ClipContext:
    """Everything an operation may use from the clip it degrades; all of it is part of an id.

    Parameters
    ----------
    span
        The clip's frames.
    color
        Colour matrix and range of the planes.
    analysis
        Analysis of the clip's caption.
    seed
        Key of all random draws of this operation on this source: (release seed, source id, aspect).
    models
        The model store's lookup: name → loaded model; see ``tasks/models``.
    read
        Returns the clip's frames ``first … first + count`` as planes ``(count, H·3/2, W)`` uint8, so that
        :meth:`PixelOperation.choose` can look at them.
    log
        Record of measurements and execution details.
    """

    span: ClipSpan
    color: ColorSpec
    analysis: CaptionAnalysis
    seed: tuple[str | int, ...]
    models: Models
    read: Callable[[int, int], Planes]
    log: ClipLog = field(default_factory=ClipLog)

    def rng(self, purpose: str, frame: int | None = None) -> np.random.Generator:
        """Return the generator for a purpose in this clip, or in one frame of it."""
        extra = () if frame is None else (frame,)
        return keyed_rng(*self.seed, purpose, self.span.index, *extra)

    def frame_seed(self, purpose: str, frame: int) -> int:
        """Return the 63-bit seed for a purpose in one frame, for generators that are not NumPy's."""
        return derived_seed(*self.seed, purpose, self.span.index, frame) >> 65

    def video_rng(self, purpose: str) -> np.random.Generator:
        """Return the generator for a purpose, shared by all clips of the source."""
        return keyed_rng(*self.seed, purpose)


@dataclass(frozen=True)
class Scale:
    """Strengths of an operation as numbers: 0 changes nothing, 1 is the full strength, such as the paper's.

    Presets are points on this scale: each has the number of its parameters. All draws are the same at every
    strength.

    Parameters
    ----------
    field
        The parameter that depends on the strength.
    value, number
        The parameter's value at a strength, and the strength of a value.
    most
        The highest strength.
    """

    field: str
    value: Callable[[float], Any]
    number: Callable[[Any], float]
    most: float = 1.0


def blending(field_name: str = "amount") -> Scale:
    """Return the scale of an operation whose parameter is the weight of the degraded picture."""
    return Scale(field_name, float, float)


def strength_text(number: float) -> str:
    """Return the name of a strength that is given as a number."""
    return f"{number:g}"


def strength_number(name: str) -> float | None:
    """Return the number that a strength's name stands for; None for a preset's name."""
    try:
        return float(name)
    except ValueError:
        return None


class Operation(ABC, Generic[P]):
    """One exactly defined degradation.

    Class attributes
    ----------------
    name, version
        Part of the artifact's id; increase the version when pixels change.
    parameters_type
        The frozen parameter model; its defaults are the preset named by `default_strength`.
    strengths
        Presets by name, from weak to strong; each holds the fields that differ from the defaults.
    scale
        Strengths as numbers; None for an operation without any.
    hardware
        Hardware that its workers must have; the profile says where that is.
    models
        Names of the models it may load.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    parameters_type: ClassVar[type[Parameters]]
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}}
    default_strength: ClassVar[str] = "paper"
    scale: ClassVar[Scale | None] = None
    hardware: ClassVar[Hardware] = "cpu"
    models: ClassVar[tuple[str, ...]] = ()
    prompts: ClassVar[Mapping[str, str]] = {}

    def parameters(self, strength: str | None = None, overrides: Mapping[str, Any] | None = None) -> P:
        """Return the parameters of a strength, with individual values replaced.

        Parameters
        ----------
        strength
            A preset's name, or a number of the scale as text.

        Raises
        ------
        UserInputError
            For an unknown preset or field, or a number outside the scale.
        """
        preset = strength or self.default_strength
        values = {**self._values(preset), **(overrides or {})}
        try:
            return self.parameters_type(**values)  # type: ignore[return-value]
        except ValidationError as problem:
            first = problem.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "together"
            names = ", ".join(self.parameters_type.model_fields)
            raise UserInputError(
                f"parameters of operation {self.name}: {where}: {value_problem(first)} (it takes: {names})"
            ) from problem

    def _values(self, strength: str) -> dict[str, Any]:
        """Return the fields of a strength that differ from the defaults."""
        if strength in self.strengths:
            return dict(self.strengths[strength])
        number = strength_number(strength)
        if number is None or self.scale is None:
            scale = "" if self.scale is None else f", or a number up to {self.scale.most:g}"
            raise UserInputError(
                f"operation {self.name} has no strength {strength!r}: choose one of "
                f"{', '.join(self.strengths)}{scale}"
            )
        if not self.has_strength(strength):
            raise UserInputError(
                f"operation {self.name}: strength {strength} is not above 0 and at most {self.scale.most:g}"
            )
        return {self.scale.field: self.scale.value(number)}

    def has_strength(self, name: str) -> bool:
        """Return whether a name is a preset or a number on the scale."""
        number = strength_number(name)
        on_scale = self.scale is not None and number is not None and 0 < number <= self.scale.most
        return name in self.strengths or on_scale

    def strength_of(self, parameters: P) -> float | None:
        """Return the strength of these parameters as a number; None without a scale."""
        if self.scale is None:
            return None
        return self.scale.number(getattr(parameters, self.scale.field))

    def takes(self, analysis: CaptionAnalysis, clip: ClipSpan, parameters: P) -> bool:
        """Return whether this operation, with these parameters, accepts a clip eligible for the aspect."""
        return True

    def consumed_models(self, parameters: P, models: Models) -> dict[str, Any]:
        """Return name and checksum of each model used with these parameters, for the artifact's id.

        By default, these are all models in `models`.

        Raises
        ------
        PrerequisiteError
            If a model is missing; the message has the command that downloads it.
        """
        from tasks.models.hub import consumed_model  # that module imports `Models` from here

        return {name: sum_ for model in self.models for name, sum_ in consumed_model(models, model).items()}

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the part of a clip's analysis that affects the pixels, JSON-serialisable."""
        return None


class PixelOperation(Operation[P]):
    """An operation that makes new frames for a clip.

    `threshold` is the minimum mean absolute difference (in 8-bit steps, over all planes, after rounding to
    4:2:0) between a clip and its degraded form; below it the clip does not count as degraded.
    `frames_at_once` is the number of frames per call of :meth:`apply`; progress is reported after each call.
    """

    works_on: ClassVar[Literal["planes", "rgb"]]
    threshold: ClassVar[float]
    frames_at_once: ClassVar[int] = 32

    def choose(self, clip: ClipContext, parameters: P) -> dict[str, Any]:
        """Make the random choices for the whole clip, JSON-serialisable; they are recorded in the pair.

        Raises
        ------
        ClipNotDegradable
            If nothing in this clip can be degraded.
        """
        return {}

    @abstractmethod
    def apply(
        self, frames: Planes, first: int, clip: ClipContext, parameters: P, choice: Mapping[str, Any]
    ) -> Planes:
        """Return the degraded form of some frames of the clip.

        Parameters
        ----------
        frames
            Planes ``(n, H·3/2, W)`` uint8, or RGB ``(n, H, W, 3)`` uint8 where `works_on` is ``rgb``.
        first
            Position of the first of these frames within the clip.
        choice
            What :meth:`choose` returned.

        Returns
        -------
        ndarray
            Same shape and dtype as `frames`. An RGB operation that changes only part of the picture should
            work on planes and merge there, so that nothing else changes.
        """

    def settle(self, changed: int, frames: int, parameters: P, clip: ClipContext) -> dict[str, Any]:
        """Return what to record with the choices after all `frames` are done, of which `changed` differ.

        The measurements of :meth:`apply` are in ``clip.log.measured``.

        Raises
        ------
        ClipNotDegradable
            If too few frames were changed.
        """
        return {}


class FrameMapOperation(Operation[P]):
    """An operation that shows other frames of the same clip.

    `threshold` is as for :class:`PixelOperation`: a clip without motion is not degraded.
    """

    threshold: ClassVar[float] = 0.5

    @abstractmethod
    def frame_map(self, count: int, parameters: P) -> list[int]:
        """Return, for each of the clip's `count` positions, the index of the frame to show."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A new arrangement of clips.

    Parameters
    ----------
    order
        Clip indices in sequence.
    drawn
        The clips that are removed, moved or trimmed.
    trimmed
        Number of leading frames kept, by the index of a trimmed clip.
    """

    order: tuple[int, ...]
    drawn: tuple[int, ...]
    trimmed: Mapping[int, int] = field(default_factory=dict)


class OrderOperation(Operation[P]):
    """An operation that removes or moves whole clips; a control's may trim clips."""

    @abstractmethod
    def most(self, clips: int, parameters: P) -> int:
        """Return the maximum number of clips to remove or move in a source with `clips` clips."""

    @abstractmethod
    def rearrange(
        self, clips: Sequence[ClipSpan], count: int, seed: tuple[str | int, ...], parameters: P
    ) -> Arrangement:
        """Return the new order with `count` clips removed or moved; smaller draws are subsets of larger ones.

        Raises
        ------
        SetAside
            `no_arrangement` if none is possible for the source.
        """


@dataclass(frozen=True)
class Control:
    """The control of an aspect: an edit as noticeable as the damage that makes neither side better.

    A judge that mostly prefers the untouched side of a control detects edits, not damage.

    Parameters
    ----------
    operation
        The edit, with its default parameters.
    takes
        Whether a clip is eligible, as for :class:`Aspect`.
    needs
        What a caption must contain or lack, in words.
    reason
        Why neither side is better, in words.
    copies
        Parameters that it has in common with the aspect's operation, such as the model.
    max_difference
        Maximum mean difference of an edited clip, in 8-bit steps; beyond, the clip is replaced by another.
    """

    operation: Operation[Any]
    takes: Callable[[CaptionAnalysis, ClipSpan], bool]
    needs: str
    reason: str
    copies: tuple[str, ...] = ()
    max_difference: float = math.inf

    def parameters(self, damage: Parameters) -> Parameters:
        """Return the parameters of the control for damage with these parameters."""
        values = {name: getattr(damage, name) for name in self.copies if name in type(damage).model_fields}
        parameters: Parameters = self.operation.parameters(overrides=values)
        return parameters


@dataclass(frozen=True)
class Aspect:
    """One of the evaluation aspects: its names, eligible clips and operations.

    Parameters
    ----------
    name
        Name of the aspect, as used in the tables.
    dimension
        The paper's id of the aspect, used in prompts (SLVMEval, table 6).
    category
        ``quality`` or ``consistency``.
    needs
        What a caption must contain, in words.
    takes
        Whether a clip is eligible: called with its analysis and its span (never one without frames).
    operations
        The operations by name, the paper's first.
    least_clips
        The source needs this many times `clips_per_pair` clips.
    description
        What the aspect concerns in a video, as judges are told; a user's folder of prompts may replace it.
        Empty for a built-in one, whose description is a prompt file.
    control
        The edit that makes no side better; None if there is none.
    caption_advice
        What a caption must say for its clip to be eligible, with an example; shown to users whose captions
        make too few clips eligible. Empty to show `needs`.
    """

    name: str
    dimension: str
    category: Category
    needs: str
    takes: Callable[[CaptionAnalysis, ClipSpan], bool]
    operations: Mapping[str, Operation[Any]] = field(default_factory=dict)
    least_clips: int = 1
    description: str = ""
    control: Control | None = None
    caption_advice: str = ""

    def operation(self, name: str, control: bool = False) -> Operation[Any]:
        """Return an operation by name; the control's if `control` is set.

        Raises
        ------
        UserInputError
            If the aspect has no operation of that name.
        """
        if control and self.control is not None and self.control.operation.name == name:
            return self.control.operation
        if name not in self.operations:
            raise UserInputError(
                f"aspect {self.name} has no operation {name!r}: choose one of {', '.join(self.operations)}"
            )
        return self.operations[name]


#: Advice for aspects that accept every clip.
ANY_CAPTION = "Any caption will do: caption more clips of the film."


def any_clip(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return True: every clip with frames is eligible."""
    return True


class FoundParameters(Parameters):
    """Minimum share of a clip that must change.

    Parameters
    ----------
    least_frames
        Share of the clip's frames that must change.
    """

    least_frames: float = Field(default=0.5, gt=0, le=1)


F = TypeVar("F", bound=FoundParameters)


class FindingOperation(PixelOperation[F]):
    """An operation that changes only frames in which it finds something, and needs enough of them per clip.

    Class attributes
    ----------------
    finds
        What was found in too few frames; completed by "in 3 of 10 frames only".
    """

    finds: ClassVar[str]

    def settle(self, changed: int, frames: int, parameters: F, clip: ClipContext) -> dict[str, Any]:
        """Return what to record once all frames of the clip are done.

        Parameters
        ----------
        changed, frames
            Number of changed frames and of all frames of the clip.

        Raises
        ------
        ClipNotDegradable
            If less than the share `least_frames` was changed.
        """
        if changed < parameters.least_frames * frames:
            raise ClipNotDegradable(f"{self.finds} in {changed} of {frames} frames only")
        return {"changed_frames": changed, "frames": frames}
