"""Resources for making evaluators: store, model folders and model servers, opened once per process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from storage_schemas.model import Frozen, ModelServer
from storage_schemas.store import Store

if TYPE_CHECKING:
    from tasks.llm.servers import Servers
    from tasks.models.base import Models
    from tasks.scoring.features import FeatureCache


class Setup(Frozen):
    """The resources of a site; it may be sent to other processes.

    Parameters of an evaluator's factory named ``setup``, or like one of the properties below, are provided;
    the others are its settings.

    Parameters
    ----------
    store_path
        Folder of the store.
    model_folders
        Model folders.
    model_servers
        Model servers by name.
    prompts
        The user's folder of prompts; empty for ours.
    """

    store_path: str
    model_folders: tuple[str, ...] = ()
    model_servers: Mapping[str, ModelServer] = Field(default_factory=dict)
    prompts: str = ""

    @cached_property
    def store(self) -> Store:
        """The store."""
        return Store.open(Path(self.store_path))

    @cached_property
    def cache(self) -> FeatureCache:
        """Cache of frame features."""
        from tasks.scoring.features import FeatureCache

        return FeatureCache.of(self.store)

    @cached_property
    def servers(self) -> Servers:
        """The model servers."""
        from tasks.llm.servers import Servers

        return Servers(self.model_servers, Path(self.store_path))

    @cached_property
    def models(self) -> Models:
        """The models of this process."""
        from tasks.pairs.stages import model_hub

        return model_hub(self.model_folders)

    def __getstate__(self) -> dict[object, object]:
        """Exclude cached properties, which belong to this process."""
        state = super().__getstate__()
        fields = {name: value for name, value in state["__dict__"].items() if name in type(self).model_fields}
        return {**state, "__dict__": fields}


#: Parameters of a factory that are provided.
PROVIDED = ("store", "cache", "servers", "models", "prompts")
