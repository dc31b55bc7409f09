"""What evaluators are made with: store, model folders, model servers; each is opened once per process."""

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
    """What a site provides; it may be sent to other processes.

    A parameter of a factory named ``setup``, or like one of the properties below, is filled in; the others
    are settings.

    Parameters
    ----------
    store_path
        Folder of the store.
    model_folders
        Folders with the weights of models.
    model_servers
        Model servers by name.
    """

    store_path: str
    model_folders: tuple[str, ...] = ()
    model_servers: Mapping[str, ModelServer] = Field(default_factory=dict)

    @cached_property
    def store(self) -> Store:
        """The store."""
        return Store.open(Path(self.store_path))

    @cached_property
    def cache(self) -> FeatureCache:
        """Cached features of frames."""
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
        """Drop what belongs to this process."""
        state = super().__getstate__()
        fields = {name: value for name, value in state["__dict__"].items() if name in type(self).model_fields}
        return {**state, "__dict__": fields}


#: Parameters of a factory that are filled in.
PROVIDED = ("store", "cache", "servers", "models")
