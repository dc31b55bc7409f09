"""The site's settings as a run on a Prefect worker finds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.profile import Profile, load_profile
from storage_schemas.errors import UserInputError


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
