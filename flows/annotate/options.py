"""Parameters and options of an annotation."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, ValidationError

from flows.parameters import FlowParameters, OwnPrompts, RunOptions, Workers, checked_prompts
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from storage_schemas.value_problems import value_problem
from tasks.annotation.installation import database_url
from tasks.annotation.translation import TRANSLATION, TranslationParameters
from tasks.llm.prompt_files import prompt_text

#: When to filter the release: when every pair has its votes, now with the existing votes, or never.
FilterTime = Literal["complete", "now", "never"]


class AnnotateOptions(RunOptions):
    """The release to annotate, and the steps to run: publish, translate, collect, filter.

    Parameters
    ----------
    database
        Address of the desk's database.
    release, version
        The release; by default the only one, in its newest version.
    campaign
        Name of the campaign; ``RELEASE-VERSION`` by default.
    campaign_settings
        A TOML file with the campaign's settings.
    private_audience
        Whether all visitors may see sources that must not be redistributed.
    translation
        How to translate captions; None for no translation.
    filter
        When to filter the release.
    filtered
        Name of the filtered release; ``RELEASE-filtered`` by default.
    """

    database: str
    release: str | None = None
    version: int | None = None
    campaign: str = ""
    campaign_settings: str = ""
    private_audience: bool = False
    translation: TranslationParameters | None = None
    filter: FilterTime = "complete"
    filtered: str = ""

    def open_store(self) -> Store:
        """Open the store, which must exist."""
        return Store.open(Path(self.store))


class AnnotateParameters(FlowParameters):
    """Publish a release for annotation, collect the votes, and filter the release when they are complete.

    Completed steps are not repeated, so it may run every hour. Empty or 0 means the profile's value. Paths
    are absolute, on the machine of the Prefect worker.
    """

    paths_in: ClassVar[tuple[str, ...]] = ("settings", "prompts")

    release: str | None = Field(
        default=None, description="Name of the release; may be omitted if there is only one."
    )
    version: int | None = Field(
        default=None, ge=1, description="Version of the release; the newest by default."
    )
    campaign: str = Field(default="", description="Name of the campaign; RELEASE-VERSION by default.")
    settings: str | None = Field(
        default=None, description="Path of a .toml file with the campaign's settings."
    )
    database: str | None = Field(
        default=None, description="Address of the annotation database; SQLite in the store by default."
    )
    private_audience: bool = Field(
        default=False,
        description="Also show sources that must not be redistributed: all visitors accept your agreement.",
    )
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
    workers: Workers = None

    def options(self, site: Profile) -> AnnotateOptions:
        """Resolve these parameters into options."""
        store = Path(site.store).expanduser().resolve()
        return AnnotateOptions.at(
            site,
            database=database_url(store, self.database),
            release=self.release,
            version=self.version,
            campaign=self.campaign,
            campaign_settings=self.settings or "",
            private_audience=self.private_audience,
            translation=translation_parameters(
                self.translate_into,
                self.translation_model,
                self.translation_server,
                self.prompts,
                self.plain_sampling,
            ),
            filter=self.filter_when,
            filtered=self.filtered,
        )


def translation_parameters(
    language: str, model: str = "", server: str = "", prompts: str | None = None, plain_sampling: bool = False
) -> TranslationParameters | None:
    """Return the translation's parameters, with defaults for empty values; None without a language.

    Raises
    ------
    UserInputError
        If the folder of prompts cannot be used, or a value does not fit.
    """
    if not language:
        return None
    given = {"language": language, "model": model, "server": server}
    prompt = prompt_text(TRANSLATION, checked_prompts(prompts))
    try:
        return TranslationParameters.model_validate(
            {
                **{key: value for key, value in given.items() if value},
                "prompt": prompt,
                "send_top_k": not plain_sampling,
            }
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UserInputError(f"translation: {first['loc'][0]}: {value_problem(first)}") from problem
