"""What a build is asked to do."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, field_validator

from storage_schemas.model import Frozen
from storage_schemas.model_server import ModelServer
from tasks.aspects.base import Pool
from tasks.recipe import Recipe

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class SourceRoot(Frozen):
    """One data set: the kind of its adapter, its folder, and options of the adapter."""

    kind: str = "folder"
    path: str
    options: dict[str, Any] = Field(default_factory=dict)


class BuildOptions(Frozen):
    """What to build, from what, and where it is kept.

    Parameters
    ----------
    store
        Folder of the store; made if it is missing.
    sources
        The data sets.
    release
        Name of the release; a new version extends the newest one of the same name.
    models
        Folders in which weights are looked for.
    fresh
        Extend nothing: draw all candidates anew.
    retry
        Try again what failed in earlier builds.
    settle_s
        Leave files alone that changed less than this many seconds ago.
    quota_bytes
        Most bytes the store may have, or None.
    placement
        Worker pools of single aspects, in place of those that their operations ask for.
    allow_cpu_models
        Whether work of the pool ``h100`` may run on a worker that sees no GPU.
    model_servers
        Model servers by the names that recipes use.
    """

    store: str
    sources: tuple[SourceRoot, ...]
    recipe: Recipe
    release: str = "main"
    models: tuple[str, ...] = ()
    fresh: bool = False
    retry: bool = False
    settle_s: float = 0.0
    quota_bytes: int | None = None
    placement: dict[str, Pool] = Field(default_factory=dict)
    allow_cpu_models: bool = False
    model_servers: dict[str, ModelServer] = Field(default_factory=dict)

    @field_validator("release")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("a release's name is letters, digits, '.', '_' and '-', at most 64")
        return value
