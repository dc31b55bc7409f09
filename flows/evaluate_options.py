"""What an evaluation is asked to do."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from storage_schemas.model import Frozen
from storage_schemas.model_server import ModelServer
from storage_schemas.store import Store
from tasks.evaluators.chosen import Chosen
from tasks.evaluators.meta_sets.provider import MetaSetPairs
from tasks.evaluators.proxy_study import ProxyPairs
from tasks.evaluators.release_pairs import Selection
from tasks.evaluators.setup import Setup
from tasks.evaluators.spending import Limits


class EvaluateOptions(Frozen):
    """Which evaluators judge which pairs, and what they may take.

    Parameters
    ----------
    store
        Folder of the store.
    release, version
        The release; without a name the only one, without a version the newest.
    pairs_from
        Other pairs in place of a release's: another people's set, a user's own, the proxy study's.
    evaluators
        Who judges.
    selection
        Which pairs.
    repeats
        How often each request is made.
    retry
        Make those again too that failed for a reason that lies with the evaluator.
    limits
        Most dollars and tokens.
    prices, descriptions
        A price list, and a folder with texts on aspects, in place of ours.
    models, model_servers, allow_cpu_models
        As the profile says.
    """

    store: str
    evaluators: tuple[Chosen, ...]
    release: str | None = None
    version: int | None = None
    pairs_from: MetaSetPairs | ProxyPairs | None = Field(default=None, discriminator="kind")
    selection: Selection = Selection()
    repeats: int = Field(default=1, ge=1, le=1000)
    retry: bool = False
    limits: Limits = Limits()
    prices: str | None = None
    descriptions: str | None = None
    models: tuple[str, ...] = ()
    model_servers: dict[str, ModelServer] = Field(default_factory=dict)
    allow_cpu_models: bool = False

    def open_store(self) -> Store:
        """Open the store; where no release of it is judged, it need not be there before.

        Raises
        ------
        StoreError
            If there is none, or the folder is something else.
        """
        root = Path(self.store)
        return Store.open(root) if self.pairs_from is None else Store.create(root)

    @property
    def setup(self) -> Setup:
        """What evaluators are made with."""
        return Setup(store_path=self.store, model_folders=self.models, model_servers=self.model_servers)
