"""Parameters and options of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from flows.parameters import (
    FlowParameters,
    ModelFolders,
    MostDollars,
    MostTokens,
    OwnPrompts,
    PriceList,
    RunOptions,
    Workers,
    full_or_none,
)
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from tasks.llm.limits import Limits
from tasks.scoring.judges.meta_sets.provider import MetaSetPairs, meta_set_from_text
from tasks.scoring.judges.meta_sets.proxy_study import ProxyPairs
from tasks.scoring.registry import EvaluatorChoice, choice_from_text, choices_from_file, factory
from tasks.scoring.release_pairs import Selection
from tasks.scoring.setup import Setup


class EvaluateOptions(RunOptions):
    """Which evaluators judge which pairs, and what they may take.

    Parameters
    ----------
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
    prices, prompts
        A price list, and a folder of prompts, in place of ours.
    model_folders, allow_cpu_models
        As the profile says.
    """

    evaluators: tuple[EvaluatorChoice, ...]
    release: str | None = None
    version: int | None = None
    pairs_from: MetaSetPairs | ProxyPairs | None = Field(default=None, discriminator="kind")
    selection: Selection = Selection()
    repeats: int = Field(default=1, ge=1, le=1000)
    retry: bool = False
    limits: Limits = Limits()
    prices: str | None = None
    prompts: str = ""
    model_folders: tuple[str, ...] = ()
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
        return Setup(
            store_path=self.store,
            model_folders=self.model_folders,
            model_servers=self.model_servers,
            prompts=self.prompts,
        )


class EvaluateParameters(FlowParameters):
    """Let evaluators judge the pairs of a release: only what was not asked before is asked.

    What is empty or 0 is as the profile says, or has no limit. Paths are absolute, on the machine of the
    Prefect worker.
    """

    paths_in: ClassVar[tuple[str, ...]] = ("evaluators_file", "prices", "prompts")

    evaluators: tuple[str, ...] = Field(
        default=(), description="Who judges, each NAME or NAME?key=value&key=value."
    )
    evaluators_file: str | None = Field(
        default=None, description="Path of a .toml file with evaluators and their settings."
    )
    release: str | None = Field(
        default=None, description="Name of the release; may be left out if there is one."
    )
    version: int | None = Field(
        default=None, ge=1, description="Version of the release; the newest by default."
    )
    pairs: str | None = Field(
        default=None, description="Other pairs in place of a release's, NAME:PATH, such as uve:/data/UVE."
    )
    pair_ids: tuple[str, ...] = Field(default=(), description="Only these pairs.")
    aspects: tuple[str, ...] = Field(default=(), description="Only pairs of these aspects.")
    strengths: tuple[str, ...] = Field(default=(), description="Only pairs of these severities.")
    clips: tuple[int, ...] = Field(default=(), description="Only pairs with so many degraded clips.")
    most_per_aspect: int | None = Field(
        default=None, ge=1, description="At most so many pairs of each aspect, drawn."
    )
    repeats: int = Field(default=1, description="How often each request is made.")
    retry: bool = Field(default=False, description="Ask again what an evaluator could not answer.")
    most_dollars: MostDollars = None
    most_tokens: MostTokens = None
    prices: PriceList = None
    prompts: OwnPrompts = None
    model_folders: ModelFolders = ()
    workers: Workers = None

    def paths(self) -> Mapping[str, Sequence[str]]:
        """Return the paths that are given, by field."""
        return {**super().paths(), **({"pairs": [self.pairs.partition(":")[2]]} if self.pairs else {})}

    def options(self, site: Profile, pairs_from: MetaSetPairs | ProxyPairs | None = None) -> EvaluateOptions:
        """Return what an evaluation of this does.

        Parameters
        ----------
        pairs_from
            Pairs that no text names, such as the proxy study's.
        """
        chosen = [choice_from_text(text) for text in self.evaluators]
        chosen += choices_from_file(Path(self.evaluators_file)) if self.evaluators_file else []
        for one in chosen:
            factory(one.use)
        if self.pairs and (self.release or self.version):
            raise UserInputError("pairs of another set take the place of a release: name one of the two")
        return EvaluateOptions.at(
            site,
            evaluators=tuple(chosen),
            release=self.release,
            version=self.version,
            pairs_from=meta_set_from_text(self.pairs) if self.pairs else pairs_from,
            selection={
                "aspects": self.aspects,
                "pairs": self.pair_ids,
                "strengths": self.strengths,
                "clips": self.clips,
                "most_per_aspect": self.most_per_aspect,
            },
            repeats=self.repeats,
            retry=self.retry,
            limits={"usd": self.most_dollars, "tokens": self.most_tokens},
            prices=full_or_none(self.prices),
            prompts=full_or_none(self.prompts) or "",
        )
