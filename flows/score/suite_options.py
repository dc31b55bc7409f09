"""What a run of a suite is told to do.

From what a run on a Prefect worker is asked for to what a run of a suite is told to do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from flows.worker_site import check_absolute, site_of_worker
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen, ModelServer
from storage_schemas.store import Store
from tasks.llm.limits import Limits
from tasks.scoring.suites.registry import factory, suite_names
from tasks.scoring.suites.scoring import SuiteChoice


class SuiteOptions(Frozen):
    """One run of a suite.

    Parameters
    ----------
    suite, settings
        Its name in the table of suites, and its settings.
    videos, manifest, prompts
        The folder of the videos, the file that says which is which (looked for in the folder where it is
        empty), and the file of prompts.
    generators, dimensions
        Only of these generators, and only in these dimensions.
    mini, seed
        So many prompts a dimension, drawn with a seed; all where it is None.
    fps, long_side
        How videos are sampled; what the suite says where they are empty.
    blur
        Blurs videos by so many pixels; such scores stand apart, under ``NAME+blurN``.
    concurrency
        Requests under way at once in one process; what the suite says by default.
    pools
        The site's worker pools, in which dimensions look for their GPU; none where all runs on this machine.
    """

    store: str
    suite: str
    videos: str
    prompts: str
    manifest: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    generators: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    mini: int | None = Field(default=None, ge=1)
    seed: int = 0
    repeats: int = Field(default=1, ge=1)
    retry: bool = False
    fps: str = ""
    long_side: int | None = None
    blur: float = 0.0
    concurrency: int | None = Field(default=None, ge=1, le=4096)
    limits: Limits = Limits()
    prices: str | None = None
    weights: tuple[str, ...] = ()
    model_servers: Mapping[str, ModelServer] = Field(default_factory=dict)
    allow_cpu_models: bool = False
    pools: tuple[str, ...] = ()

    def open_store(self) -> Store:
        """Open the store, making it if there is none: a suite needs no build."""
        return Store.create(Path(self.store))

    @property
    def choice(self) -> SuiteChoice:
        """The suite with its settings and what the site has."""
        try:
            settings = json.dumps(self.settings, sort_keys=True)
        except (TypeError, ValueError) as problem:
            raise UserInputError(f"settings are nothing that JSON can hold: {problem}") from problem
        return SuiteChoice(
            store_path=self.store,
            model_folders=self.weights,
            model_servers=self.model_servers,
            suite=self.suite,
            settings_json=settings,
        )


def settings_from_text(given: list[str]) -> dict[str, Any]:
    """Return settings of ``KEY=VALUE``; values are JSON, else text.

    Raises
    ------
    UserInputError
        If one has no key.
    """
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserInputError(f"--set {text}: write KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except json.JSONDecodeError:
            found[key] = value
    return found


def suite_options(site: Profile, **fields: Any) -> SuiteOptions:
    """Return what a run of a suite is told to do, with what the site has.

    Raises
    ------
    UserInputError
        If something does not exist or fit.
    """
    factory(str(fields["suite"]))
    given = {
        "store": str(Path(site.store).expanduser().resolve()),
        "weights": tuple(str(Path(folder).expanduser().resolve()) for folder in site.models),
        "model_servers": site.model_servers,
        "allow_cpu_models": site.allow_cpu_models,
        "pools": tuple(site.pools),
        **fields,
    }
    try:
        return SuiteOptions.model_validate(given)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise UserInputError(f"{key}: {message} (got {first['input']!r})") from problem


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
        Further fields of :class:`~flows.score.suite_options.SuiteOptions`.

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
