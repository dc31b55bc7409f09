"""Parameters of an annotation, as users write them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flows.parameters import SITE, FlowParameters, Given, OwnPrompts, ReleaseName, ReleaseVersion, Workers

#: When to filter the release: when every pair has its votes, now with the existing votes, or never.
FilterTime = Literal["complete", "now", "never"]

Database = Annotated[
    str | None,
    Given(metavar="URL", panel=SITE, variable="SLVMEVAL_ANNOTATION_DATABASE"),
    Field(description="postgresql+psycopg://USER:PASSWORD@HOST/NAME; by default SQLite in the store."),
]

PrivateAudience = Annotated[
    bool,
    Given(("--private",)),
    Field(
        description="Also include sources that may not be redistributed: all viewers are covered by your "
        "agreement with their owner."
    ),
]


class AnnotateParameters(FlowParameters):
    """Publish a release for annotation, collect the votes, and filter the release when they are complete.

    Completed steps are not repeated, so it may run every hour. Empty or 0 means the profile's value. Paths
    are absolute, on the machine of the Prefect worker.
    """

    release: ReleaseName = None
    version: ReleaseVersion = None
    campaign: Annotated[str, Given(metavar="NAME")] = Field(
        default="", description="Name of the campaign; RELEASE-VERSION by default."
    )
    settings: Annotated[str | None, Given(metavar="FILE", path=True)] = Field(
        default=None, description="Settings of the campaign, a .toml file."
    )
    database: Database = None
    private_audience: PrivateAudience = False
    workers: Workers = None
    translate_into: str = Field(
        default="",
        description="Language to translate captions into, such as ja; empty for no translation.",
    )
    translation_model: str = Field(default="", description="Translation model.")
    translation_server: str = Field(
        default="", description="Name of its server in the profile's model_servers; translation by default."
    )
    prompts: OwnPrompts = None
    plain_sampling: bool = Field(
        default=False, description="Do not send vLLM-specific parameters to the translation server."
    )
    filter_when: FilterTime = Field(
        default="complete",
        description="When to filter the release: complete (every pair has its votes), now or never.",
    )
    filtered: str = Field(
        default="", description="Name of the filtered release; RELEASE-filtered by default."
    )
