"""The keyed draw: choose the clips to degrade for each aspect and severity point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from storage_schemas.errors import Reason, SetAside
from storage_schemas.ids import artifact_id, digest_value
from storage_schemas.pair import LengthPoint, Segment
from storage_schemas.rng import derived_seed, shuffled
from storage_schemas.store import PAIR
from tasks.aspects.base import CONTROL, Aspect, ClipSpan, Control, Operation, OrderOperation, Parameters
from tasks.aspects.registry import aspect as find_aspect
from tasks.models.base import Models
from tasks.pairs.excerpts import EXCERPT_VERSION, cut_excerpt
from tasks.pairs.facts import SourceFacts, frames_id
from tasks.pairs.intervals import reordered, units
from tasks.recipe import Recipe, SeverityPoint

#: Version of the edit-list and interval rules; part of every pair's id.
EDIT_LIST_VERSION = 1

#: Version of the draw of controls; part of their ids.
CONTROL_VERSION = 1


@dataclass(frozen=True)
class PairJob:
    """One pair to make: everything that determines its content, known before any pixel changes.

    `draw` is the order in which eligible clips are tried; the first `clips` that can be degraded are
    taken, so a smaller draw is a subset of a larger one. `least` is the minimum number of clips; it equals
    `clips` unless the recipe asks for all eligible clips. `control` is set for the control of a main
    pair, `length` for an excerpt.
    """

    aspect: Aspect
    operation: Operation[Any]
    parameters: Parameters
    strength: str
    main: bool
    clips: int
    least: int
    draw: tuple[ClipSpan, ...]
    seed: tuple[str | int, ...]
    fps: Fraction
    consumes: dict[str, Any]
    control: Control | None = None
    length: LengthPoint | None = None

    @property
    def what(self) -> str:
        """What it makes, for messages."""
        return self.aspect.name if self.control is None else f"the control of {self.aspect.name}"

    @property
    def pair_id(self) -> str:
        """Id of the pair's artifact."""
        return artifact_id(PAIR, self.consumes)


def draw_pair(
    facts: SourceFacts, recipe: Recipe, aspect_name: str, point: SeverityPoint, models: Models
) -> PairJob:
    """Draw the clips of one pair and return its job.

    Raises
    ------
    SetAside
        `too_few_clips` or `too_few_eligible_clips`, with the numbers.
    """
    aspect = find_aspect(aspect_name)
    operation = recipe.operation(aspect_name)
    parameters = recipe.parameters(aspect_name, point.strength)
    eligible = facts.eligible(aspect, operation, parameters)
    clips = _count(facts, recipe, aspect, operation, parameters, len(eligible), point)
    seed: tuple[str | int, ...] = (recipe.seed, facts.source.id, aspect_name)
    consumes = {
        "frames": frames_id(facts.source, recipe),
        "clips": digest_value([[s.index, s.first_frame, s.frame_count] for s in facts.spans]),
        "aspect": aspect_name,
        "operation": operation.name,
        "version": operation.version,
        "parameters": parameters.model_dump(mode="json"),
        "eligible": [span.index for span in eligible],
        "count": clips,
        "edit_list": EDIT_LIST_VERSION,
        "seed": str(derived_seed(*seed)),
        "models": operation.consumed_models(parameters, models),
        "analysis": digest_value(
            [operation.consumed_analysis(facts.analyses[span.index]) for span in eligible]
        ),
    }
    return PairJob(
        aspect=aspect,
        operation=operation,
        parameters=parameters,
        strength=recipe.strength_label(aspect_name, point.strength),
        main=point == recipe.points(aspect_name)[0],
        clips=clips,
        least=recipe.clips_per_pair if point.clips == "all" else clips,
        draw=tuple(shuffled(eligible, *seed, "clips")),
        seed=seed,
        fps=recipe.fps,
        consumes=consumes,
    )


def draw_control(facts: SourceFacts, recipe: Recipe, beside: PairJob, models: Models) -> PairJob:
    """Draw the clips of a main pair's control and return its job.

    The clips of the pair's draw that the control accepts come first, in its order, so that both change the
    same clips where both can.

    Raises
    ------
    SetAside
        `too_few_eligible_clips`, with the numbers.
    """
    control = beside.aspect.control
    assert control is not None
    operation, parameters = control.operation, recipe.control_parameters(beside.aspect.name)
    eligible = [
        span
        for span in facts.clips_with_frames
        if control.takes(facts.analyses[span.index], span)
        and operation.takes(facts.analyses[span.index], span, parameters)
    ]
    have = len(facts.clips_with_frames)
    most = len(eligible)
    if isinstance(operation, OrderOperation):
        most = min(most, operation.most(have, parameters))
    if most < beside.clips:
        raise SetAside(
            Reason.TOO_FEW_ELIGIBLE_CLIPS,
            f"the control of {beside.aspect.name} needs {beside.clips} clips ({control.needs}), "
            f"{facts.source.title} has {most} of {have}",
        )
    if isinstance(operation, OrderOperation):
        # raises if there is no room for it
        operation.rearrange(facts.clips_with_frames, beside.clips, beside.seed, parameters)
    common = [span for span in beside.draw if span in eligible]
    others = [span for span in eligible if span not in common]
    bounds = {} if math.isinf(control.max_difference) else {"max_difference": control.max_difference}
    return replace(
        beside,
        operation=operation,
        parameters=parameters,
        strength=CONTROL,
        main=False,
        least=beside.clips,
        draw=(*common, *shuffled(others, *beside.seed, "control clips")),
        consumes={
            **beside.consumes,
            "operation": operation.name,
            "version": operation.version,
            "parameters": parameters.model_dump(mode="json"),
            "eligible": [span.index for span in eligible],
            "draw": [span.index for span in beside.draw],
            "models": operation.consumed_models(parameters, models),
            "analysis": digest_value(
                [operation.consumed_analysis(facts.analyses[span.index]) for span in eligible]
            ),
            "control": CONTROL_VERSION,
            **bounds,
        },
        control=control,
    )


def _count(
    facts: SourceFacts,
    recipe: Recipe,
    aspect: Aspect,
    operation: Operation[Any],
    parameters: Parameters,
    eligible: int,
    point: SeverityPoint,
) -> int:
    least = aspect.least_clips * recipe.clips_per_pair
    have = len(facts.clips_with_frames)
    if have < least:
        raise SetAside(
            Reason.TOO_FEW_CLIPS, f"{aspect.name} needs {least} clips, {facts.source.title} has {have}"
        )
    most = eligible
    if isinstance(operation, OrderOperation):
        most = min(most, operation.most(have, parameters))
    wanted = max(most, recipe.clips_per_pair) if point.clips == "all" else point.clips
    if most < wanted:
        raise SetAside(
            Reason.TOO_FEW_ELIGIBLE_CLIPS,
            f"{aspect.name} needs {wanted} clips ({aspect.needs}), {facts.source.title} has {most} of {have}",
        )
    return wanted


def source_jobs(
    facts: SourceFacts, recipe: Recipe, models: Models, aspects: tuple[str, ...]
) -> tuple[list[PairJob], dict[str, SetAside]]:
    """Return the jobs of a source for the given aspects, and a reason for each aspect without one.

    The reason refers to the recipe's main severity point. Further severity points that a source cannot
    provide (ten clips of eight) are omitted.
    """
    jobs: dict[str, PairJob] = {}
    reasons: dict[str, SetAside] = {}
    for name in aspects:
        for index, point in enumerate(recipe.points(name)):
            try:
                job = draw_pair(facts, recipe, name, point, models)
            except SetAside as reason:
                if index == 0:
                    reasons[name] = reason
                    break
                continue
            jobs.setdefault(job.pair_id, job)
    return list(jobs.values()), reasons


def control_jobs(
    facts: SourceFacts, recipe: Recipe, models: Models, jobs: Sequence[PairJob]
) -> tuple[list[PairJob], dict[str, SetAside]]:
    """Return the controls of the main pairs of `jobs`, and a reason for each aspect without one."""
    controls = []
    reasons: dict[str, SetAside] = {}
    for job in jobs:
        if job.main and recipe.has_control(job.aspect.name, facts.source.id):
            try:
                controls.append(draw_control(facts, recipe, job, models))
            except SetAside as reason:
                reasons[job.aspect.name] = reason
    return controls, reasons


def length_jobs(facts: SourceFacts, recipe: Recipe, models: Models, jobs: Sequence[PairJob]) -> list[PairJob]:
    """Return the excerpts of the main pairs of `jobs`, all around the same clips of the pair's draw.

    Those for which a source has no room are omitted, as are further severity points. Of several shares for
    which its clips give the same excerpt, there is the one that is nearest to what it has.
    """
    found: list[PairJob] = []
    for main in jobs:
        if not main.main or not recipe.lengths.shares:
            continue
        point = SeverityPoint(strength=recipe.strength(main.aspect.name), clips=recipe.lengths.clips)
        try:
            job = replace(draw_pair(facts, recipe, main.aspect.name, point, models), main=False)
        except SetAside:
            continue
        nearest: dict[tuple[str, int, int], tuple[float, LengthPoint]] = {}
        for length in recipe.lengths.points():
            # the clips that are drawn first may leave no room for it
            with suppress(SetAside):
                cut = cut_excerpt(*_expected(facts, job), length, job.what)
                frames = (length.position, cut.first_frame, cut.frame_count)
                off = abs(length.share - cut.frame_count / cut.source_frames)
                if frames not in nearest or off < nearest[frames][0]:
                    nearest[frames] = (off, length)
        found += [_excerpt(job, length) for _, length in nearest.values()]
    return found


def _excerpt(job: PairJob, length: LengthPoint) -> PairJob:
    """Return the job of an excerpt."""
    consumed = {**length.model_dump(mode="json"), "version": EXCERPT_VERSION}
    return replace(job, length=length, consumes={**job.consumes, "length": consumed})


def _expected(facts: SourceFacts, job: PairJob) -> tuple[list[Segment], list[Segment]]:
    """Return the source and the edit list if each clip that is drawn can be degraded.

    Raises
    ------
    SetAside
        If there is no arrangement.
    """
    source_units = units(facts.spans, facts.timeline.count)
    if isinstance(job.operation, OrderOperation):
        found = job.operation.rearrange(facts.clips_with_frames, job.clips, job.seed, job.parameters)
        return source_units, reordered(source_units, found.order, found.drawn)
    drawn = {span.index for span in job.draw[: job.clips]}
    return source_units, [
        unit.model_copy(update={"kind": "degraded"}) if unit.clip in drawn else unit for unit in source_units
    ]
