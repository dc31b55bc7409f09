"""What an annotation is asked to do, and from what a person asks for to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError

from flows.worker_site import check_absolute, site_of_worker
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen, ModelServer
from tasks.annotation.installation import database_url
from tasks.annotation.translation import TranslationParameters, read_prompt

#: When the release is filtered: as soon as every pair has its votes, now by what there is, or not at all.
FilterTime = Literal["complete", "now", "never"]


class AnnotateOptions(Frozen):
    """Which release is put before people, and what is done of: publish, translate, collect, filter.

    Parameters
    ----------
    store
        Folder of the store.
    database
        Address of the desk's database.
    release, version
        The release; without a name the only one, without a version the newest.
    campaign
        Name of the campaign; ``RELEASE-VERSION`` by default.
    campaign_settings
        A TOML file with settings of the campaign.
    private_audience
        Whether all who come may see sources that may not be passed on.
    translation
        How captions are translated before they are shown; None where they are not.
    filter
        When the release is filtered.
    filtered
        Name of the filtered release; ``RELEASE-filtered`` by default.
    model_servers
        As the profile says.
    """

    store: str
    database: str
    release: str | None = None
    version: int | None = None
    campaign: str = ""
    campaign_settings: str = ""
    private_audience: bool = False
    translation: TranslationParameters | None = None
    filter: FilterTime = "complete"
    filtered: str = ""
    model_servers: dict[str, ModelServer] = Field(default_factory=dict)


def annotate_options(site: Profile, database: str | None = None, **fields: Any) -> AnnotateOptions:
    """Return what an annotation is asked to do.

    Parameters
    ----------
    database
        Address of the desk's database; SQLite in the store by default.
    fields
        Further fields of :class:`AnnotateOptions`.

    Raises
    ------
    UserInputError
        If a value does not fit.
    """
    store = Path(site.store).expanduser().resolve()
    given: Mapping[str, Any] = {
        "store": str(store),
        "database": database_url(store, database),
        "model_servers": site.model_servers,
        **fields,
    }
    try:
        return AnnotateOptions.model_validate(given)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserInputError(f"{key}: {first['msg']} (got {first['input']!r})") from problem


def asked_of_worker(
    *,
    profile: str,
    settings: Mapping[str, Any],
    database: str = "",
    translate_into: str = "",
    translation_model: str = "",
    translation_server: str = "",
    translation_prompt: str = "",
    plain_sampling: bool = False,
    filter_when: str = "complete",
    **fields: Any,
) -> tuple[AnnotateOptions, Profile]:
    """Return what a run on a Prefect worker is asked to do, and the site's settings.

    Such a run has no folder of its own that anybody knows, so every path has to be absolute.

    Parameters
    ----------
    profile
        A TOML file on the worker's machine; else the one of ``SLVMEVAL_PROFILE``, if any.
    settings
        Fields of the profile that the run changes; what is empty or 0 is not given.

    Raises
    ------
    UserInputError
        For anything that does not exist or fit, before any work.
    """
    paths = {
        "settings": fields.get("campaign_settings", ""),
        "prompt": translation_prompt,
    }
    for what, path in paths.items():
        if path:
            check_absolute(what, path)
    if filter_when not in get_args(FilterTime):
        raise UserInputError(f"filter_when: {filter_when!r} is not one of {', '.join(get_args(FilterTime))}")
    site = site_of_worker(profile, settings)
    translation = translation_parameters(
        translate_into, translation_model, translation_server, translation_prompt, plain_sampling
    )
    return annotate_options(
        site, database or None, translation=translation, filter=filter_when, **fields
    ), site


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
    words = {"prompt": read_prompt(Path(prompt))} if prompt else {}
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
