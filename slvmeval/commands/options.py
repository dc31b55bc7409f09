"""From the words of the command line to what a build is asked to do."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from pydantic import TypeAdapter, ValidationError

from flows.options import BuildOptions, SourceRoot
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from tasks.recipe import Recipe, load_recipe, recipe_from
from tasks.sources.base import SourceAdapter
from tasks.sources.registry import ADAPTERS


def source_root(text: str) -> SourceRoot:
    """Return the data set that ``KIND:PATH?KEY=VALUE&KEY=VALUE`` means; a plain path is a folder.

    What follows a ``?`` are options of the adapter, each value JSON or text. Where a folder has that literal
    name, the ``?`` belongs to it.

    Raises
    ------
    UserInputError
        For a kind or an option that does not exist, or a value that does not fit.
    """
    kind, colon, rest = text.partition(":")
    if not colon or Path(text).exists() or Path(_split_options(text)[0]).is_dir():
        kind, rest = "folder", text
    path, given = _split_options(rest)
    if kind in ADAPTERS:
        if not path:
            raise UserInputError(f"--sources {text}: give the folder after the colon, {kind}:PATH")
        return SourceRoot(kind=kind, path=path, options=_adapter_options(kind, given, text))
    near = difflib.get_close_matches(kind, ADAPTERS, n=1)
    hint = f" Did you mean {near[0]}:{rest}?" if near else ""
    raise UserInputError(
        f"--sources {text}: there is no kind of source {kind!r}.{hint} Kinds: {', '.join(ADAPTERS)}"
    )


def _split_options(text: str) -> tuple[str, str]:
    """Return path and options; the path ends at the first ``?`` before which there is a folder."""
    if Path(text).exists():
        return text, ""
    ends = [place for place, letter in enumerate(text) if letter == "?"]
    end = next((place for place in ends if Path(text[:place]).is_dir()), ends[0] if ends else len(text))
    return text[:end], text[end + 1 :]


def _adapter_options(kind: str, given: str, text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in filter(None, given.split("&")):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise UserInputError(f"--sources {text}: after the ? write KEY=VALUE&KEY=VALUE")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return typed_options(kind, options)


def typed_options(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return an adapter's options with their values as the adapter takes them, from JSON values.

    Raises
    ------
    UserInputError
        For an option that the adapter does not have, or a value that does not fit.
    """
    adapter = ADAPTERS[kind]
    common = inspect.signature(SourceAdapter).parameters
    hints = get_type_hints(adapter.__init__)
    choices = [name for name in inspect.signature(adapter).parameters if name not in common]
    typed = {}
    for key, value in options.items():
        if key not in choices:
            near = difflib.get_close_matches(key, choices, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            have = f"its options are {', '.join(choices)}" if choices else "it has no options"
            raise UserInputError(f"sources of the kind {kind} have no option {key!r}: {have}.{hint}")
        for part in (hints[key], *get_args(hints[key])):
            if is_dataclass(part) and isinstance(value, dict):
                names = [field.name for field in fields(part)]
                if strange := [name for name in value if name not in names]:
                    raise UserInputError(f"option {key}: no {strange[0]!r}, its keys are {', '.join(names)}")
        try:
            typed[key] = TypeAdapter(hints[key]).validate_python(value)
        except ValidationError as problem:
            raise UserInputError(
                f"option {key} of sources of the kind {kind}: {problem.errors()[0]['msg']} (got {value!r})"
            ) from problem
    return typed


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
