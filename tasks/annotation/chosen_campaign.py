"""Which campaign is meant, and of which version of which release."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storage_schemas.errors import UserInputError
from storage_schemas.release import Release, release_names
from storage_schemas.store import Store
from tasks.annotation.campaign import Campaign, load_campaign
from tasks.annotation.people import filtered_from, rule_of


def choose_campaign(
    store: Store,
    published: Sequence[Campaign],
    release: str | None = None,
    version: int | None = None,
    name: str = "",
    settings: Path | None = None,
) -> tuple[Release, Campaign]:
    """Return the release that is to be published, and the campaign as which.

    A campaign that is there goes on with the version that it shows, also where the release has a newer one: a
    new version is put before people only when it is asked for.

    Parameters
    ----------
    published
        The campaigns that are at the desk.
    release, version
        The release; without a name the only one that is not filtered.
    name
        The campaign; by default the one that shows the release already, else a new one, ``RELEASE-VERSION``.
    settings
        A TOML file with settings; by default those that the campaign was published with. How many votes a
        pair wants, and whether votes of excluded workers count, is what the release's recipe says, where the
        file does not.

    Raises
    ------
    UserInputError
        If something is missing, does not fit, or could mean several things.
    """
    said = _said(settings)
    release, version = release or _text(said, "release"), version or _number(said, "version")
    name = name or _text(said, "name") or ""
    there = _published(published, release or _only_release(store), version, name)
    if there is not None:
        if (release or there.release, version or there.version) != (there.release, there.version):
            raise UserInputError(
                f"the campaign {there.name} shows release {there.release} version {there.version}, not "
                f"{release or there.release} version {version or there.version}: choose another name"
            )
        opened = Release.open(store, there.release, there.version)
        return opened, there if settings is None else _from_file(settings, opened, there.name)
    opened = Release.open(store, release or _only_release(store), version)
    if filtered_from(opened) is not None:
        raise UserInputError(
            f"people have looked at release {opened.name} already: publish the one that it was filtered from"
        )
    # a release's name may have dots, a campaign's stands in addresses
    called = name or re.sub(r"[^A-Za-z0-9_-]", "-", f"{opened.name}-{opened.version}")[-64:].lstrip("-_")
    if settings is not None:
        return opened, _from_file(settings, opened, called)
    try:
        return opened, Campaign.model_validate({"name": called, **_of_recipe(opened)})
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UserInputError(
            f"--campaign {called}: {first['msg'].removeprefix('Value error, ')}"
        ) from problem


def _published(
    published: Sequence[Campaign], release: str | None, version: int | None, name: str
) -> Campaign | None:
    """Return the campaign that is meant among those that are there; None where it is a new one."""
    if name:
        return next((one for one in published if one.name == name), None)
    fits = [one for one in published if one.release == release and version in (None, one.version)]
    newest = [one for one in fits if one.version == max(other.version for other in fits)]
    if len(newest) > 1:
        names = ", ".join(one.name for one in newest)
        raise UserInputError(
            f"release {release} is shown by several campaigns ({names}): say which one you mean"
        )
    return newest[0] if newest else None


def _only_release(store: Store) -> str | None:
    """Return the one release of a store that is not filtered, None where there are none or several."""
    names = [name for name in release_names(store) if filtered_from(Release.open(store, name)) is None]
    return names[0] if len(names) == 1 else None


def _from_file(settings: Path, release: Release, name: str) -> Campaign:
    made = load_campaign(settings, name=name, release=release.name, version=release.version)
    return made.model_copy(
        update={key: value for key, value in _of_recipe(release).items() if key not in made.model_fields_set}
    )


def _of_recipe(release: Release) -> dict[str, Any]:
    """Return what a release says of a campaign of its own."""
    rule = rule_of(release)
    return {
        "release": release.name,
        "version": release.version,
        "workers_per_pair": rule.workers_per_pair,
        "drop_excluded": rule.drop_excluded,
    }


def _said(settings: Path | None) -> dict[str, Any]:
    """Return what a file of settings says; what is wrong with it is said when it is used."""
    if settings is None:
        return {}
    if not settings.is_file():
        raise UserInputError(f"there is no file {settings}")
    try:
        return tomllib.loads(settings.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UserInputError(f"{settings} is no TOML: {problem}") from problem


def _text(said: dict[str, Any], key: str) -> str | None:
    value = said.get(key)
    return value if isinstance(value, str) and value else None


def _number(said: dict[str, Any], key: str) -> int | None:
    value = said.get(key)
    return value if isinstance(value, int) else None
