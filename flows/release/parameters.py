"""Parameters of a build, as users write them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from flows.parameters import (
    INPUT,
    OUTPUT,
    RARE,
    FlowParameters,
    Given,
    ModelFolders,
    OwnPrompts,
    Retry,
    Workers,
)
from infra.profile import ENVIRONMENT_PREFIX

#: Default recipe.
DEFAULT_RECIPE = "cpu-approx"

RecipeName = Annotated[
    str,
    Given(metavar="NAME|FILE", panel=INPUT),
    Field(
        description="A built-in recipe (cpu-approx, paper, paper-eight, paper-lightning) or a .toml or .json "
        "file; a pinned recipe rebuilds its pairs exactly."
    ),
]
RecipeChanges = Annotated[
    tuple[str, ...],
    Given(("--set",), "KEY=VALUE", INPUT),
    Field(
        description="A changed value of the recipe: clips_per_pair=3, "
        "aspects.aesthetics.parameters.contrast=-0.5."
    ),
]


class BuildParameters(FlowParameters):
    """Build or update an SLVMEval release: only missing pairs are built.

    Empty or 0 means the profile's value. Paths are absolute, on the machine of the Prefect worker.
    """

    site_fields: ClassVar[tuple[str, ...]] = (*FlowParameters.site_fields, "release", "settle_s", "gallery")

    sources: Annotated[tuple[str, ...], Given(("--sources", "-s"), "KIND:PATH", INPUT)] = Field(
        default=(),
        description="A data set: folder:PATH or vript:PATH; a plain PATH is a folder. Options follow a ?: "
        "'vript:PATH?unpack=true&only_present=true'.",
    )
    recipe: RecipeName = DEFAULT_RECIPE
    changes: RecipeChanges = ()
    release: Annotated[
        str | None, Given(("release",), "RELEASE", variable=ENVIRONMENT_PREFIX + "RELEASE")
    ] = Field(default=None, description="Name of the release; a new version extends its newest one.")
    fresh: Annotated[bool, Given(panel=RARE)] = Field(
        default=False, description="Ignore older versions: draw all candidates again."
    )
    retry: Retry = False
    settle_s: Annotated[float | None, Given(form_only=True)] = Field(
        default=None,
        ge=0,
        description="Leave files that changed less than this many seconds ago to the next run.",
    )
    gallery: Annotated[str | None, Given(metavar="DIR", panel=OUTPUT, path=True)] = Field(
        default=None, description="Also write a gallery to this folder."
    )
    damaged: Annotated[str | None, Given(form_only=True)] = Field(
        default=None,
        description="Damaged videos: set aside (refuse, the default), use a cut-off video up to its last "
        "complete frame (truncate), or use what FFmpeg plays (conceal). Short for damaged=….",
    )
    prompts: OwnPrompts = None
    model_folders: ModelFolders = ()
    workers: Workers = None
