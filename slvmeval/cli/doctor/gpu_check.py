"""``slvmeval doctor --gpu``: load a recipe's models where a build would, and measure their speed."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from flows.parameters import RARE, Given, ModelFolders, SiteParameters
from slvmeval.cli import terminal
from storage_schemas.sizes import size_text

if TYPE_CHECKING:
    from infra.profile import Profile
    from tasks.pairs.gpu_check import CheckedAspect, GpuCheckReport, GpuCheckRequest

#: Time limit of the job: verifying and loading 60 GB from a slow file system is most of it.
WALLTIME = "00:30:00"
#: Seconds within which SLURM ends a job that exceeds its time limit.
SLURM_ENDS_S = 120.0


class GpuCheckParameters(SiteParameters):
    """Options of the GPU check."""

    gpu: bool = Field(
        default=False,
        description="Load a recipe's models on a GPU, degrade a short drawn clip with each, and measure "
        "time and "
        "memory, which `slvmeval build --dry-run` then uses.",
    )
    recipe: Annotated[str | None, Given(metavar="NAME|FILE")] = Field(
        default=None,
        description="Recipe to check; by default that of the store's newest release, else cpu-approx, "
        "with --gpu paper.",
    )
    changes: Annotated[tuple[str, ...], Given(("--set",), "KEY=VALUE", RARE)] = Field(
        default=(), description="Changed value of that recipe."
    )
    direct: Annotated[bool, Given(panel=RARE)] = Field(
        default=False, description="With --gpu: check this machine even if the profile has a GPU pool."
    )
    pool: terminal.GpuPoolOption = ""
    max_wait: Annotated[float | None, Given(metavar="SECONDS", by_set=True)] = Field(
        default=None, ge=1, description="Longest wait of a job for a node; by default 120, with --gpu 600."
    )
    model_folders: ModelFolders = ()
    output: terminal.FormatOption = "table"


def gpu_check(options: GpuCheckParameters) -> None:
    """Load each model of a recipe on a GPU, degrade a short drawn clip with it, and measure time and memory.

    It runs as a job in one of the profile's GPU pools, with the aspects that a build processes there, or on
    this machine if there is no such pool. The measured speeds are saved in the store's folder `speeds`.

    Exit codes: 0 everything was measured; 1 a model is missing, fails or does not fit; 3 the drawn clip
    could not be degraded for some aspect, so its speed is unknown.
    """
    from flows.release.options import recipe_with
    from storage_schemas.store import Store
    from tasks.pairs.gpu_check import GpuCheckRequest, check_gpu

    site = options.site()
    checked = recipe_with(options.recipe or "paper", options.changes)
    store = Store.create(Path(site.store).expanduser().resolve()).root
    in_job = not options.direct and (bool(options.pool) or any(one.gpus for one in site.pools.values()))
    request = GpuCheckRequest(
        store=str(store),
        recipe=checked,
        model_folders=tuple(str(Path(folder).expanduser().resolve()) for folder in site.model_folders),
        placement=site.work_placement if in_job else site.work_placement.here(),
        allow_cpu_models=site.allow_cpu_models,
        pool=site.gpu_pool("to check", options.pool) if in_job else "",
    )
    report = (
        _in_a_job(site, request, 600.0 if options.max_wait is None else options.max_wait)
        if in_job
        else check_gpu(request, terminal.tell)
    )
    terminal.show(
        options.output, report.model_dump(), *([lambda: _print(report)] if not report.problem else [])
    )
    if report.problem:
        terminal.tell(f"error: {report.problem}")
    if report.failed:
        raise typer.Exit(terminal.FAILED)
    if any(aspect.problem for aspect in report.aspects):
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _in_a_job(site: Profile, request: GpuCheckRequest, wait_s: float) -> GpuCheckReport:
    """Run the check as a job with one GPU of its pool, in place of a worker."""
    from infra.pool import seconds_of
    from infra.slurm.node_calls import MARK, NodeProgram, run_on_nodes
    from infra.slurm.run_folder import log_folder, make_log_folder
    from storage_schemas.errors import PrerequisiteError
    from tasks.pairs.gpu_check import GpuCheckReport

    store, pool = Path(request.store), site.pools[request.pool].share(1)
    pool = pool.model_copy(update={"walltime": min((WALLTIME, pool.walltime), key=seconds_of)})
    site = site.model_copy(update={"pools": {**site.pools, request.pool: pool}})
    make_log_folder(site, store)
    name = f"gpu-check-{secrets.token_hex(4)}"
    log = log_folder(site, store) / f"slvmeval-{name}.log"
    arguments = ("-m", "tasks.pairs.gpu_check", MARK)
    program = NodeProgram(request.pool, name, arguments, request.model_dump_json(), log)
    terminal.tell(f"log: {log}")
    run_s = seconds_of(pool.walltime) + SLURM_ENDS_S
    (came,) = run_on_nodes(site, [program], store, wait_s=wait_s, run_s=run_s, tell=terminal.tell)
    if came.answer is None:
        raise PrerequisiteError(came.problem)
    return GpuCheckReport.model_validate_json(json.dumps(came.answer))


def _print(report: GpuCheckReport) -> None:
    gpus = ", ".join(report.gpus) or "no GPU"
    memory = f" of {size_text(report.gpu_bytes)}" if report.gpu_bytes else ""
    job = f", job {report.job}" if report.job else ""
    terminal.say(f"checked:   {report.host}{job}, {gpus}{memory}, in {report.seconds:.0f} s")
    models = [
        (one.name, f"{one.verify_s:.1f}", f"{one.load_s:.1f}", one.device, one.dtype or "-")
        for one in report.models
    ]
    columns = ("model", "verified in s", "loaded in s", "device", "dtype")
    terminal.say(terminal.Grid("models", columns, models, numbers=2))
    rows = [_row(aspect) for aspect in report.aspects]
    heads = ("aspect", "frames", "s a frame", "peak memory", "pool", "device", "operation", "batches", "")
    terminal.say(terminal.Grid("clips", heads, rows, numbers=3))
    for aspect in report.aspects:
        if aspect.note:
            terminal.say(f"note:      {aspect.aspect}: {aspect.note}")
    for aspect in report.aspects:
        if aspect.problem:
            terminal.say(f"problem:   {aspect.aspect} ({', '.join(aspect.models)}): {aspect.problem}")
    if report.speeds_file:
        terminal.say(f"speeds:    {report.speeds_file}; `slvmeval build --dry-run` uses them")


def _row(aspect: CheckedAspect) -> tuple[Any, ...]:
    made = aspect.frame_s is not None
    batches = [
        f"{role} {', '.join(map(str, facts['batch_sizes']))}"
        for role, facts in aspect.ran.items()
        if isinstance(facts, dict) and "batch_sizes" in facts
    ]
    return (
        aspect.aspect,
        aspect.frames if made else "-",
        f"{aspect.frame_s:.3g}" if made else "-",
        size_text(aspect.peak_bytes) if aspect.peak_bytes else "-",
        aspect.pool,
        aspect.device,
        aspect.operation,
        "; ".join(batches) or "-",
        "ok" if made else "not made",
    )
