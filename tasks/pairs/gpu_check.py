"""A check of a site's GPUs: load each model of a recipe, degrade a drawn clip, and measure time and memory.

``python -m tasks.pairs.gpu_check MARK`` is the same check as a job runs it: it reads the request from its
standard input, and prints the report in a line after MARK.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from storage_schemas.errors import IntegrityError, PrerequisiteError, SlvmevalError, UserInputError
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.model import Frozen
from storage_schemas.placement import Placement
from storage_schemas.provenance import utc_now
from storage_schemas.sizes import size_text
from tasks.aspects.base import ClipContext, ClipNotDegradable, ClipSpan, PixelOperation
from tasks.aspects.drawn_clip import FULL_ANALYSIS, synthetic_clip
from tasks.aspects.speeds import Speed, time_fields, write_speeds
from tasks.media.planes import planes_to_rgb, rgb_to_planes
from tasks.models.base import Models
from tasks.models.device import device_of, free_bytes, is_out_of_memory, require_gpu, visible_gpus
from tasks.models.hub import BACKGROUNDS, ModelCheck, ModelHub
from tasks.models.residence import residence
from tasks.pairs.stages import model_hub
from tasks.recipe import Recipe

log = logging.getLogger(__name__)

#: Frames of the drawn clip; two for operations that take one frame at a time, as those take long.
FRAMES = 16
SLOW_FRAMES = 2


class GpuCheckRequest(Frozen):
    """What to check: a recipe's operations with models, in the pools where a build runs them.

    Parameters
    ----------
    store
        Folder of the store, which gets the speeds.
    recipe, model_folders, placement, allow_cpu_models
        As in :class:`~tasks.pairs.stages.BuildWork`.
    pool
        The GPU pool that is checked: what runs in another one is left out. All are checked if it is empty.
    """

    store: str
    recipe: Recipe
    model_folders: tuple[str, ...]
    placement: Placement = Placement()
    allow_cpu_models: bool = False
    pool: str = ""


class CheckedModel(Frozen):
    """A model that was loaded: on which device, in which dtype, how long it took to verify and to load."""

    name: str
    device: str
    dtype: str
    verify_s: float
    load_s: float


class CheckedAspect(Frozen):
    """One aspect's clip.

    Parameters
    ----------
    aspect, operation, pool, device
        What ran where; `device` is ``cpu`` or ``cuda``.
    frames, frame_s
        Frames of the clip, and seconds per frame with the models loaded and warm; None if it was not made.
    peak_bytes
        Maximum memory meanwhile: of the GPU, or resident memory of the process where it ran on the CPU.
    models
        Names of its models.
    ran
        Execution details by model: device, dtype, batch sizes.
    note
        What to know about the figure; empty if nothing.
    problem
        Why the clip could not be made; empty if it was.
    blocked
        Whether the problem would stop a build as well, not only this drawn clip.
    """

    aspect: str
    operation: str
    pool: str
    device: str
    frames: int = 0
    frame_s: float | None = None
    peak_bytes: int | None = None
    models: tuple[str, ...] = ()
    ran: dict[str, Any] = Field(default_factory=dict)
    note: str = ""
    problem: str = ""
    blocked: bool = False


class GpuCheckReport(Frozen):
    """What a check found.

    Parameters
    ----------
    host, job, at
        The machine, its SLURM job (empty without one), and the time in UTC.
    gpus, gpu_bytes
        Names of the visible GPUs, and the memory of the first; None without one.
    seconds
        Duration of the whole check.
    models, aspects
        What was loaded and made.
    speeds_file
        Path of the measured speeds; empty if there are none.
    problem
        Why nothing was checked; empty if something was.
    """

    host: str = Field(default_factory=socket.gethostname)
    job: str = Field(default_factory=lambda: os.environ.get("SLURM_JOB_ID", ""))
    at: str = Field(default_factory=utc_now)
    gpus: tuple[str, ...] = ()
    gpu_bytes: int | None = None
    seconds: float = 0.0
    models: tuple[CheckedModel, ...] = ()
    aspects: tuple[CheckedAspect, ...] = ()
    speeds_file: str = ""
    problem: str = ""

    @property
    def failed(self) -> bool:
        """Whether a build would fail here as well."""
        return bool(self.problem) or any(aspect.blocked for aspect in self.aspects)


@dataclass(frozen=True)
class _Task:
    """An aspect to check: its operation, parameters, pool, and the names of its models."""

    aspect: str
    operation: PixelOperation[Any]
    parameters: Any
    pool: str
    device: str
    models: tuple[str, ...]


def check_gpu(request: GpuCheckRequest, tell: Callable[[str], None] = lambda line: None) -> GpuCheckReport:
    """Load the recipe's models, make one clip of each aspect that uses some, and store the speeds.

    Parameters
    ----------
    request
        What to check.
    tell
        Called with lines of progress.

    Raises
    ------
    PrerequisiteError
        If weights are missing or no GPU is visible; the message says what to do.
    IntegrityError, UserInputError
        If weights are damaged, or something else than the recipe's model.
    """
    began = time.monotonic()
    tasks = _tasks(request)
    if any(request.placement.known[task.pool] == "gpu" for task in tasks) and not request.allow_cpu_models:
        require_gpu()
    verified: dict[str, float] = {}
    for name in dict.fromkeys(name for task in tasks for name in task.models):
        tell(f"verifying the checksums of {name}")
        started = time.monotonic()
        ModelHub([Path(folder) for folder in request.model_folders]).consumed(name)
        verified[name] = time.monotonic() - started
    first_load = len(residence().loaded)
    aspects = []
    for task in tasks:
        tell(f"{task.aspect}: {', '.join(task.models)} on {task.device}")
        aspects.append(_checked(task, request))
    report = GpuCheckReport(
        gpus=visible_gpus(),
        gpu_bytes=_gpu_bytes(),
        models=tuple(
            CheckedModel(
                name=one.name,
                device=one.device,
                dtype=one.dtype,
                verify_s=round(verified.get(one.name, 0.0), 2),
                load_s=round(one.seconds, 2),
            )
            for one in residence().loaded[first_load:]
        ),
        aspects=tuple(aspects),
    )
    rows = _speeds(request, tasks, report)
    path = str(write_speeds(Path(request.store), _file_name(report), rows)) if rows else ""
    seconds = round(time.monotonic() - began, 1)
    return report.model_copy(update={"speeds_file": path, "seconds": seconds})


def _tasks(request: GpuCheckRequest) -> list[_Task]:
    """Return the recipe's operations that use models; all missing models are one error."""
    recipe = request.recipe
    check = ModelCheck([Path(folder) for folder in request.model_folders], quick=True)
    tasks, elsewhere = [], []
    for aspect in recipe.aspects:
        operation, parameters = recipe.operation(aspect), recipe.parameters(aspect)
        models = tuple(operation.consumed_models(parameters, check))
        if models and isinstance(operation, PixelOperation):
            pool = request.placement.pool(operation.hardware, aspect)
            hardware = request.placement.known[pool]
            if hardware == "gpu" and request.pool not in ("", pool):
                elsewhere.append(f"{aspect} in {pool}")
                continue
            tasks.append(_Task(aspect, operation, parameters, pool, device_of(hardware), models))
    check.raise_problems()
    if not tasks:
        why = f" in pool {request.pool}, but {', '.join(elsewhere)}" if elsewhere else ""
        raise UserInputError(f"recipe {recipe.name} uses no models{why}: there is nothing to check")
    return tasks


def _checked(task: _Task, request: GpuCheckRequest) -> CheckedAspect:
    """Make one aspect's clip twice, and measure the second time; a failure becomes its problem."""
    about = CheckedAspect(
        aspect=task.aspect,
        operation=task.operation.name,
        pool=task.pool,
        device=task.device,
        models=task.models,
    )
    hub = model_hub(request.model_folders, task.device)
    short = _short_of_memory(task, hub)
    if short:
        return about.model_copy(update={"problem": short, "blocked": True})
    frames = SLOW_FRAMES if task.operation.frames_at_once == 1 else FRAMES
    side = request.recipe.long_side
    planes = synthetic_clip(frames, max(side * 9 // 64 * 4, 16), side // 2 * 2)
    try:
        with peak_memory(task.device) as peak:
            _make(task, task.parameters, hub, planes)  # loads the models, and warms them up
            started = time.monotonic()
            made, note = _make(task, task.parameters, hub, planes)
            seconds = time.monotonic() - started
    except ClipNotDegradable as problem:
        return about.model_copy(update={"problem": f"the drawn clip cannot be degraded: {problem}"})
    except (PrerequisiteError, IntegrityError, UserInputError) as problem:
        return about.model_copy(update={"problem": str(problem), "blocked": True})
    except Exception as problem:
        log.exception("%s", task.aspect)
        what = "out of memory" if is_out_of_memory(problem) else type(problem).__name__
        return about.model_copy(update={"problem": f"{what}: {problem}", "blocked": True})
    return about.model_copy(
        update={
            "frames": frames,
            "frame_s": round(seconds / frames, 5),
            "peak_bytes": peak(),
            "ran": made,
            "note": note,
        }
    )


def _make(task: _Task, parameters: Any, hub: Models, planes: Planes) -> tuple[dict[str, Any], str]:
    """Degrade the clip; return what the operation recorded of its models, and a note.

    A detector that does not find the drawn ball is given thresholds of 0, so that every step is timed.
    """
    operation, note = task.operation, ""
    clip = ClipContext(
        span=ClipSpan(0, 0, len(planes)),
        color=ColorSpec(),
        analysis=FULL_ANALYSIS,
        seed=(0, "doctor", "--gpu", task.aspect),
        models=hub,
        read=lambda first, count: planes[first : first + count],
    )
    try:
        choice = operation.choose(clip, parameters)
    except ClipNotDegradable as problem:
        thresholds = [name for name in type(parameters).model_fields if name.endswith("_threshold")]
        if not thresholds:
            raise
        note = f"{problem}: timed with thresholds of 0"
        parameters = parameters.model_copy(update=dict.fromkeys(thresholds, 0.0))
        choice = operation.choose(clip, parameters)
    changed = 0
    for first in range(0, len(planes), operation.frames_at_once):
        before = planes[first : first + operation.frames_at_once]
        if operation.works_on == "rgb":
            rgb = planes_to_rgb(before, clip.color)
            after = rgb_to_planes(operation.apply(rgb, first, clip, parameters, choice), clip.color)
        else:
            after = operation.apply(before, first, clip, parameters, choice)
        changed += int((after != before).any(axis=(1, 2)).sum())
    if not changed:
        raise ClipNotDegradable("no frame was changed")
    try:
        operation.settle(changed, len(planes), parameters, clip)
    except ClipNotDegradable as problem:
        note = "; ".join(filter(None, (note, f"a build would not take the drawn clip: {problem}")))
    return clip.log.facts, note


def _short_of_memory(task: _Task, hub: ModelHub) -> str:
    """Return which model does not fit into main memory while it is loaded; empty if all do.

    Without this, the system would end the process without a message.
    """
    free = main_memory_free()
    for name in task.models:
        if name.startswith(BACKGROUNDS):
            continue
        found = hub.glance(name)
        needed = found.memory_bytes if task.device == "cpu" else found.size
        if free is not None and needed > free:
            return (
                f"model {name} needs {size_text(needed)} of main memory while it is loaded, but "
                f"{socket.gethostname()} has {size_text(free)} left for this process: give the pool more "
                f"(memory in [pools.{task.pool}]), or run where there is more"
            )
    return ""


def main_memory_free() -> int | None:
    """Return the bytes of main memory that this process may still take; None if unknown.

    The least of what the system has, what the control group leaves and what the SLURM job was given.
    """
    limits = []
    information = _fields(Path("/proc/meminfo"))
    if "MemAvailable" in information:
        limits.append(information["MemAvailable"] * 1024)
    job = os.environ.get("SLURM_MEM_PER_NODE", "")
    if job.isdigit() and int(job):
        limits.append(int(job) * 2**20 - _fields(Path("/proc/self/status")).get("RssAnon", 0) * 1024)
    group = Path("/sys/fs/cgroup")
    most = group / "memory.max"
    # only what cannot be given back: files just read for their checksums can
    used = _fields(group / "memory.stat")
    if most.is_file() and (limit := most.read_text(encoding="utf-8").strip()).isdigit():
        limits.append(int(limit) - used.get("anon", 0) - used.get("shmem", 0))
    return max(0, min(limits)) if limits else None


def _fields(path: Path) -> Mapping[str, int]:
    """Return the numbers of a file of ``Name: number …`` lines; none if the system has no such file."""
    if not path.exists():
        return {}
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


@contextmanager
def peak_memory(device: str) -> Iterator[Callable[[], int | None]]:
    """Yield a function that returns the maximum memory since the beginning, bytes; None if unknown.

    On a GPU: what torch's allocator held, or what the device lost where another library did the work.
    On the CPU: resident memory of this process.
    """
    if device == "cpu":
        reset = Path("/proc/self/clear_refs")
        # where this is not possible, the maximum is that of the whole process
        with suppress(OSError):
            reset.write_text("5", encoding="utf-8")
        yield lambda: _fields(Path("/proc/self/status")).get("VmHWM", 0) * 1024 or None
        return
    torch = _torch()
    if torch is None:
        yield lambda: None
        return
    torch.cuda.reset_peak_memory_stats()
    before = free_bytes(device) or 0

    def peak() -> int:
        now = free_bytes(device) or 0
        return max(int(torch.cuda.max_memory_reserved()), before - now)

    yield peak


def _torch() -> Any:
    """Return torch, if it is installed and sees a GPU."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch if torch.cuda.is_available() else None


def _gpu_bytes() -> int | None:
    torch = _torch()
    return int(torch.cuda.get_device_properties(0).total_memory) if torch is not None else None


def _speeds(request: GpuCheckRequest, tasks: list[_Task], report: GpuCheckReport) -> list[Speed]:
    """Return the rows for `slvmeval build --dry-run`: what was measured of operations in GPU pools."""
    rows = []
    for task, checked in zip(tasks, report.aspects, strict=True):
        if checked.frame_s is None or request.placement.known[task.pool] == "cpu":
            continue
        device = report.gpus[0] if checked.device == "cuda" else "CPU"
        rows.append(
            Speed(
                operation=task.operation.name,
                device=device,
                least_s=checked.frame_s,
                most_s=checked.frame_s,
                steps=getattr(task.parameters, "steps", None),
                only=time_fields(task.parameters, task.models),
                long_side=request.recipe.long_side,
                kind="measured",
                source=f"by `slvmeval doctor --gpu` on {report.host} ({device}), {report.at}",
            )
        )
    return rows


def _file_name(report: GpuCheckReport) -> str:
    at = "".join(character for character in report.at.split("+")[0] if character.isalnum())
    return f"{at}-{report.host}-{os.getpid()}"


def main(mark: str, asked: str) -> int:
    """Run the check that a request describes, and print its report; return 1 if a build would fail."""
    try:
        report = check_gpu(GpuCheckRequest.model_validate_json(asked), lambda line: print(line, flush=True))
    except SlvmevalError as problem:
        report = GpuCheckReport(gpus=visible_gpus(), problem=str(problem))
    print(mark + report.model_dump_json(), flush=True)
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.stdin.read()))
