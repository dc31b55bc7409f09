"""Parameters and options of a suite's run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import Field

from flows.parameters import (
    FlowParameters,
    ModelFolders,
    MostDollars,
    MostTokens,
    PriceList,
    RunOptions,
    Workers,
    full_or_none,
    required,
)
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from tasks.llm.limits import Limits
from tasks.scoring.suites.registry import factory, suite_names
from tasks.scoring.suites.scoring import SuiteChoice


class SuiteOptions(RunOptions):
    """One run of a suite.

    Parameters
    ----------
    suite, settings
        Its name in the table of suites, and its settings.
    videos, manifest, prompts
        The folder of the videos, the file that says which is which (looked for in the folder where it is
        empty), and the file of prompts.
    generators, dimensions
        Only of these generators, and only in these dimensions.
    mini, seed
        So many prompts a dimension, drawn with a seed; all where it is None.
    fps, long_side
        How videos are sampled; what the suite says where they are empty.
    blur
        Blurs videos by so many pixels; such scores stand apart, under ``NAME+blurN``.
    concurrency
        Requests under way at once in one process; what the suite says by default.
    pools
        The site's worker pools, in which dimensions look for their GPU; none where all runs on this machine.
    """

    suite: str
    videos: str
    prompts: str
    manifest: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    generators: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    mini: int | None = Field(default=None, ge=1)
    seed: int = 0
    repeats: int = Field(default=1, ge=1)
    retry: bool = False
    fps: str = ""
    long_side: int | None = None
    blur: float = 0.0
    concurrency: int | None = Field(default=None, ge=1, le=4096)
    limits: Limits = Limits()
    prices: str | None = None
    model_folders: tuple[str, ...] = ()
    allow_cpu_models: bool = False
    pools: tuple[str, ...] = ()

    @property
    def choice(self) -> SuiteChoice:
        """The suite with its settings and what the site has."""
        try:
            settings = json.dumps(self.settings, sort_keys=True)
        except (TypeError, ValueError) as problem:
            raise UserInputError(f"settings are nothing that JSON can hold: {problem}") from problem
        return SuiteChoice(
            store_path=self.store,
            model_folders=self.model_folders,
            model_servers=self.model_servers,
            suite=self.suite,
            settings_json=settings,
        )


def settings_from_text(given: Iterable[str]) -> dict[str, Any]:
    """Return settings of ``KEY=VALUE``; values are JSON, else text.

    Raises
    ------
    UserInputError
        If one has no key.
    """
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserInputError(f"--set {text}: write KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except json.JSONDecodeError:
            found[key] = value
    return found


class SuiteParameters(FlowParameters):
    """Score videos with a suite: what was scored before is not scored again.

    What is empty or 0 is as the profile or the suite says, or has no limit. Paths are absolute, on the
    machine of the Prefect worker.
    """

    paths_in: ClassVar[tuple[str, ...]] = ("videos", "prompts", "manifest", "prices")

    suite: str | None = Field(default=None, description="Name of the suite, such as video-bench.")
    videos: str | None = Field(
        default=None, description="Folder of the videos; paths of the manifest start here."
    )
    prompts: str | None = Field(
        default=None, description="Path of the prompts, as CSV, JSON Lines or as published."
    )
    manifest: str | None = Field(
        default=None,
        description="Path of the file that says which video is which; by default the one in that folder.",
    )
    dimensions: tuple[str, ...] = Field(default=(), description="Only these dimensions.")
    generators: tuple[str, ...] = Field(
        default=(), description="Only videos of these models of the manifest."
    )
    mini: int | None = Field(default=None, ge=1, description="Only so many prompts of each dimension, drawn.")
    seed: int = Field(default=0, description="Of that draw.")
    fps: str | None = Field(
        default=None, description="Frames a second at which videos are sampled, or native."
    )
    long_side: int | None = Field(default=None, description="Longer side of the frames in pixels.")
    blur: float = Field(default=0.0, description="Blur videos by so many pixels; such scores are kept apart.")
    settings: tuple[str, ...] = Field(default=(), description="Settings of the suite, each KEY=VALUE.")
    repeats: int = Field(default=1, description="How often each score is asked for.")
    retry: bool = Field(default=False, description="Score again what a model could not.")
    concurrency: int | None = Field(default=None, description="Scores under way at once in one process.")
    most_dollars: MostDollars = None
    most_tokens: MostTokens = None
    prices: PriceList = None
    model_folders: ModelFolders = ()
    workers: Workers = None

    def options(self, site: Profile) -> SuiteOptions:
        """Return what a run of this does."""
        if not self.suite:
            raise UserInputError(f"suite is empty: give {' or '.join(suite_names())}")
        factory(self.suite)
        return SuiteOptions.at(
            site,
            suite=self.suite,
            videos=required("videos", self.videos),
            prompts=required("prompts", self.prompts),
            manifest=full_or_none(self.manifest) or "",
            settings=settings_from_text(self.settings),
            dimensions=self.dimensions,
            generators=self.generators,
            mini=self.mini,
            seed=self.seed,
            fps=self.fps or "",
            long_side=self.long_side,
            blur=self.blur,
            repeats=self.repeats,
            retry=self.retry,
            concurrency=self.concurrency,
            limits={"usd": self.most_dollars, "tokens": self.most_tokens},
            prices=full_or_none(self.prices),
        )
