"""Parameters and options of evaluations and of suites' runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

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
    checked_prompts,
    full_or_none,
    required,
)
from infra.profile import Profile
from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.llm.limits import Limits
from tasks.scoring.judges.meta_sets.provider import MetaSetPairs, meta_set_from_text
from tasks.scoring.judges.meta_sets.proxy_study import ProxyPairs
from tasks.scoring.registry import EvaluatorChoice, choice_from_text, choices_from_file
from tasks.scoring.registry import factory as evaluator_factory
from tasks.scoring.release_pairs import Selection
from tasks.scoring.setup import Setup
from tasks.scoring.suites.registry import factory as suite_factory
from tasks.scoring.suites.registry import settings_of_variant, suite_names
from tasks.scoring.suites.scoring import SuiteChoice


class ScoringOptions(RunOptions):
    """What evaluations and suites' runs have in common.

    Parameters
    ----------
    repeats
        Number of times each request is made.
    retry
        Kinds of failures that are repeated although a new attempt would normally not change them.
    limits
        Maximum dollars and tokens.
    prices, prompts
        A price list and a folder of prompts that replace the built-in ones.
    model_folders, allow_cpu_models
        As the profile says.
    """

    repeats: int = Field(default=1, ge=1, le=1000)
    retry: frozenset[Failure] = frozenset()
    limits: Limits = Limits()
    prices: str | None = None
    prompts: str = ""
    model_folders: tuple[str, ...] = ()
    allow_cpu_models: bool = False


class ScoringParameters(FlowParameters):
    """Parameters that evaluations and suites' runs have in common."""

    repeats: int = Field(default=1, description="Number of times each request is made.")
    retry: tuple[str, ...] = Field(
        default=(), description="Repeat requests that failed for these reasons, such as refused; or all."
    )
    most_dollars: MostDollars = None
    most_tokens: MostTokens = None
    prices: PriceList = None
    prompts: OwnPrompts = None
    model_folders: ModelFolders = ()
    workers: Workers = None

    def common(self) -> dict[str, Any]:
        """Return the fields of :class:`ScoringOptions`."""
        return {
            "repeats": self.repeats,
            "retry": reasons(self.retry),
            "limits": {"usd": self.most_dollars, "tokens": self.most_tokens},
            "prices": full_or_none(self.prices),
            "prompts": full_or_none(self.prompts) or "",
        }


def reasons(given: Iterable[str]) -> frozenset[Failure]:
    """Return the kinds of failures that are named; ``all`` stands for every one.

    Raises
    ------
    UserInputError
        If there is no such kind.
    """
    names = [failure.value for failure in Failure]
    for name in given:
        if name not in (*names, "all"):
            known = suggestion(name, names, "the reasons are", ["all"])
            raise UserInputError(f"--retry {name}: {known}; all stands for every one")
    return frozenset(Failure) if "all" in given else frozenset(map(Failure, given))


class EvaluateOptions(ScoringOptions):
    """Which evaluators judge which pairs.

    Parameters
    ----------
    evaluators
        The evaluators.
    release, version
        The release; without a name the only one, without a version the newest.
    pairs_from
        Other pairs in place of a release's: a meta-evaluation set, a user's own, the proxy study's.
    selection
        Which pairs.
    batch, wait
        Whether requests go by the providers' batch interfaces, and whether the run waits for the answers.
    batch_poll_s
        Interval between looks at the batches, in seconds.
    """

    evaluators: tuple[EvaluatorChoice, ...]
    release: str | None = None
    version: int | None = None
    pairs_from: MetaSetPairs | ProxyPairs | None = Field(default=None, discriminator="kind")
    selection: Selection = Selection()
    batch: bool = False
    wait: bool = True
    batch_poll_s: float = Field(default=60.0, gt=0)

    def open_store(self) -> Store:
        """Open the store; it is created if the pairs are not a release's.

        Raises
        ------
        StoreError
            If the folder is not a store.
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


class EvaluateParameters(ScoringParameters):
    """Let evaluators judge the pairs of a release; answered requests are not repeated.

    Empty fields and 0 stand for the profile's value, or for no limit. Paths are absolute, on the machine of
    the Prefect worker.
    """

    paths_in: ClassVar[tuple[str, ...]] = ("evaluators_file", "prices", "prompts")

    evaluators: tuple[str, ...] = Field(
        default=(), description="Evaluators, each NAME or NAME?key=value&key=value."
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
    clips: tuple[int, ...] = Field(default=(), description="Only pairs with this number of degraded clips.")
    most_per_aspect: int | None = Field(
        default=None, ge=1, description="Maximum number of pairs of each aspect, drawn at random."
    )

    batch: bool = Field(
        default=False, description="Ask by the providers' batch interfaces, at half the price, within a day."
    )
    wait: bool = Field(
        default=True, description="Wait for the batches; if not, another run with `batch` collects them."
    )

    def paths(self) -> Mapping[str, Sequence[str]]:
        """Return the given paths by field."""
        return {**super().paths(), **({"pairs": [self.pairs.partition(":")[2]]} if self.pairs else {})}

    def options(self, site: Profile, pairs_from: MetaSetPairs | ProxyPairs | None = None) -> EvaluateOptions:
        """Return the options of an evaluation.

        Parameters
        ----------
        pairs_from
            Pairs that no text names, such as the proxy study's.
        """
        choices = [choice_from_text(text) for text in self.evaluators]
        choices += choices_from_file(Path(self.evaluators_file)) if self.evaluators_file else []
        for place, choice in enumerate(choices):
            evaluator_factory(choice.use)
            if own := choice.settings.get("prompts"):
                # in full, since workers have another working folder
                settings = {**choice.settings, "prompts": checked_prompts(own)}
                choices[place] = choice.model_copy(update={"settings": settings})
        if self.pairs and (self.release or self.version):
            raise UserInputError("pairs of another set take the place of a release: name one of the two")
        return EvaluateOptions.at(
            site,
            **self.common(),
            evaluators=tuple(choices),
            release=self.release,
            version=self.version,
            pairs_from=meta_set_from_text(self.pairs) if self.pairs else pairs_from,
            batch=self.batch,
            wait=self.wait,
            selection={
                "aspects": self.aspects,
                "pairs": self.pair_ids,
                "strengths": self.strengths,
                "clips": self.clips,
                "most_per_aspect": self.most_per_aspect,
            },
        )


class SuiteOptions(ScoringOptions):
    """One run of a suite.

    Parameters
    ----------
    suite, settings
        Its name in the table of suites, and its settings; those of the variant among them.
    variant
        Under which name its scores stand apart; empty for none.
    videos, prompt_suite, manifest
        The folder of the videos, the file of their prompts, and the file that says which video is which; the
        manifest in the folder if it is empty.
    generators, dimensions
        Only these generators, and only these dimensions.
    mini, seed
        Number of prompts per dimension, drawn with a seed; None for all.
    fps, long_side
        How videos are sampled; the suite's own values if empty.
    blur
        Blurs videos by this number of pixels; such scores stand apart, under ``NAME+blurN``.
    concurrency
        Number of concurrent requests in one process; the suite's own by default.
    pools
        The site's worker pools; empty if everything runs on this machine.
    """

    suite: str
    videos: str
    prompt_suite: str
    manifest: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    variant: str = ""
    generators: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    mini: int | None = Field(default=None, ge=1)
    seed: int = 0
    fps: str = ""
    long_side: int | None = None
    blur: float = 0.0
    concurrency: int | None = Field(default=None, ge=1, le=4096)
    pools: tuple[str, ...] = ()

    @property
    def choice(self) -> SuiteChoice:
        """The suite with its settings and what the site has."""
        try:
            settings = json.dumps(self.settings, sort_keys=True)
        except (TypeError, ValueError) as problem:
            raise UserInputError(f"settings are not JSON-serialisable: {problem}") from problem
        return SuiteChoice(
            store_path=self.store,
            model_folders=self.model_folders,
            model_servers=self.model_servers,
            prompts=self.prompts,
            suite=self.suite,
            settings_json=settings,
            variant=self.variant,
        )


class SuiteParameters(ScoringParameters):
    """Score videos with a suite; existing scores are not computed again.

    Empty fields and 0 stand for the profile's or the suite's value, or for no limit. Paths are absolute, on
    the machine of the Prefect worker.
    """

    paths_in: ClassVar[tuple[str, ...]] = ("videos", "prompt_suite", "manifest", "prices", "prompts")

    suite: str | None = Field(default=None, description="Name of the suite, such as video-bench.")
    videos: str | None = Field(
        default=None, description="Folder of the videos; paths of the manifest are relative to it."
    )
    prompt_suite: str | None = Field(
        default=None, description="Path of the videos' prompts, as CSV, JSON Lines or as published."
    )
    manifest: str | None = Field(
        default=None,
        description="Path of the file that says which video is which; by default the one in that folder.",
    )
    dimensions: tuple[str, ...] = Field(default=(), description="Only these dimensions.")
    generators: tuple[str, ...] = Field(
        default=(), description="Only videos of these models of the manifest."
    )
    mini: int | None = Field(
        default=None,
        ge=1,
        description="Number of prompts of each dimension, drawn at random; default: all.",
    )
    seed: int = Field(default=0, description="Seed of that draw.")
    fps: str | None = Field(
        default=None, description="Frames per second at which videos are sampled, or native."
    )
    long_side: int | None = Field(default=None, description="Longer side of the frames in pixels.")
    blur: float = Field(
        default=0.0, description="Blur videos by this number of pixels; such scores are kept apart."
    )
    settings: tuple[str, ...] = Field(default=(), description="Settings of the suite, each KEY=VALUE.")
    variant: str | None = Field(
        default=None,
        description="Ablation of the suite, or a name for its settings; such scores are kept apart.",
    )
    concurrency: int | None = Field(default=None, description="Number of concurrent scores in one process.")

    def options(self, site: Profile) -> SuiteOptions:
        """Return the options of a run."""
        if not self.suite:
            raise UserInputError(f"suite is empty: give {' or '.join(suite_names())}")
        suite_factory(self.suite)
        return SuiteOptions.at(
            site,
            **self.common(),
            suite=self.suite,
            videos=required("videos", self.videos),
            prompt_suite=required("prompt_suite", self.prompt_suite),
            manifest=full_or_none(self.manifest) or "",
            settings=settings_of_variant(self.suite, self.variant or "", settings_from_text(self.settings)),
            variant=self.variant or "",
            dimensions=self.dimensions,
            generators=self.generators,
            mini=self.mini,
            seed=self.seed,
            fps=self.fps or "",
            long_side=self.long_side,
            blur=self.blur,
            concurrency=self.concurrency,
        )


def settings_from_text(given: Iterable[str]) -> dict[str, Any]:
    """Return settings of ``KEY=VALUE``; values are JSON, else text.

    Raises
    ------
    UserInputError
        If one has no key, or the folder of `prompts` has mistakes.
    """
    settings: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserInputError(f"--set {text}: write KEY=VALUE")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    if isinstance(own := settings.get("prompts"), str):
        # in full, since workers have another working folder
        settings["prompts"] = checked_prompts(own)
    return settings
