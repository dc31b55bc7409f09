"""Parameters of making prompts from videos, as users write them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from flows.parameters import DryRun, FlowParameters, Given, MaxDollars, MaxTokens, PriceList

PromptSettings = Annotated[
    tuple[str, ...], Given(("--set",), "KEY=VALUE"), Field(description="A setting: rounds=3, language=NAME.")
]


class PromptsParameters(FlowParameters):
    """Make prompts from videos: drafts first, then the remaining steps for accepted drafts.

    Answers are kept, so it may run any number of times. It only calls model servers and starts no cluster.
    Empty or 0 means the profile's value, or no limit. Paths are absolute, on the machine of the Prefect
    worker.
    """

    videos: Annotated[str | None, Given(("videos",), "VIDEOS", path=True, required=True)] = Field(
        default=None,
        description="A folder, or a .csv or .jsonl file with the column file, and optionally prompt_id "
        "and theme.",
    )
    out: Annotated[str | None, Given(metavar="DIR", path=True, required=True)] = Field(
        default=None,
        description="Folder of drafts, reviews and prompts; review it with `slvmeval suite prompts review`.",
    )
    settings: PromptSettings = ()
    without_review: bool = Field(default=False, description="Use drafts that no person has reviewed.")
    concurrency: Annotated[int, Given(by_set=True)] = Field(
        default=4, ge=1, description="Number of videos processed at once."
    )
    max_dollars: MaxDollars = None
    max_tokens: MaxTokens = None
    prices: PriceList = None
    dry_run: DryRun = False
