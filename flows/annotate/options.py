"""Options of an annotation."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from flows.annotate.parameters import AnnotateParameters, FilterTime
from flows.parameters import RunOptions, checked_prompts
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from storage_schemas.release import name_and_version
from storage_schemas.store import Store
from storage_schemas.value_problems import value_problem
from tasks.annotation.installation import database_url
from tasks.annotation.translation import TRANSLATION, TranslationParameters
from tasks.llm.prompt_files import prompt_text


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


def annotate_options(parameters: AnnotateParameters, site: Profile) -> AnnotateOptions:
    """Resolve the parameters of an annotation into options.

    Raises
    ------
    UserInputError
        If a value is invalid.
    """
    store = Path(site.store).expanduser().resolve()
    release, version = name_and_version(parameters.release, parameters.version)
    return AnnotateOptions.at(
        site,
        database=database_url(store, parameters.database),
        release=release,
        version=version,
        campaign=parameters.campaign,
        campaign_settings=parameters.settings or "",
        private_audience=parameters.private_audience,
        translation=translation_parameters(
            parameters.translate_into,
            parameters.translation_model,
            parameters.translation_server,
            parameters.prompts,
            parameters.plain_sampling,
        ),
        filter=parameters.filter_when,
        filtered=parameters.filtered,
    )


def translation_parameters(
    language: str, model: str = "", server: str = "", prompts: str | None = None, plain_sampling: bool = False
) -> TranslationParameters | None:
    """Return the translation's parameters, with defaults for empty values; None without a language.

    Raises
    ------
    UserInputError
        If the folder of prompts cannot be used, or a value is invalid.
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
