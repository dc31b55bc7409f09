"""From what a person asks for, on the command line or in Prefect's form, to what a build is told to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flows.options import BuildOptions
from flows.recipe_changes import recipe_with
from flows.source_roots import source_root
from infra.profile import Profile, load_profile
from storage_schemas.errors import UserInputError
from tasks.recipe import Recipe

#: The recipe of a build that names none.
DEFAULT_RECIPE = "cpu-approx"


def build_options(
    site: Profile,
    sources: Sequence[str],
    recipe: Recipe,
    *,
    fresh: bool = False,
    retry: bool = False,
) -> BuildOptions:
    """Return what a build is asked to do.

    Parameters
    ----------
    sources
        The data sets, each ``KIND:PATH``; where there are none, those of the site.

    Raises
    ------
    UserInputError
        If there is no source, one that cannot be read, or the release's name is none.
    """
    named = sources or site.sources
    if not named:
        raise UserInputError(
            "no sources are named: give folder:PATH or vript:PATH, or `sources` in the profile"
        )
    try:
        return BuildOptions(
            store=str(Path(site.store).expanduser().resolve()),
            sources=tuple(source_root(text) for text in named),
            recipe=recipe,
            release=site.release,
            models=tuple(str(Path(folder).expanduser().resolve()) for folder in site.models),
            fresh=fresh,
            retry=retry,
            settle_s=site.settle_s,
            quota_bytes=site.quota_bytes,
            placement=site.placement,
            allow_cpu_models=site.allow_cpu_models,
            model_servers=site.model_servers,
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        key = first["loc"][0] if first["loc"] else "options"
        message = first["msg"].removeprefix("Value error, ")
        raise UserInputError(f"{key}: {message} (got {first['input']!r})") from problem


def asked_of_worker(
    *,
    sources: Sequence[str] = (),
    recipe: str = DEFAULT_RECIPE,
    changes: Sequence[str] = (),
    profile: str = "",
    fresh: bool = False,
    retry: bool = False,
    **settings: Any,
) -> tuple[BuildOptions, Profile]:
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
    site = site_of_worker(profile, settings)
    changed = recipe_with(recipe, changes)
    paths: Mapping[str, Sequence[str]] = {
        "gallery": [site.gallery] if site.gallery else [],
        "sources": [source_root(text).path for text in sources or site.sources],
    }
    for what, some in paths.items():
        for path in some:
            check_absolute(what, path)
    return build_options(site, sources, changed, fresh=fresh, retry=retry), site


def site_of_worker(profile: str, settings: Mapping[str, Any]) -> Profile:
    """Return the site's settings for a run on a Prefect worker, whose paths have to be absolute.

    Parameters
    ----------
    profile
        A TOML file on the worker's machine; else the one of ``SLVMEVAL_PROFILE``, if any.
    settings
        Fields that the run changes; what is empty or 0 is not given.

    Raises
    ------
    UserInputError
        For a file that does not exist or fit, and for a relative path.
    """
    if profile:
        check_absolute("profile", profile)
    given = {key: value or None for key, value in settings.items()}
    site = load_profile(Path(profile) if profile else None, given)
    for what, paths in {"store": [site.store], "models": site.models}.items():
        for path in paths:
            check_absolute(what, path)
    return site


def check_absolute(what: str, path: str) -> None:
    """Raise UserInputError for a path that says nothing on a worker."""
    if not Path(path).expanduser().is_absolute():
        raise UserInputError(
            f"{what}: {path!r} is not an absolute path: a run on a worker has no folder from which others "
            f"count; write it in full, or name the {what} in the profile"
        )
