"""From what a run on a Prefect worker is asked for to what a run of a suite is told to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.resolve import check_absolute, site_of_worker
from flows.suite_options import SuiteOptions, settings_from_text, suite_options
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from tasks.suites.registry import suite_names


def asked_of_worker(
    *,
    suite: str,
    videos: str,
    prompts: str,
    manifest: str = "",
    prices: str = "",
    profile: str = "",
    settings: Sequence[str] = (),
    site_settings: Mapping[str, Any],
    **fields: Any,
) -> tuple[SuiteOptions, Profile]:
    """Return what a run on a Prefect worker is asked to do, and the site's settings.

    Such a run has no folder of its own that anybody knows, so every path has to be absolute.

    Parameters
    ----------
    profile
        A TOML file on the worker's machine; else the one of ``SLVMEVAL_PROFILE``, if any.
    settings
        Settings of the suite, each ``KEY=VALUE``.
    site_settings
        Fields of the profile that the run changes; what is empty or 0 is not given.
    fields
        Further fields of :class:`~flows.suite_options.SuiteOptions`.

    Raises
    ------
    UserInputError
        For anything that does not exist or fit, before any work.
    """
    if not suite:
        raise UserInputError(f"suite is empty: give {' or '.join(suite_names())}")
    needed = {"videos": videos, "prompts": prompts}
    for what, path in needed.items():
        if not path:
            raise UserInputError(f"{what} is empty: give its path")
    for what, path in {**needed, "manifest": manifest, "prices": prices}.items():
        if path:
            check_absolute(what, path)
    site = site_of_worker(profile, site_settings)
    options = suite_options(
        site,
        suite=suite,
        videos=str(Path(videos).expanduser()),
        prompts=str(Path(prompts).expanduser()),
        manifest=str(Path(manifest).expanduser()) if manifest else "",
        prices=str(Path(prices).expanduser()) if prices else None,
        settings=settings_from_text(list(settings)),
        **fields,
    )
    return options, site
