"""The profile: the settings of a site, which determine where and how a build runs, but not its content.

A profile is not part of any id, so sites with different profiles build the same pairs. The command line
takes precedence over the environment (``SLVMEVAL_STORE`` etc.), and the environment over the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from infra.pool import Pool, named_pools
from storage_schemas.errors import UserInputError, did_you_mean
from storage_schemas.model import Frozen, ModelServer
from storage_schemas.placement import Placement, known_pool
from storage_schemas.regular_files import read_regular_text
from storage_schemas.secrets import know_address
from storage_schemas.user import cache_folder
from storage_schemas.value_problems import value_problem

#: Prefix of environment variables: ``SLVMEVAL_`` and a field's name in upper case.
ENVIRONMENT_PREFIX = "SLVMEVAL_"
#: Environment variable with the path of the profile file.
PROFILE_VARIABLE = "SLVMEVAL_PROFILE"


#: Lists and tables, which a variable cannot contain (`model_folders` is a list of folders, as in ``PATH``).
_ONLY_IN_FILES = ("sources", "pools", "placement", "model_servers")


def default_model_folder() -> str:
    """Return the model folder in the user's cache; without one, ``slvmeval-models`` in the working folder."""
    cache = cache_folder()
    return str(Path("slvmeval-models").absolute() if cache is None else cache / "models")


def default_workers() -> int:
    """Return the number of cores that this process may use."""
    # macOS has no affinity
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Profile(Frozen):
    """Where a build runs and which resources it may use.

    Examples
    --------
    A file ``site.toml``; its paths are relative to its own folder::

        name = "lab"
        store = "/data/slvmeval"
        model_folders = ["/data/models"]
        workers = 16
        quota_bytes = 2_000_000_000_000
    """

    name: str = Field(default="default", description="Name of the site, for display.")
    store: str = Field(default="slvmeval-store", description="Folder of the store.")
    model_folders: tuple[str, ...] = Field(
        default_factory=lambda: (default_model_folder(),),
        description="Model folders; a model is taken from the first that contains it.",
    )
    workers: int = Field(
        default_factory=default_workers, ge=1, description="Number of sources processed at once."
    )
    quota_bytes: int | None = Field(default=None, ge=0, description="Maximum bytes of the store.")
    settle_s: float = Field(
        default=0.0, ge=0, description="Ignore files that changed less than this many seconds ago."
    )
    store_wait_s: float = Field(
        default=300.0,
        ge=0,
        description="Maximum time for which a build waits for a store that is read-only or missing, seconds.",
    )
    release: str = Field(default="main", description="Name of the release.")
    sources: tuple[str, ...] = Field(default=(), description="Default data sets of a build, each KIND:PATH.")
    gallery: str | None = Field(
        default=None, description="Folder of the gallery written by scheduled builds."
    )
    gallery_url: str | None = Field(default=None, description="Address at which that folder is served.")
    prefect_api_url: str | None = Field(
        default=None,
        description="Prefect server, such as 'http://head:4200/api'; an embedded one by default.",
    )
    pools: dict[str, Pool] = Field(
        default_factory=dict,
        description="Worker pools made of SLURM jobs, by name; without pools, this machine is used.",
    )
    placement: dict[str, str] = Field(
        default_factory=dict,
        description="Pools by aspect, evaluator or 'SUITE:DIMENSION'; other work runs in the first pool "
        "with the hardware it needs. Without pools, 'cpu' or 'gpu'.",
    )
    allow_cpu_models: bool = Field(
        default=False, description="Allow work of GPU pools on workers without a GPU; for tests."
    )
    job_logs: str | None = Field(
        default=None, description="Folder of the jobs' logs, visible to the nodes; in the store by default."
    )
    scheduler_interface: str | None = Field(
        default=None, description="Network interface of this machine's scheduler, such as 'ib0'."
    )
    dashboard_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port of the Dask dashboard on loopback, for all users of this machine; 0 selects a free "
        "one. Without it there is no dashboard.",
    )
    poll_s: float = Field(default=10.0, gt=0, description="Seconds between queries of SLURM's jobs.")
    most_unfit_nodes: int = Field(
        default=3,
        ge=0,
        description="Maximum number of unfit nodes to leave out of a pool; with more, the run ends.",
    )
    model_servers: dict[str, ModelServer] = Field(
        default_factory=dict, description="OpenAI-compatible servers by name: a URL or a table."
    )

    _file: Path | None = PrivateAttr(default=None)

    @property
    def label(self) -> str:
        """Name of this profile in messages, with its path."""
        return f"profile {self._file}" if self._file is not None else "profile"

    @field_validator("pools")
    @classmethod
    def _named(cls, value: dict[str, Pool]) -> dict[str, Pool]:
        return named_pools(value)

    @model_validator(mode="after")
    def _placed_in_pools(self) -> Profile:
        where = self.work_placement
        for name, pool in self.placement.items():
            try:
                known_pool(pool, where.known, f"placement of {name}")
            except UserInputError as problem:
                raise ValueError(str(problem)) from problem
        return self

    @property
    def work_placement(self) -> Placement:
        """Where work runs."""
        return Placement(
            pools={name: pool.hardware for name, pool in self.pools.items()}, placed=self.placement
        )

    def gpu_pool(self, why: str, name: str = "") -> str:
        """Return the name of a GPU pool: the first, or the one of this name.

        Raises
        ------
        UserInputError
            If there is none; `why` is the purpose given in the message.
        """
        pools = [pool_name for pool_name, pool in self.pools.items() if pool.gpus]
        if name:
            return known_pool(name, pools, f"GPU pools of {self.label}")
        if not pools:
            raise UserInputError(
                f"{self.label} has no GPU pool {why}: add a table such as [pools.h100], or run the printed "
                "command yourself on a machine with a GPU"
            )
        return pools[0]

    @field_validator("prefect_api_url")
    @classmethod
    def _password_is_secret(cls, value: str | None) -> str | None:
        know_address(value or "", "password of the Prefect server")
        return value

    @field_validator("model_folders")
    @classmethod
    def _some_folder(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("name at least one folder")
        return value


def load_profile(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Profile:
    """Load the profile; `overrides` take precedence over the environment, then the file, then defaults.

    Parameters
    ----------
    path
        A TOML file; by default the one named by ``SLVMEVAL_PROFILE``, if any.
    overrides
        Values from the command line; None means not given.
    environment
        Environment variables; by default those of this process.

    Raises
    ------
    UserInputError
        If the file is missing or not TOML, or a key or value is not valid; the message names the location,
        the key and the allowed values.
    """
    variables = os.environ if environment is None else environment
    if path is None and variables.get(PROFILE_VARIABLE):
        path = Path(variables[PROFILE_VARIABLE])
    # origin of each value, for messages
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    if path is not None:
        for key, value in _read(path).items():
            values[key], origin[key] = value, f"profile {path}"
    for key in Profile.model_fields:
        variable = ENVIRONMENT_PREFIX + key.upper()
        if variables.get(variable) and key not in _ONLY_IN_FILES:
            text = variables[variable]
            values[key] = text.split(os.pathsep) if key == "model_folders" else text
            origin[key] = f"environment variable {variable}"
    for key, value in (overrides or {}).items():
        if value is not None:
            values[key], origin[key] = value, "command line"
    try:
        profile = Profile.model_validate(values)
        profile._file = path
        return profile
    except ValidationError as problem:
        raise UserInputError(_explained(problem, origin, path)) from problem


def _read(path: Path) -> dict[str, Any]:
    """Read a profile file, check its keys and make its paths absolute."""
    try:
        values = tomllib.loads(read_regular_text(path))
    except OSError as problem:
        raise UserInputError(f"profile {path}: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"profile {path} is not valid TOML: {problem}") from problem
    for key in values:
        if key not in Profile.model_fields:
            hint = did_you_mean(key, Profile.model_fields)
            raise UserInputError(
                f"profile {path}: unknown key {key!r}.{hint} Keys: {', '.join(Profile.model_fields)}"
            )
    for key in ("store", "gallery", "job_logs"):
        if isinstance(values.get(key), str):
            values[key] = _from(path, values[key])
    if isinstance(values.get("model_folders"), list):
        values["model_folders"] = [
            _from(path, m) if isinstance(m, str) else m for m in values["model_folders"]
        ]
    if isinstance(values.get("sources"), list):
        values["sources"] = [_source_from(path, s) if isinstance(s, str) else s for s in values["sources"]]
    return values


def _explained(problem: ValidationError, origin: Mapping[str, str], path: Path | None) -> str:
    """Describe the first invalid value: location, problem and allowed values."""
    first = problem.errors()[0]
    where = [str(part) for part in first["loc"] if part != "[key]"]
    source = origin.get(where[0], "profile") if where else f"profile {path or ''}".strip()
    message = value_problem(first)
    if first["type"] == "extra_forbidden":
        keys = ModelServer.model_fields if where[0] == "model_servers" else Pool.model_fields
        hint = did_you_mean(where[-1], keys)
        return f"{source}: {'.'.join(where)}: unknown key.{hint} Keys: {', '.join(keys)}"
    got = "" if isinstance(first["input"], dict | Profile | Pool) else f" (got {first['input']!r})"
    return f"{source}: {'.'.join(where) or 'values'}: {message}{got}"


def _from(profile: Path, value: str) -> str:
    """Return a path of a profile file, resolved against the file's folder."""
    return str(profile.resolve().parent / Path(value).expanduser())


def _source_from(profile: Path, text: str) -> str:
    """Return a data set ``KIND:PATH?OPTIONS`` of a profile file, resolved against the file's folder."""
    kind, colon, rest = text.partition(":")
    if not (colon and kind.isidentifier()):
        kind, colon, rest = "", "", text
    path, mark, options = rest.partition("?")
    return f"{kind}{colon}{_from(profile, path) if path else path}{mark}{options}"


def profile_schema() -> dict[str, Any]:
    """Return the JSON Schema of a profile."""
    schema = Profile.model_json_schema()
    schema["title"] = "SLVMEval profile"
    return schema
