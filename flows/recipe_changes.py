"""A recipe with single values changed, as a person writes them: ``clips_per_pair=3``."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from storage_schemas.errors import UserInputError
from tasks.recipe import Recipe, load_recipe, own_name, recipe_from


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
        return own_name(recipe_from(fields))
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
