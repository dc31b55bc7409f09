"""Parameters of evaluations and of suites' runs, as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from flows.parameters import (
    RARE,
    FlowParameters,
    Given,
    MaxDollars,
    MaxTokens,
    ModelFolders,
    OwnPrompts,
    PriceList,
    ReleaseName,
    ReleaseVersion,
    Workers,
)

#: Sections of the help.
_PAIRS, _VIDEOS, _THRESHOLDS = "Which pairs", "Which videos and dimensions", "Thresholds"

OtherPairs = Annotated[
    str | None,
    Given(("--pairs",), "NAME:PATH", _PAIRS),
    Field(
        description="Other pairs instead of a release's: a set of `slvmeval list meta-sets`, or pairs:FILE."
    ),
]
PairIds = Annotated[tuple[str, ...], Given(("--pair",), "ID", RARE), Field(description="Only this pair.")]
Aspects = Annotated[
    tuple[str, ...], Given(("--aspect",), "NAME", _PAIRS), Field(description="Only pairs of this aspect.")
]


class ScoringParameters(FlowParameters):
    """Parameters that evaluations and suites' runs have in common."""

    repeats: Annotated[int, Given(panel=RARE)] = Field(
        default=1, ge=1, description="Number of times each request is made."
    )
    retry: Annotated[tuple[str, ...], Given(metavar="REASON", panel=RARE)] = Field(
        default=(),
        description="Repeat requests that failed for this reason, such as refused; all for every reason.",
    )
    max_dollars: MaxDollars = None
    max_tokens: MaxTokens = None
    prices: PriceList = None
    prompts: OwnPrompts = None
    model_folders: ModelFolders = ()
    workers: Workers = None


class EvaluateParameters(ScoringParameters):
    """Let evaluators judge the pairs of a release; answered requests are not repeated.

    Empty fields and 0 mean the profile's value, or for no limit. Paths are absolute, on the machine of
    the Prefect worker.
    """

    evaluators: Annotated[tuple[str, ...], Given(("--evaluator", "-e"), "NAME")] = Field(
        default=(),
        description="An evaluator, NAME?KEY=VALUE&… with settings, or a .toml file of several.",
    )
    prompts: Annotated[str | None, Given(metavar="DIR", panel=RARE, path=True)] = Field(
        default=None,
        description="Folder of prompts that replace the built-in ones, or a folder of several such folders: "
        "each judge is then asked in every wording.",
    )
    evaluators_file: Annotated[str | None, Given(path=True, form_only=True)] = Field(
        default=None, description="Evaluators with settings, a .toml file."
    )
    release: ReleaseName = None
    version: ReleaseVersion = None
    pairs: OtherPairs = None
    pair_ids: PairIds = ()
    aspects: Aspects = ()
    strengths: Annotated[tuple[str, ...], Given(("--strength",), "NAME", by_set=True)] = Field(
        default=(), description="Only pairs of this severity."
    )
    clips: Annotated[tuple[int, ...], Given(by_set=True)] = Field(
        default=(), description="Only pairs with this number of degraded clips."
    )
    lengths: Annotated[tuple[str, ...], Given(("--length",), "SHARE", by_set=True)] = Field(
        default=(),
        description="Only excerpts of this share of the film; excerpts for all, none for other pairs.",
    )
    positions: Annotated[tuple[str, ...], Given(("--position",), "NAME", by_set=True)] = Field(
        default=(),
        description="Only excerpts whose damage is early, middle or late, or where the film has it (own).",
    )
    most_per_aspect: Annotated[int | None, Given(("--max-per-aspect",), panel=_PAIRS)] = Field(
        default=None,
        ge=1,
        description="Maximum number of pairs of each aspect, drawn at random; smaller draws are subsets.",
    )
    probes: Annotated[tuple[str, ...], Given(("--probe",), "NAME,…", panel=RARE)] = Field(
        default=(),
        description="Also ask each judge as a probe, with a separate column: blind, one-frame, shuffled, "
        "no-prompt, other-prompt, equal, swapped-names.",
    )
    batch: bool = Field(
        default=False,
        description="Use the providers' batch interfaces: half the price, answers within a day.",
    )
    wait: Annotated[bool, Given(panel=RARE)] = Field(
        default=True,
        description="Wait for the answers of batches; the same command can collect them later too.",
    )

    adaptive: Annotated[bool, Given(panel=RARE)] = Field(
        default=False,
        description="Find each evaluator's thresholds with few requests: its answers determine the next "
        "severities. Needs a release with several severities.",
    )
    precision: Annotated[float, Given(by_set=True)] = Field(
        default=2.0,
        gt=1,
        description="With --adaptive: ratio of the ends of a threshold's interval at which to stop.",
    )
    round_pairs: Annotated[int, Given(by_set=True)] = Field(
        default=4,
        ge=1,
        description="With --adaptive: pairs per round, by evaluator and aspect; more with batches.",
    )

    def paths(self) -> Mapping[str, Sequence[str]]:
        """Return the given paths by field."""
        return {**super().paths(), **({"pairs": [self.pairs.partition(":")[2]]} if self.pairs else {})}


class SuiteParameters(ScoringParameters):
    """Score videos with a suite; existing scores are not computed again.

    Empty fields and 0 mean the profile's or the suite's value, or for no limit. Paths are absolute, on
    the machine of the Prefect worker.
    """

    suite: str | None = Field(default=None, description="Name of the suite, such as video-bench.")
    videos: Annotated[str | None, Given(metavar="DIR", path=True, required=True)] = Field(
        default=None, description="Folder of the videos; paths of the manifest are relative to it."
    )
    prompt_suite: Annotated[str | None, Given(metavar="FILE", path=True, required=True)] = Field(
        default=None, description="The videos' prompts, as CSV, as JSON Lines or as published."
    )
    manifest: Annotated[str | None, Given(metavar="FILE", path=True, panel=RARE)] = Field(
        default=None,
        description="File with the model and the prompt of each video; manifest.csv or .jsonl in the folder "
        "by default.",
    )
    dimensions: Annotated[tuple[str, ...], Given(("--dimension",), "NAME", _VIDEOS)] = Field(
        default=(), description="Only this dimension."
    )
    generators: Annotated[tuple[str, ...], Given(("--generator",), "NAME", RARE)] = Field(
        default=(), description="Only videos of this model of the manifest."
    )
    mini: Annotated[int | None, Given(panel=_VIDEOS)] = Field(
        default=None,
        ge=1,
        description="Number of prompts of each dimension, drawn at random; smaller draws are subsets.",
    )
    seed: Annotated[int, Given(panel=RARE)] = Field(default=0, description="Seed of that draw.")
    fps: Annotated[str | None, Given(metavar="N|native", by_set=True)] = Field(
        default=None, description="Frames per second at which videos are sampled, or native."
    )
    long_side: Annotated[int | None, Given(by_set=True)] = Field(
        default=None, ge=4, description="Longer side of the frames in pixels."
    )
    blur: Annotated[float, Given(metavar="PIXELS", by_set=True)] = Field(
        default=0.0, ge=0, description="Blur videos slightly; such scores are stored separately."
    )
    settings: Annotated[tuple[str, ...], Given(("--set",), "KEY=VALUE")] = Field(
        default=(), description="A setting of the suite."
    )
    variant: Annotated[str | None, Given(metavar="NAME", panel=RARE)] = Field(
        default=None,
        description="An ablation of the suite, or your name for changed settings; its scores are stored "
        "separately.",
    )
    concurrency: Annotated[int | None, Given(by_set=True)] = Field(
        default=None, ge=1, description="Number of concurrent scores in one process."
    )
