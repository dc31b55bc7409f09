"""The conformance tests for authors of aspects and evaluators; each reports every violation.

``check_aspect(ASPECT)`` is defined here, ``check_evaluator(evaluator)`` in its own module. `stand_in_setup`
provides a server for evaluators that ask a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from slvmeval.testing.evaluators import ConformanceError, check_evaluator, hardware_problems
from slvmeval.testing.stand_in import stand_in_setup
from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import PrerequisiteError, SetAside, UserInputError
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.ids import canonical_json
from tasks.aspects.base import (
    CUSTOM,
    Arrangement,
    Aspect,
    ClipContext,
    ClipNotDegradable,
    ClipSpan,
    Control,
    FrameMapOperation,
    Operation,
    OrderOperation,
    Parameters,
    PixelOperation,
    strength_text,
)
from tasks.aspects.drawn_clip import FULL_ANALYSIS, synthetic_clip
from tasks.media.planes import planes_to_rgb, rgb_to_planes
from tasks.models.base import Models

_ASPECT_NAME = re.compile(r"[a-z][a-z0-9_]*")
_OPERATION_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SEED: tuple[str | int, ...] = (0, "conformance", "aspect")


class NoModels(Models):
    """A model store without models, for operations that need none."""

    def get(self, name: str, **options: str | float | bool) -> Any:
        """Refuse.

        Raises
        ------
        PrerequisiteError
            Always, with the remedy.
        """
        raise PrerequisiteError(f"the operation asks for model {name!r}: call check_aspect with models=…")


def check_aspect(
    aspect: Aspect,
    *,
    models: Models | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    clip: Planes | None = None,
    analysis: CaptionAnalysis = FULL_ANALYSIS,
) -> None:
    """Check an aspect's conformance by running each of its operations on a small clip.

    Parameters
    ----------
    aspect
        The aspect.
    models
        Models for its operations; by default none.
    overrides
        Single parameters by operation name, for values used only in tests.
    clip
        BT.709 planes ``(n, H·3/2, W)`` uint8 of at least two frames that the operations can degrade; by
        default :func:`synthetic_clip`.
    analysis
        The analysis of the clip's caption.

    Raises
    ------
    ConformanceError
        Listing every violation.
    """
    planes = synthetic_clip() if clip is None else clip
    breaches = list(_aspect_breaches(aspect, analysis, len(planes)))
    operations = dict(aspect.operations)
    if aspect.control is not None:
        operations.setdefault(aspect.control.operation.name, aspect.control.operation)
    for name, operation in operations.items():
        problems: list[str] = []
        try:
            changes = dict((overrides or {}).get(name, {}))
            problems += _operation_breaches(operation)
            context = _Trial(operation, changes, models or NoModels(), planes, analysis)
            if isinstance(operation, PixelOperation):
                problems += _pixel_breaches(operation, context)
            elif isinstance(operation, FrameMapOperation):
                problems += _frame_map_breaches(operation, changes)
            elif isinstance(operation, OrderOperation):
                problems += _order_breaches(operation, changes)
            else:
                problems.append("is not a PixelOperation, FrameMapOperation or OrderOperation")
        except Exception as problem:  # noqa: BLE001 - report every failure in the list
            problems.append(f"raised {type(problem).__name__}: {problem}")
        breaches += [f"operation {name}: {line}" for line in problems]
    if breaches:
        raise ConformanceError(f"aspect {aspect.name}", breaches)


def _aspect_breaches(aspect: Aspect, analysis: CaptionAnalysis, frames: int) -> Iterator[str]:
    if not _ASPECT_NAME.fullmatch(aspect.name):
        yield f"name {aspect.name!r} is not in lower case letters, digits and underscores"
    if not aspect.dimension:
        yield "dimension is empty: judges receive it as the aspect's id"
    if aspect.category not in ("quality", "consistency"):
        yield f"category {aspect.category!r} is neither quality nor consistency"
    if not aspect.needs:
        yield "needs is empty: describe what a caption must name, or state that it need not name anything"
    if aspect.least_clips < 1:
        yield f"least_clips is {aspect.least_clips}, it must be at least 1"
    if not aspect.operations:
        yield "it has no operation"
    for name, operation in aspect.operations.items():
        if operation.name != name:
            yield f"operation {operation.name!r} is listed as {name!r}"
    if aspect.control is not None:
        yield from _control_breaches(aspect.control)
    span = ClipSpan(0, 0, frames)
    for what, value in (("full", analysis), ("empty", CaptionAnalysis())):
        if not isinstance(aspect.takes(value, span), bool):
            yield f"takes does not return a bool for the {what} analysis"
    if not aspect.takes(analysis, span):
        yield "takes refuses the given analysis: pass analysis=… with an analysis that it accepts"


def _control_breaches(control: Control) -> Iterator[str]:
    if not control.needs or not control.reason:
        yield "control: needs or reason is empty: state which clips it takes, and why neither side is better"
    fields = control.operation.parameters_type.model_fields
    for name in control.copies:
        if name not in fields:
            yield f"control: copies {name!r}, which its operation lacks (it takes: {', '.join(fields)})"
    if not control.max_difference > 0:
        yield f"control: max_difference is {control.max_difference}, it must be positive"
    for what, value in (("full", FULL_ANALYSIS), ("empty", CaptionAnalysis())):
        if not isinstance(control.takes(value, ClipSpan(0, 0, 3)), bool):
            yield f"control: takes does not return a bool for the {what} analysis"


def _operation_breaches(operation: Operation[Any]) -> Iterator[str]:
    if not _OPERATION_NAME.fullmatch(operation.name):
        yield f"name {operation.name!r} is not in lower case letters and digits joined by hyphens"
    if operation.version < 1:
        yield f"version is {operation.version}, it must be at least 1"
    yield from hardware_problems(operation)
    kind = operation.parameters_type
    if not issubclass(kind, Parameters) or not kind.model_config.get("frozen"):
        yield f"parameters_type {kind.__name__} is not a frozen Parameters"
        return
    if kind.model_config.get("extra") != "forbid":
        yield f"parameters_type {kind.__name__} accepts unknown fields"
    if operation.default_strength not in operation.strengths:
        yield f"default_strength {operation.default_strength!r} is not a preset"
        return
    if operation.parameters() != kind():
        yield f"preset {operation.default_strength!r} does not equal the parameters' own defaults"
    seen: dict[str, str] = {}
    for strength in operation.strengths:
        if strength.startswith(CUSTOM):
            yield f"preset {strength!r}: names that begin with {CUSTOM!r} are reserved for changed parameters"
        parameters = operation.parameters(strength)
        text = canonical_json(parameters.model_dump(mode="json"))
        if kind.model_validate_json(text) != parameters:
            yield f"the parameters of preset {strength!r} do not survive JSON"
        if text in seen:
            yield f"presets {seen[text]!r} and {strength!r} are the same"
        seen[text] = strength
    yield from _scale_breaches(operation)
    for wrong in ({"strength": "no such preset"}, {"overrides": {"no_such_field": 1}}):
        try:
            operation.parameters(**wrong)
        except UserInputError:
            continue
        yield f"parameters({wrong}) does not raise UserInputError"


def _scale_breaches(operation: Operation[Any]) -> Iterator[str]:
    """Check that every number maps to parameters of nearly that number, and that marks are on the scale."""
    if operation.scale is None:
        return
    scale = operation.scale
    if scale.field not in operation.parameters_type.model_fields:
        yield f"scale: the parameters have no field {scale.field!r}"
        return
    if operation.strength_of(operation.parameters()) != 1:
        yield f"scale: the strength of preset {operation.default_strength!r} is not 1"
    numbers = [scale.most * step / 8 for step in range(1, 9)]
    found = [operation.strength_of(operation.parameters(strength_text(number))) for number in numbers]
    if sorted(found, key=float) != found or len(set(found)) < 4:  # type: ignore[arg-type]
        yield f"scale: the strengths of the parameters do not rise with the number: {found}"
    if found[-1] is None or abs(found[-1] - scale.most) > 0.01 * scale.most:
        yield f"scale: the parameters at {scale.most:g} have the strength {found[-1]}"


class _RecordingModels(Models):
    """Passes models through, recording the requested names."""

    def __init__(self, models: Models) -> None:
        self.models, self.names = models, set[str]()

    def get(self, name: str, **options: str | float | bool) -> Any:
        self.names.add(name)
        return self.models.get(name, **options)


class _Trial:
    """One clip for trying an operation."""

    def __init__(
        self,
        operation: Operation[Any],
        overrides: Mapping[str, Any],
        models: Models,
        planes: Planes,
        analysis: CaptionAnalysis,
    ) -> None:
        self.overrides = overrides
        self.planes = planes
        self.models = _RecordingModels(models)
        works_on = getattr(operation, "works_on", "planes")
        self.clip = ClipContext(
            span=ClipSpan(3, 40, len(planes)),
            color=ColorSpec(),
            analysis=analysis,
            seed=_SEED,
            models=self.models,
            read=lambda first, count: planes[first : first + count],
        )
        self.frames = planes_to_rgb(planes, self.clip.color) if works_on == "rgb" else planes.copy()

    def difference(self, after: Planes) -> float:
        """Return the mean absolute difference of planes, as computed by the build."""
        if after.ndim == 4:
            after = rgb_to_planes(after, self.clip.color)
        return float(np.abs(after.astype(np.int16) - self.planes).mean())


def _pixel_breaches(operation: PixelOperation[Any], trial: _Trial) -> Iterator[str]:
    if operation.works_on not in ("planes", "rgb"):
        yield f"works_on {operation.works_on!r} is neither planes nor rgb"
        return
    if not operation.threshold > 0:
        yield f"threshold is {operation.threshold}, it must be positive"
    before = trial.frames.copy()
    trial.frames.setflags(write=False)  # as passed by the build
    for strength in operation.strengths:
        parameters = operation.parameters(strength, trial.overrides)
        where = f"preset {strength!r}: "
        trial.models.names.clear()
        try:
            choice = operation.choose(trial.clip, parameters)
            after = operation.apply(trial.frames, 0, trial.clip, parameters, choice)
        except ClipNotDegradable as problem:
            yield f"{where}the clip cannot be degraded ({problem}): give clip=… and analysis=… that can be"
            continue
        try:
            canonical_json(choice)
        except (TypeError, ValueError) as problem:
            yield f"{where}the choice is not JSON: {problem}"
        if after.shape != before.shape or after.dtype != np.uint8:
            yield f"{where}returns {after.shape} {after.dtype} for {before.shape} uint8"
            continue
        if not np.array_equal(trial.frames, before):
            yield f"{where}modifies its input frames"
        if operation.choose(trial.clip, parameters) != choice:
            yield f"{where}makes a different choice the second time: draw from clip.rng or clip.video_rng"
        if not np.array_equal(operation.apply(trial.frames, 0, trial.clip, parameters, choice), after):
            yield f"{where}returns different pixels the second time: draw from clip.rng or clip.video_rng"
        parts = [
            operation.apply(trial.frames[start : start + 2], start, trial.clip, parameters, choice)
            for start in range(0, len(before), 2)
        ]
        if not np.array_equal(np.concatenate(parts), after):
            yield f"{where}returns different pixels in batches of two: use only the frame and its position"
        if trial.models.names:
            consumed = operation.consumed_models(parameters, trial.models.models)
            for name in sorted(trial.models.names - set(consumed)):
                yield f"{where}uses model {name!r}, which consumed_models does not name: declare it in models"
        difference = trial.difference(after)
        if difference < operation.threshold:
            yield f"{where}changes {difference:.3f} steps, less than the threshold {operation.threshold:g}"


def _frame_map_breaches(operation: FrameMapOperation[Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    if not operation.threshold > 0:
        yield f"threshold is {operation.threshold}, it must be positive"
    for strength in operation.strengths:
        parameters = operation.parameters(strength, overrides)
        for count in range(2, 40):
            mapping = operation.frame_map(count, parameters)
            where = f"preset {strength!r}, {count} frames: "
            if len(mapping) != count:
                yield f"{where}maps {len(mapping)} positions"
            elif not all(isinstance(index, int) and 0 <= index < count for index in mapping):
                yield f"{where}uses a frame that the clip does not have"
            elif mapping == list(range(count)):
                yield f"{where}leaves every frame at its own position"
            elif operation.frame_map(count, parameters) != mapping:
                yield f"{where}returns a different map the second time"
            else:
                continue
            break


def _order_breaches(operation: OrderOperation[Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    for strength in operation.strengths:
        parameters = operation.parameters(strength, overrides)
        arranged = 0
        for clips in (2, 3, 5, 8, 13, 20):
            # indices with gaps: clips without frames are not passed
            spans = [ClipSpan(2 * index + 1, 10 * index, 10) for index in range(clips)]
            smaller: set[int] = set()
            for count in range(1, operation.most(clips, parameters) + 1):
                where = f"preset {strength!r}, {count} of {clips} clips: "
                try:
                    arrangement = operation.rearrange(spans, count, _SEED, parameters)
                    again = operation.rearrange(spans, count, _SEED, parameters)
                except SetAside:
                    continue
                arranged += 1
                yield from (where + line for line in _arrangement_breaches(arrangement, spans, count))
                if again != arrangement:
                    yield f"{where}returns a different order the second time: draw with keyed_rng(*seed, …)"
                if not smaller <= set(arrangement.drawn):
                    yield f"{where}the smaller draw {sorted(smaller)} is not a subset of {arrangement.drawn}"
                smaller = set(arrangement.drawn)
        if not arranged:
            yield f"preset {strength!r}: no number of clips can be arranged"


def _arrangement_breaches(arrangement: Arrangement, spans: Sequence[ClipSpan], count: int) -> Iterator[str]:
    indices = [span.index for span in spans]
    if len(set(arrangement.order)) != len(arrangement.order) or not set(arrangement.order) <= set(indices):
        yield f"the order {arrangement.order} does not consist of the clips, each at most once"
    if arrangement.trimmed:
        yield from _trim_breaches(arrangement, spans)
        return
    if len(set(arrangement.drawn)) != count or not set(arrangement.drawn) <= set(indices):
        yield f"{arrangement.drawn} are not {count} of the clips"
    if list(arrangement.order) == indices:
        yield "nothing is removed or moved"
    if 2 * len(arrangement.order) < len(indices):
        yield f"only {len(arrangement.order)} of {len(indices)} clips remain: at least half must remain"
    if not set(indices) - set(arrangement.order) <= set(arrangement.drawn):
        yield "a clip that was not drawn is missing"
    rest = [index for index in arrangement.order if index not in arrangement.drawn]
    if rest != sorted(rest):
        yield "clips that were not drawn change order"


def _trim_breaches(arrangement: Arrangement, spans: Sequence[ClipSpan]) -> Iterator[str]:
    counts = {span.index: span.frame_count for span in spans}
    if list(arrangement.order) != list(counts):
        yield f"the order {arrangement.order} of trimmed clips is not the order of the clips"
    if set(arrangement.trimmed) != set(arrangement.drawn):
        yield f"the trimmed clips {sorted(arrangement.trimmed)} are not the drawn ones {arrangement.drawn}"
    for index, kept in arrangement.trimmed.items():
        if not 0 < kept < counts.get(index, 0):
            yield f"clip {index} keeps {kept} of {counts.get(index, 0)} frames"


__all__ = [
    "FULL_ANALYSIS",
    "ConformanceError",
    "NoModels",
    "check_aspect",
    "check_evaluator",
    "stand_in_setup",
    "synthetic_clip",
]
