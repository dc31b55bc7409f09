"""The stages of one source as plain functions that any executor can run in any process.

Arguments and results are ids, paths and small frozen models. A failure becomes a row instead of an
exception, so that one bad source does not affect the others.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from storage_schemas.away import is_away
from storage_schemas.errors import (
    TRANSIENT_REASONS,
    IntegrityError,
    PrerequisiteError,
    Reason,
    SetAside,
    SlvmevalError,
    UserInputError,
)
from storage_schemas.ids import artifact_id, digest_frames, digest_value
from storage_schemas.model import ModelServer
from storage_schemas.pair import NoPair, PlannedPair, SourceReport
from storage_schemas.placement import Hardware, Placement
from storage_schemas.provenance import utc_now
from storage_schemas.set_aside import CONTROL_STAGE, LENGTH_STAGE, SetAsideRow
from storage_schemas.source import Source
from storage_schemas.store import FRAMES, PAIR, VERIFIED, Store
from tasks.aspects.base import PixelOperation
from tasks.captions.stage import Unfinished
from tasks.llm.servers import Servers
from tasks.models.base import Models
from tasks.models.device import device_of, require_gpu
from tasks.models.hub import ModelHub
from tasks.models.small import FetchingHub
from tasks.pairs.clip_counts import clip_count
from tasks.pairs.degrade import degrade_source
from tasks.pairs.draw import PairJob, control_jobs, length_jobs, source_jobs
from tasks.pairs.facts import SourceFacts, frames_consumes, frames_id, source_facts
from tasks.pairs.ingest import ingest_source
from tasks.pairs.verify import verified_consumes, verify_pairs
from tasks.recipe import Recipe

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuildWork:
    """Context shared by all stages: store, model folders and recipe."""

    store: str
    recipe: Recipe
    model_folders: tuple[str, ...]
    #: Where work runs.
    placement: Placement = field(default_factory=Placement)
    #: Whether work of a GPU pool may run without a visible GPU.
    allow_cpu_models: bool = False
    #: Model servers by the names used in recipes.
    model_servers: Mapping[str, ModelServer] = field(default_factory=dict)
    #: Threads that decode one source.
    decode_threads: int = 1

    def pool_of(self, aspect: str, hardware: Hardware) -> str:
        """Return the pool that makes an aspect; `hardware` is what its operation needs."""
        return self.placement.pool(hardware, aspect)

    @property
    def servers(self) -> Servers:
        """Model servers available to the stages."""
        return Servers(self.model_servers, Path(self.store))

    def open(self, hardware: Hardware = "cpu") -> tuple[Store, Models]:
        """Return the store, and this process's models on its device."""
        return Store.open(Path(self.store)), model_hub(self.model_folders, device_of(hardware))


@dataclass(frozen=True)
class StageResult:
    """Result of a stage for one source: its report, rows that were set aside, or both.

    `unfinished`: the stage did a bounded part of its work, and has to run again.
    """

    source_id: str
    stage: str
    report: SourceReport | None = None
    rows: tuple[SetAsideRow, ...] = ()
    unfinished: bool = False


@cache
def model_hub(folders: tuple[str, ...], device: str = "cpu") -> ModelHub:
    """Return this process's model hub for the given folders; each model is loaded once."""
    return FetchingHub([Path(folder) for folder in folders], device)


def inspect_stage(work: BuildWork, source: Source, aspects: tuple[str, ...]) -> StageResult:
    """Probe a source, analyse a part of its captions and, after the last, report its possible pairs."""

    def run() -> StageResult:
        store, models = work.open()
        try:
            found = report(store, source, work, models, aspects, bounded=True)
        except Unfinished:
            return StageResult(source.id, "inspect", unfinished=True)
        return StageResult(source.id, "inspect", found)

    return _guarded(source, "inspect", run, key=inspect_key(source, work.recipe))


def ingest_stage(work: BuildWork, source: Source, aspects: tuple[str, ...]) -> StageResult:
    """Store the frames of a source."""

    def run() -> StageResult:
        store, _ = work.open()
        ingest_source(store, source, work.recipe, threads=work.decode_threads)
        return StageResult(source.id, "ingest")

    return _guarded(source, "ingest", run, key=ingest_key(source, work.recipe))


def degrade_stage(pool: str, work: BuildWork, source: Source, aspects: tuple[str, ...]) -> StageResult:
    """Make the pairs of a source that belong to a pool, for the given aspects.

    Raises
    ------
    PrerequisiteError
        If the pool has GPUs, none is visible, and the site does not allow running without one.
    """
    hardware = work.placement.known[pool]
    if hardware == "gpu" and not work.allow_cpu_models:
        require_gpu()

    def run() -> StageResult:
        store, models = work.open(hardware)
        facts = source_facts(store, source, work.recipe, work.servers)
        jobs = _jobs(facts, work, models, aspects)
        jobs = [job for job in jobs if work.pool_of(job.aspect.name, job.operation.hardware) == pool]
        failed = degrade_source(store, facts, jobs, models).set_aside
        rows = tuple(
            _pair_row(source, job, "degrade", failed[job.pair_id]) for job in jobs if job.pair_id in failed
        )
        # predictions made before ingest may be wrong: key the rows by the actual frames
        return StageResult(source.id, "degrade", report(store, source, work, models, _all(work)), rows)

    return _guarded(source, "degrade", run)


def verify_stage(work: BuildWork, source: Source, aspects: tuple[str, ...]) -> StageResult:
    """Verify the pairs of a source and return a new report on it."""

    def run() -> StageResult:
        store, models = work.open()
        facts = source_facts(store, source, work.recipe, work.servers)
        jobs = _jobs(facts, work, models, aspects)
        finished = [job for job in jobs if store.has(PAIR, job.pair_id)]
        failed = verify_pairs(store, [job.pair_id for job in finished])
        rows = tuple(
            _pair_row(source, job, "verify", failed[job.pair_id]) for job in finished if job.pair_id in failed
        )
        return StageResult(source.id, "verify", report(store, source, work, models, _all(work)), rows)

    return _guarded(source, "verify", run)


def _jobs(facts: SourceFacts, work: BuildWork, models: Models, aspects: tuple[str, ...]) -> list[PairJob]:
    jobs, _ = source_jobs(facts, work.recipe, models, aspects)
    controls, _ = control_jobs(facts, work.recipe, models, jobs)
    return jobs + controls + length_jobs(facts, work.recipe, models, jobs)


def _all(work: BuildWork) -> tuple[str, ...]:
    return tuple(work.recipe.aspects)


W = TypeVar("W")
S = TypeVar("S")
E = TypeVar("E")


class Stage(NamedTuple, Generic[W, S, E]):
    """One step of processing: its name, its pool and its function."""

    name: str
    pool: str
    function: Callable[[W, S, tuple[str, ...]], E]


#: A step of a source of a build.
SourceStage = Stage[BuildWork, Source, StageResult]


def inspection(placement: Placement) -> SourceStage:
    """Return the first stage of a source."""
    return Stage("inspect", placement.pool("cpu"), inspect_stage)


def stages_for(placement: Placement, pools: Collection[str]) -> list[SourceStage]:
    """Return the stages of a source after its inspection, in order; its missing pairs belong into `pools`."""
    most = placement.pool("cpu")
    # frames are read again on another node, but a GPU does not wait for decoding
    in_order = sorted((pool for pool in placement.known if pool in pools), key=lambda pool: pool != most)
    return [
        Stage("ingest", most, ingest_stage),
        *(Stage(degrade_name(placement, pool), pool, partial(degrade_stage, pool)) for pool in in_order),
        Stage("verify", most, verify_stage),
    ]


def degrade_name(placement: Placement, pool: str) -> str:
    """Return the name of the stage that degrades in a pool."""
    return "degrade" if pool == placement.pool("cpu") else f"degrade-{pool}"


def inspect_key(source: Source, recipe: Recipe) -> str:
    """Return the checksum of the inputs of a source's inspection."""
    return digest_value(
        {
            "stage": "inspect",
            "captions": source.captions_digest,
            "least_duration_s": recipe.least_duration_s,
            "analyser": recipe.caption_analysis,
            **frames_consumes(source, recipe),
        }
    )


def ingest_key(source: Source, recipe: Recipe) -> str:
    """Return the checksum of the inputs of a source's ingest."""
    return digest_value({"stage": "ingest", **frames_consumes(source, recipe)})


def report(
    store: Store,
    source: Source,
    work: BuildWork,
    models: Models,
    aspects: tuple[str, ...],
    bounded: bool = False,
) -> SourceReport:
    """Report the pairs that a source can provide, and which of them exist.

    Raises
    ------
    Unfinished
        If `bounded`, and captions are left to analyse.
    """
    recipe = work.recipe
    facts = source_facts(store, source, recipe, work.servers, bounded)
    jobs, reasons = source_jobs(facts, recipe, models, aspects)
    controls, no_control = control_jobs(facts, recipe, models, jobs)
    lengths = length_jobs(facts, recipe, models, jobs)
    return SourceReport(
        source_id=source.id,
        title=source.title,
        duration_s=facts.timeline.duration_s,
        frames=facts.timeline.count,
        width=facts.timeline.width,
        height=facts.timeline.height,
        exact=facts.timeline.exact,
        has_frames=store.has(FRAMES, frames_id(source, recipe)),
        spans=tuple((span.first_frame, span.frame_count) for span in facts.spans),
        frames_checksum=digest_frames(facts.timeline.digests) if facts.timeline.exact else "",
        pairs=tuple(_planned(store, job) for job in (*jobs, *controls, *lengths)),
        no_pair=tuple(
            NoPair(aspect=name, reason=problem.reason, message=problem.message, control=control)
            for control, found in ((False, reasons), (True, no_control))
            for name, problem in found.items()
        ),
        damage=facts.timeline.damage,
        clips=tuple(clip_count(facts, recipe, name) for name in aspects),
    )


def _planned(store: Store, job: PairJob) -> PlannedPair:
    pixels = isinstance(job.operation, PixelOperation)
    return PlannedPair(
        pair_id=job.pair_id,
        aspect=job.aspect.name,
        operation=job.operation.name,
        strength=job.strength,
        clips=job.clips,
        main=job.main,
        new_frames=sum(span.frame_count for span in job.draw[: job.clips]) if pixels else 0,
        hardware=job.operation.hardware,
        done=is_done(store, job.pair_id),
        control=job.control is not None,
        length=job.length,
    )


def is_done(store: Store, pair_id: str) -> bool:
    """Return whether a pair is stored and verified."""
    return store.has(PAIR, pair_id) and store.has(VERIFIED, artifact_id(VERIFIED, verified_consumes(pair_id)))


def _pair_row(source: Source, job: PairJob, stage: str, problem: SetAside) -> SetAsideRow:
    return SetAsideRow(
        source_id=source.id,
        aspect=job.aspect.name,
        stage=CONTROL_STAGE if job.control is not None else LENGTH_STAGE if job.length is not None else stage,
        reason=problem.reason,
        message=problem.message,
        location=source.video,
        key=job.pair_id,
        at=utc_now(),
    )


def source_row(source: Source, stage: str, reason: Reason, message: str, key: str = "") -> SetAsideRow:
    """Return the row of a source that is set aside as a whole."""
    return SetAsideRow(
        source_id=source.id,
        stage=stage,
        reason=reason,
        message=message,
        location=source.video,
        key=key,
        at=utc_now(),
    )


def _guarded(source: Source, stage: str, run: Callable[[], StageResult], key: str = "") -> StageResult:
    """Run a stage; turn any failure into a row of this source, so that no other source is harmed.

    Raises
    ------
    UserInputError, PrerequisiteError
        Not a fault of the source: the whole build cannot continue.
    """
    try:
        return run()
    except Exception as problem:  # noqa: BLE001 - kept as a row
        reason, message = _reason(problem)
        if reason is Reason.INTERNAL_ERROR and not isinstance(problem, SlvmevalError):
            log.error("%s of %s failed:\n%s", stage, source.title, traceback.format_exc())
        return StageResult(source.id, stage, rows=(source_row(source, stage, reason, message, key),))


def _reason(problem: Exception) -> tuple[Reason, str]:
    """Return why a source cannot be used, or raise the error if it concerns all of them."""
    known = isinstance(problem, SetAside) and problem.reason in TRANSIENT_REASONS
    if is_away(problem) and not known:
        return Reason.STORAGE_AWAY, f"the file system does not answer: {problem}"
    match problem:
        case SetAside():
            return problem.reason, problem.message
        case IntegrityError():
            return Reason.CHECKSUM_MISMATCH, str(problem)
        case UserInputError() | PrerequisiteError():
            raise problem
        case SlvmevalError():
            return Reason.INTERNAL_ERROR, str(problem)
    return Reason.INTERNAL_ERROR, f"{type(problem).__name__}: {problem}"
