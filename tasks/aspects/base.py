"""What an aspect is: a name, what it needs of a clip, and the operations that degrade it."""

from __future__ import annotations

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
from storage_schemas.rng import derived_seed, keyed_rng
from tasks.models.base import Models

Category = Literal["quality", "consistency"]
Pool = Literal["cpu", "h100"]

#: What a strength is called whose parameters are those of no preset; no preset's name begins so.
CUSTOM = "custom"


class Parameters(Frozen):
    """Base of every operation's parameters: frozen, strict, JSON-able."""


P = TypeVar("P", bound=Parameters)


class ClipNotDegradable(SlvmevalError):
    """This clip cannot be degraded by this operation; another eligible clip takes its place."""


@dataclass(frozen=True, slots=True)
class ClipSpan:
    """A clip as the operations see it: its index and the source's frames that it owns."""

    index: int
    first_frame: int
    frame_count: int


class ClipLog:
    """What an operation notes while it works on a clip.

    Attributes
    ----------
    measured
        Values by name, one a frame in the order of the frames; `settle` sees them.
    facts
        What ran (batch sizes, device): for the provenance only.
    """

    def __init__(self) -> None:
        self.measured: dict[str, list[float]] = {}
        self.facts: dict[str, Any] = {}

    def measure(self, name: str, value: float) -> None:
        """Note a value of the next frame."""
        self.measured.setdefault(name, []).append(float(value))

    def ran(self, **facts: Any) -> None:
        """Note with what it ran; JSON-able, a later value replaces an earlier one."""
        self.facts |= facts


@dataclass(frozen=True)
class ClipContext:
    """What an operation may know of the clip that it degrades: nothing that is in no id.

    Parameters
    ----------
    span
        The clip's frames.
    color
        Colour matrix and range of the planes.
    analysis
        What the clip's caption names.
    seed
        Key of all random draws of this operation on this source: (release seed, source id, aspect).
    models
        The model store's lookup: name → loaded model; see ``tasks/models``.
    read
        Returns the clip's frames ``place … place + count`` as planes ``(count, H·3/2, W)`` uint8, so that
        :meth:`PixelOperation.choose` can look at them.
    log
        Where the operation notes what it measured and with what it ran.
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
        """Return the generator for a purpose that all clips of the source share."""
        return keyed_rng(*self.seed, purpose)


class Operation(ABC, Generic[P]):
    """One exactly defined way to degrade.

    Class attributes
    ----------------
    name, version
        Both are in the artifact's id; a change of pixels needs a new version.
    parameters_type
        The frozen parameter model; its defaults are the preset named by `default_strength`.
    strengths
        Presets by name, from weak to strong, each the fields that differ from the defaults.
    pool
        Which workers run it.
    models
        Names of the models that it may load.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    parameters_type: ClassVar[type[Parameters]]
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}}
    default_strength: ClassVar[str] = "paper"
    pool: ClassVar[Pool] = "cpu"
    models: ClassVar[tuple[str, ...]] = ()

    def parameters(self, strength: str | None = None, overrides: Mapping[str, Any] | None = None) -> P:
        """Return the parameters of a preset, with single values replaced.

        Raises
        ------
        UserInputError
            For a preset or a field that the operation does not have.
        """
        chosen = strength or self.default_strength
        if chosen not in self.strengths:
            raise UserInputError(
                f"operation {self.name} has no strength {chosen!r}: choose one of {', '.join(self.strengths)}"
            )
        values = {**self.strengths[chosen], **(overrides or {})}
        try:
            return self.parameters_type(**values)  # type: ignore[return-value]
        except ValidationError as problem:
            first = problem.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "together"
            known = ", ".join(self.parameters_type.model_fields)
            raise UserInputError(
                f"parameters of operation {self.name}: {where}: {first['msg']} (it takes: {known})"
            ) from problem

    def takes(self, analysis: CaptionAnalysis, clip: ClipSpan, parameters: P) -> bool:
        """Return whether this operation, with these parameters, takes a clip that the aspect takes."""
        return True

    def consumed_models(self, parameters: P, models: Models) -> dict[str, Any]:
        """Return name and checksum of each model that is used with these parameters, for the artifact's id.

        Left as it is, these are all that `models` names.

        Raises
        ------
        PrerequisiteError
            If one is missing, with the command that fetches it.
        """
        from tasks.models.hub import consumed_model  # which takes `Models` from this module

        return {name: sum_ for model in self.models for name, sum_ in consumed_model(models, model).items()}

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the part of a clip's analysis that changes this operation's pixels, JSON-able."""
        return None


class PixelOperation(Operation[P]):
    """Makes new frames of a clip.

    `threshold` is the least mean absolute difference (in 8-bit steps, over all planes, after rounding to
    4:2:0) between a clip and its degraded form; below it the clip does not count as degraded.
    `frames_at_once` is how many frames :meth:`apply` is given; progress is told after each such step.
    """

    works_on: ClassVar[Literal["planes", "rgb"]]
    threshold: ClassVar[float]
    frames_at_once: ClassVar[int] = 32

    def choose(self, clip: ClipContext, parameters: P) -> dict[str, Any]:
        """Make the random choices that hold for the whole clip, JSON-able; recorded in the pair.

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
            Place of the first of these frames within the clip.
        choice
            What :meth:`choose` returned.

        Returns
        -------
        ndarray
            Same shape and dtype as `frames`. An operation in RGB that changes a part of the picture
            works on planes and merges there, so that nothing else changes.
        """

    def settle(self, changed: int, frames: int, parameters: P, clip: ClipContext) -> dict[str, Any]:
        """Return what to record with the choices once all `frames` are done, `changed` of them differing.

        What :meth:`apply` measured of each frame is in ``clip.log.measured``.

        Raises
        ------
        ClipNotDegradable
            If too few frames were changed.
        """
        return {}


class FrameMapOperation(Operation[P]):
    """Shows other frames of the same clip.

    `threshold` is as for :class:`PixelOperation`: a clip that stands still anyway is not degraded by it.
    """

    threshold: ClassVar[float] = 0.5

    @abstractmethod
    def frame_map(self, count: int, parameters: P) -> list[int]:
        """Return, for each of the clip's `count` places, which of its frames is shown (from 0)."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What becomes of the clips: `order` lists clip indices as they follow; `drawn` those concerned."""

    order: tuple[int, ...]
    drawn: tuple[int, ...]


class OrderOperation(Operation[P]):
    """Removes or moves whole clips."""

    @abstractmethod
    def most(self, clips: int, parameters: P) -> int:
        """Return the largest number of clips that may be concerned in a source with `clips` clips."""

    @abstractmethod
    def rearrange(
        self, clips: Sequence[ClipSpan], count: int, seed: tuple[str | int, ...], parameters: P
    ) -> Arrangement:
        """Return the new order when `count` clips are concerned; smaller draws lie within larger ones.

        Raises
        ------
        SetAside
            `no_arrangement` if the source allows none.
        """


@dataclass(frozen=True)
class Aspect:
    """One of the evaluation aspects: what it is called, which clips it takes, how it can be degraded.

    Parameters
    ----------
    name
        Our name, as in the tables.
    dimension
        The id that the paper gives to judges (SLVMEval, table 6).
    category
        ``quality`` or ``consistency``.
    needs
        What a caption must say, for a person.
    takes
        Whether a clip is eligible: called with its analysis and its span (never one without frames).
    operations
        The operations by name, the paper's first.
    least_clips
        The source needs this many times `clips_per_pair` clips.
    """

    name: str
    dimension: str
    category: Category
    needs: str
    takes: Callable[[CaptionAnalysis, ClipSpan], bool]
    operations: Mapping[str, Operation[Any]] = field(default_factory=dict)
    least_clips: int = 1

    def operation(self, name: str) -> Operation[Any]:
        """Return an operation by name.

        Raises
        ------
        UserInputError
            If the aspect has none of that name.
        """
        if name not in self.operations:
            raise UserInputError(
                f"aspect {self.name} has no operation {name!r}: choose one of {', '.join(self.operations)}"
            )
        return self.operations[name]


def any_clip(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return True: the aspect takes every clip that has frames."""
    return True


class FoundParameters(Parameters):
    """In how much of a clip it must be found.

    Parameters
    ----------
    least_frames
        Share of the clip's frames that must change.
    """

    least_frames: float = Field(default=0.5, gt=0, le=1)


F = TypeVar("F", bound=FoundParameters)


class FindingOperation(PixelOperation[F]):
    """Leaves frames as they are in which it finds nothing, and clips in which these are too many.

    Class attributes
    ----------------
    finds
        What was seen in too few frames, to go on "in 3 of 10 frames only".
    """

    finds: ClassVar[str]

    def settle(self, changed: int, frames: int, parameters: F, clip: ClipContext) -> dict[str, Any]:
        """Return what to record once all frames of the clip are done.

        Parameters
        ----------
        changed, frames
            How many frames of the clip differ at all, and how many it has.

        Raises
        ------
        ClipNotDegradable
            If less than the share `least_frames` was changed.
        """
        if changed < parameters.least_frames * frames:
            raise ClipNotDegradable(f"{self.finds} in {changed} of {frames} frames only")
        return {"changed_frames": changed, "frames": frames}
