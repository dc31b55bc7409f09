"""From the words of the command line to what a build is asked to do."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from flows.options import BuildOptions, SourceRoot
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from tasks.recipe import Recipe, load_recipe, recipe_from
from tasks.sources.registry import ADAPTERS


def source_root(text: str) -> SourceRoot:
    """Return the data set that ``KIND:PATH`` means; a plain path is a folder.

    Raises
    ------
    UserInputError
        For a kind that does not exist.
    """
    kind, colon, path = text.partition(":")
    if not colon or Path(text).exists():
        return SourceRoot(kind="folder", path=text)
    if kind in ADAPTERS:
        if not path:
            raise UserInputError(f"--sources {text}: give the folder after the colon, {kind}:PATH")
        return SourceRoot(kind=kind, path=path)
    near = difflib.get_close_matches(kind, ADAPTERS, n=1)
    hint = f" Did you mean {near[0]}:{path}?" if near else ""
    raise UserInputError(
        f"--sources {text}: there is no kind of source {kind!r}.{hint} Kinds: {', '.join(ADAPTERS)}"
    )


def recipe_with(name_or_path: str, changes: Sequence[str] = ()) -> Recipe:
    """Return a recipe with single values changed, each ``dotted.key=value`` with a JSON value or text.

    A changed recipe is not what its name says any more, so it is called ``NAME-changed`` unless the
    changes name it.

    Raises
    ------
    UserInputError
        For a change that cannot be read or does not fit.
    """
    recipe = load_recipe(name_or_path)
    if not changes:
        return recipe
    fields = recipe.model_dump(mode="json")
    if recipe.pins:
        raise UserInputError(f"recipe {name_or_path} pins its pairs: its values cannot be changed with --set")
    fields["name"] = f"{recipe.name}-changed"
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key:
            raise UserInputError(f"--set {change}: write KEY=VALUE, such as clips_per_pair=3")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        _put(fields, key.split("."), value, change)
    try:
        return recipe_from(fields)
    except UserInputError as problem:
        raise UserInputError(f"--set: {problem}") from problem


def _put(fields: dict[str, Any], path: Sequence[str], value: Any, change: str) -> None:
    here = fields
    for depth, key in enumerate(path[:-1]):
        _known(here, key, path[:depth], change)
        below = here[key]
        if not isinstance(below, dict):
            raise UserInputError(f"--set {change}: {'.'.join(path[: depth + 1])} has no keys below it")
        here = below
    # parameters are those of the operation, which are not spelled out here: its own model checks them
    if "parameters" not in path[:-1]:
        _known(here, path[-1], path[:-1], change)
    here[path[-1]] = value


def _known(here: dict[str, Any], key: str, above: Sequence[str], change: str) -> None:
    if key in here:
        return
    near = difflib.get_close_matches(key, here, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    where = ".".join(above) or "the recipe"
    raise UserInputError(f"--set {change}: {where} has no {key!r}.{hint} Keys: {', '.join(here)}")


def build_options(
    profile: Profile,
    sources: Sequence[str],
    recipe: Recipe,
    *,
    fresh: bool = False,
    retry: bool = False,
) -> BuildOptions:
    """Return what a build is asked to do.

    Raises
    ------
    typer.BadParameter
        If no source was given.
    UserInputError
        If the release's name is none.
    """
    if not sources:
        raise typer.BadParameter("give at least one: folder:PATH or vript:PATH", param_hint="--sources")
    try:
        return BuildOptions(
            store=str(Path(profile.store).expanduser().resolve()),
            sources=tuple(source_root(text) for text in sources),
            recipe=recipe,
            release=profile.release,
            models=tuple(str(Path(folder).expanduser().resolve()) for folder in profile.models),
            fresh=fresh,
            retry=retry,
            settle_s=profile.settle_s,
            quota_bytes=profile.quota_bytes,
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        key = first["loc"][0] if first["loc"] else "options"
        message = first["msg"].removeprefix("Value error, ")
        raise UserInputError(f"{key}: {message} (got {first['input']!r})") from problem
