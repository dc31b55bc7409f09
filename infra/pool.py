"""A worker pool of a cluster: resources and number of its SLURM jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from pydantic import Field, field_validator, model_validator

from infra.executor import WorkerLimits
from storage_schemas.model import Frozen
from storage_schemas.names import NAME_RULE, is_name
from storage_schemas.placement import Hardware

_WALLTIME = re.compile(r"(?:(\d+)-)?(\d{1,3}):([0-5]\d):([0-5]\d)")


def resource_of(pool: str) -> str:
    """Return the Dask resource of a pool's workers; each has one unit and processes one item at a time."""
    return f"pool-{pool}"


def seconds_of(walltime: str) -> int:
    """Return a time limit of SLURM, ``HH:MM:SS`` or ``D-HH:MM:SS``, in seconds.

    Raises
    ------
    ValueError
        If the format is not valid.
    """
    match = _WALLTIME.fullmatch(walltime)
    if match is None:
        raise ValueError(f"write a time as HH:MM:SS or D-HH:MM:SS, not {walltime!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@runtime_checkable
class WorkerPools(Protocol):
    """A cluster whose number of workers varies by pool."""

    def room(self, pool: str, wanted: int) -> int:
        """Record that `wanted` items are in flight or waiting; return how many may be in flight now."""

    def limits(self, pool: str) -> WorkerLimits:
        """Return the maximum number of workers of a pool, and how long an item may take."""

    def state(self) -> dict[str, dict[str, Any]]:
        """Return the number of jobs and workers of each pool."""


class Pool(Frozen):
    """One pool of a profile, such as ``[pools.cpu]``, or with GPUs ``[pools.h100]``."""

    partition: str = Field(
        description="Partition of the jobs; if there are several ('a,b' or a list), SLURM uses the first "
        "with a free node.",
        json_schema_extra={"type": ["string", "array"]},
    )
    cores: int = Field(ge=1, description="Cores of one job.")
    memory: str = Field(description="Memory of one job, such as '64GiB'.")
    walltime: str = Field(description="Time limit of one job, HH:MM:SS or D-HH:MM:SS.")
    gpus: int = Field(default=0, ge=0, description="GPUs of one job; each gets its own worker process.")
    gres: str = Field(
        default_factory=lambda: "gpu",
        description="SLURM's name of the GPU type; defaults to 'gpu:' and the pool's name.",
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        description="Worker processes of one job; defaults to its GPUs, or else its cores.",
    )
    minimum: int = Field(default=0, ge=0, description="Jobs kept while a build runs, even if idle.")
    maximum: int = Field(default=1, ge=1, description="Maximum number of jobs.")
    account: str | None = Field(default=None, description="Account (project) to charge.")
    qos: str | None = Field(default=None, description="Quality of service.")
    reservation: str | None = Field(default=None, description="Reservation of the site to use.")
    constraint: str | None = Field(default=None, description="Required features of the nodes.")
    directives: tuple[str, ...] = Field(
        default=(), description="Additional options of sbatch, such as '--exclude=n13'."
    )
    setup: tuple[str, ...] = Field(
        default=(), description="Shell lines before the worker starts, such as 'module load cuda'."
    )
    scratch: str | None = Field(
        default=None,
        description="Folder on the node; jobs create private ones in it for temporary files.",
    )
    interface: str | None = Field(default=None, description="Network interface of the nodes, such as 'ib0'.")
    python: str | None = Field(
        default=None, description="Python interpreter on the nodes; defaults to the current one."
    )
    longest_item: str = Field(
        default="00:30:00",
        description="Workers with less remaining time than this get no new work, HH:MM:SS.",
    )
    idle_s: float = Field(default=60.0, ge=0, description="Idle time after which a job is ended, seconds.")

    @field_validator("walltime", "longest_item")
    @classmethod
    def _time(cls, value: str) -> str:
        seconds_of(value)
        return value

    @field_validator("memory")
    @classmethod
    def _bytes(cls, value: str) -> str:
        try:
            _parsed_bytes(value)
        except ValueError as problem:
            raise ValueError("write an amount of memory such as '64GiB'") from problem
        return value

    @field_validator("partition", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
            return ",".join(value)
        return value

    @field_validator("partition", "account", "qos", "reservation", "constraint", "gres")
    @classmethod
    def _one_word(cls, value: str | None) -> str | None:
        # they become part of a line in the job script
        if value is not None and (not value or any(c.isspace() for c in value)):
            raise ValueError("it must be one word, without spaces")
        return value

    @field_validator("directives", "setup")
    @classmethod
    def _lines(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("\n" in line for line in value):
            raise ValueError("give each line as a separate item")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Pool:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum ({self.minimum}) is more than maximum ({self.maximum})")
        if self.processes > self.cores:
            raise ValueError(f"{self.processes} workers need as many cores; the job has {self.cores}")
        if self.gpus and self.processes != self.gpus:
            raise ValueError(f"each GPU has one worker: gpus = {self.gpus}, workers = {self.workers}")
        if self.gres != "gpu" and not self.gpus:
            raise ValueError(f"gres is {self.gres}, but there are no GPUs: set gpus to the number per job")
        if 2 * seconds_of(self.longest_item) > seconds_of(self.walltime):
            raise ValueError(
                f"longest_item ({self.longest_item}) is more than half of walltime ({self.walltime}): "
                "workers would rarely get work"
            )
        return self

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions."""
        return tuple(self.partition.split(","))

    @property
    def hardware(self) -> Hardware:
        """Hardware of its workers."""
        return "gpu" if self.gpus else "cpu"

    @property
    def processes(self) -> int:
        """Number of worker processes of one job."""
        return self.workers or self.gpus or self.cores

    @property
    def limits(self) -> WorkerLimits:
        """Maximum number of workers, and maximum seconds of an item."""
        return WorkerLimits(self.maximum * self.processes, seconds_of(self.longest_item))

    def share(self, gpus: int) -> Pool:
        """Return a pool whose jobs have `gpus` GPUs, and cores and memory in proportion."""
        part = gpus / max(self.gpus, 1)
        return self.model_copy(
            update={
                "gpus": gpus,
                "workers": None,
                "cores": max(1, int(self.cores * part)),
                "memory": f"{int(self.memory_bytes * part)}B",
            }
        )

    @property
    def memory_bytes(self) -> int:
        """Memory of one job in bytes."""
        return _parsed_bytes(self.memory)


def _parsed_bytes(amount: str) -> int:
    """Return an amount of memory in bytes, parsed as Dask does; only pools of a cluster have one."""
    from dask.utils import parse_bytes

    return int(parse_bytes(amount))


def named_pools(pools: Mapping[str, Pool]) -> dict[str, Pool]:
    """Return the pools of a profile, each with its GPU type.

    Raises
    ------
    ValueError
        If a name is not valid, or there is no pool for most of the work.
    """
    for name in pools:
        if not is_name(name):
            raise ValueError(f"a pool's name must have {NAME_RULE}: {name!r} is not valid")
    if pools and all(pool.gpus for pool in pools.values()):
        raise ValueError("a cluster needs a pool without GPUs, such as [pools.cpu], for most of the work")
    return {
        name: pool.model_copy(update={"gres": f"gpu:{name}"})
        if pool.gpus and "gres" not in pool.model_fields_set
        else pool
        for name, pool in pools.items()
    }
