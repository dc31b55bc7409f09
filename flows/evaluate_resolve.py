"""From what a person asks for to what an evaluation is told to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flows.evaluate_options import EvaluateOptions
from flows.resolve import check_absolute, site_of_worker
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from tasks.evaluators.chosen import chosen_from_file, chosen_from_text
from tasks.evaluators.meta_sets.provider import meta_set_from_text
from tasks.evaluators.registry import factory


def evaluate_options(
    site: Profile, evaluators: Sequence[str], file: str | None = None, pairs: str = "", **fields: Any
) -> EvaluateOptions:
    """Return what an evaluation is asked to do.

    Parameters
    ----------
    evaluators
        Each ``NAME`` or ``NAME?key=value``.
    file
        A TOML file with more of them.
    pairs
        Other pairs in place of a release's, as ``NAME:PATH``.
    fields
        Further fields of :class:`EvaluateOptions`.

    Raises
    ------
    UserInputError
        If something does not exist or fit.
    """
    chosen = [chosen_from_text(text) for text in evaluators]
    chosen += chosen_from_file(Path(file)) if file else []
    for one in chosen:
        factory(one.use)
    if pairs and (fields.get("release") or fields.get("version")):
        raise UserInputError("pairs of another set take the place of a release: name one of the two")
    given: Mapping[str, Any] = {
        "store": str(Path(site.store).expanduser().resolve()),
        "evaluators": tuple(chosen),
        **({"pairs_from": meta_set_from_text(pairs)} if pairs else {}),
        "models": tuple(str(Path(folder).expanduser().resolve()) for folder in site.models),
        "model_servers": site.model_servers,
        "allow_cpu_models": site.allow_cpu_models,
        **fields,
    }
    try:
        return EvaluateOptions.model_validate(given)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise UserInputError(f"{key}: {message} (got {first['input']!r})") from problem


def asked_of_worker(
    *,
    evaluators: Sequence[str],
    file: str,
    profile: str,
    settings: Mapping[str, Any],
    pairs: str = "",
    **fields: Any,
) -> tuple[EvaluateOptions, Profile]:
    """Return what a run on a Prefect worker is asked to do, and the site's settings.

    Such a run has no folder of its own that anybody knows, so every path has to be absolute.

    Parameters
    ----------
    evaluators, file, pairs, fields
        As for :func:`evaluate_options`.
    profile
        A TOML file on the worker's machine; else the one of ``SLVMEVAL_PROFILE``, if any.
    settings
        Fields of the profile that the run changes; what is empty or 0 is not given.

    Raises
    ------
    UserInputError
        For anything that does not exist or fit, before any work.
    """
    paths = {"evaluators_file": file}
    paths |= {name: fields.get(name) or "" for name in ("prices", "descriptions")}
    for what, path in paths.items():
        if path:
            check_absolute(what, path)
    if pairs:
        check_absolute("pairs", pairs.partition(":")[2])
    site = site_of_worker(profile, settings)
    return evaluate_options(site, evaluators, file, pairs, **fields), site
