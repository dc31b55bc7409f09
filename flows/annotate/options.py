"""Parameters and options of an annotation."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, ValidationError

from flows.parameters import FlowParameters, RunOptions, Workers
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from tasks.annotation.installation import database_url
from tasks.annotation.translation import TranslationParameters, read_translation_prompt

#: When the release is filtered: as soon as every pair has its votes, now by what there is, or not at all.
FilterTime = Literal["complete", "now", "never"]


class AnnotateOptions(RunOptions):
    """Which release is put before people, and what is done of: publish, translate, collect, filter.

    Parameters
    ----------
    database
        Address of the desk's database.
    release, version
        The release; without a name the only one, without a version the newest.
    campaign
        Name of the campaign; ``RELEASE-VERSION`` by default.
    campaign_settings
        A TOML file with settings of the campaign.
    private_audience
        Whether all who come may see sources that may not be redistributed.
    translation
        How captions are translated before they are shown; None where they are not.
    filter
        When the release is filtered.
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
        """Open the store; only of one that is there can anything be shown."""
        return Store.open(Path(self.store))


class AnnotateParameters(FlowParameters):
    """Put a release before people, take over their votes, and filter the release when they are complete.

    What is done already is not done again, so it may run every hour. What is empty or 0 is as the profile
    says. Paths are absolute, on the machine of the Prefect worker.
    """

    paths_in: ClassVar[tuple[str, ...]] = ("settings", "translation_prompt")

    release: str | None = Field(
        default=None, description="Name of the release; may be left out if there is one."
    )
    version: int | None = Field(
        default=None, ge=1, description="Version of the release; the newest by default."
    )
    campaign: str = Field(default="", description="Name of the campaign, RELEASE-VERSION by default.")
    settings: str | None = Field(
        default=None, description="Path of a .toml file with settings of the campaign."
    )
    database: str | None = Field(
        default=None, description="Address of the database behind the pages; SQLite in the store by default."
    )
    private_audience: bool = Field(
        default=False,
        description="Also show sources that may not be redistributed: all who come are under your agreement.",
    )
    translate_into: str = Field(
        default="",
        description="Language into which captions are translated, such as ja; empty translates nothing.",
    )
    translation_model: str = Field(default="", description="The model that translates.")
    translation_server: str = Field(
        default="", description="Its server in the profile's model_servers, by default translation."
    )
    translation_prompt: str | None = Field(default=None, description="Path of a prompt in place of ours.")
    plain_sampling: bool = Field(
        default=False, description="Send the translating server nothing that only vLLM knows."
    )
    filter_when: FilterTime = Field(
        default="complete",
        description="When the release is filtered, complete (every pair has its votes), now or never.",
    )
    filtered: str = Field(
        default="", description="Name of the filtered release, RELEASE-filtered by default."
    )
    workers: Workers = None

    def options(self, site: Profile) -> AnnotateOptions:
        """Return what an annotation of this does."""
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
                self.translation_prompt or "",
                self.plain_sampling,
            ),
            filter=self.filter_when,
            filtered=self.filtered,
        )


def translation_parameters(
    language: str, model: str = "", server: str = "", prompt: str = "", plain_sampling: bool = False
) -> TranslationParameters | None:
    """Return how captions are translated; what is empty is as we have it, no language is none.

    Raises
    ------
    UserInputError
        If the prompt cannot be read, or a value does not fit.
    """
    if not language:
        return None
    given = {"language": language, "model": model, "server": server}
    words = {"prompt": read_translation_prompt(Path(prompt))} if prompt else {}
    try:
        return TranslationParameters.model_validate(
            {
                **{key: value for key, value in given.items() if value},
                **words,
                "send_top_k": not plain_sampling,
            }
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UserInputError(f"translation: {first['loc'][0]}: {first['msg']}") from problem
