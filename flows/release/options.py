"""Options of a build, and the file that stores the last ones."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from flows.parameters import RunOptions, checked_prompts
from flows.release.parameters import BuildParameters
from infra.profile import Profile
from storage_schemas.commit import write_atomic
from storage_schemas.errors import IntegrityError, UsageError, UserInputError, did_you_mean, suggestion
from storage_schemas.json_checksum import read_checked_json, with_checksum
from storage_schemas.model import Frozen
from storage_schemas.names import NAME_RULE, is_name, key_value
from storage_schemas.source import DamageRule
from storage_schemas.store import Store
from storage_schemas.value_problems import value_problem
from tasks.recipe import Recipe, load_recipe, own_name, recipe_from, with_prompts
from tasks.sources.base import SourceAdapter
from tasks.sources.registry import ADAPTERS


class SourceRoot(Frozen):
    """One data set: kind of adapter, folder, and the adapter's options."""

    kind: str = "folder"
    path: str
    options: dict[str, Any] = Field(default_factory=dict)


class BuildOptions(RunOptions):
    """What to build, from which sources, in which store.

    Parameters
    ----------
    sources
        The data sets.
    release
        Name of the release; a new version extends the newest one of the same name.
    model_folders
        Model folders, in order of precedence.
    fresh
        Ignore older versions: draw all candidates again.
    retry
        Retry what failed in earlier builds.
    settle_s
        Ignore files that changed less than this many seconds ago.
    leave_unsettled
        Leave files that are still being written to the next run; otherwise they are set aside.
    quota_bytes
        Maximum bytes of the store, or None.
    store_wait_s
        Maximum time to wait for an unavailable store while the build runs, in seconds.
    allow_cpu_models
        Whether work of a GPU pool may run on a worker without a visible GPU.
    """

    sources: tuple[SourceRoot, ...]
    recipe: Recipe
    release: str = "main"
    model_folders: tuple[str, ...] = ()
    fresh: bool = False
    retry: bool = False
    settle_s: float = 0.0
    leave_unsettled: bool = False
    quota_bytes: int | None = None
    store_wait_s: float = 300.0
    allow_cpu_models: bool = False

    @field_validator("release")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not is_name(value):
            raise ValueError(f"a release's name must have {NAME_RULE}")
        return value


def source_root(text: str, what: str = "--sources") -> SourceRoot:
    """Parse ``KIND:PATH?KEY=VALUE&KEY=VALUE`` into a data set; a plain path is a folder.

    The adapter's options follow the ``?``, each value JSON or text. If a folder has that literal name, the
    ``?`` belongs to it.

    Raises
    ------
    UserInputError
        For an unknown kind or option, or an invalid value.
    """
    kind, colon, rest = text.partition(":")
    if not colon or Path(text).exists() or Path(_split_options(text)[0]).is_dir():
        kind, rest = "folder", text
    path, given = _split_options(rest)
    if kind in ADAPTERS:
        if not path:
            raise UserInputError(f"{what} {text}: give the folder after the colon, {kind}:PATH")
        return SourceRoot(kind=kind, path=path, options=_adapter_options(kind, given, text))
    hint = did_you_mean(f"{kind}:{rest}", [f"{kind}:{rest}" for kind in ADAPTERS])
    raise UserInputError(
        f"{what} {text}: unknown kind of source {kind!r}.{hint} Kinds: {', '.join(ADAPTERS)}"
    )


def _split_options(text: str) -> tuple[str, str]:
    """Return path and options; the path ends at the first ``?`` that follows an existing folder."""
    if Path(text).exists():
        return text, ""
    ends = [index for index, letter in enumerate(text) if letter == "?"]
    end = next((index for index in ends if Path(text[:index]).is_dir()), ends[0] if ends else len(text))
    return text[:end], text[end + 1 :]


def _adapter_options(kind: str, given: str, text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in filter(None, given.split("&")):
        key, value = key_value(part, f"--sources {text}", "KEY=VALUE&KEY=VALUE after the ?")
        options[key] = value
    return typed_options(kind, options)


def typed_options(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an adapter's options from JSON values to the adapter's types.

    Raises
    ------
    UserInputError
        For an unknown option or an invalid value.
    """
    adapter = ADAPTERS[kind]
    common = inspect.signature(SourceAdapter).parameters
    hints = get_type_hints(adapter.__init__)
    choices = [name for name in inspect.signature(adapter).parameters if name not in common]
    typed = {}
    for key, value in options.items():
        if key not in choices:
            hint = did_you_mean(key, choices)
            have = f"its options are {', '.join(choices)}" if choices else "it has no options"
            raise UserInputError(f"sources of the kind {kind} have no option {key!r}: {have}.{hint}")
        for part in (hints[key], *get_args(hints[key])):
            if is_dataclass(part) and isinstance(value, dict):
                names = [field.name for field in fields(part)]
                if strange := [name for name in value if name not in names]:
                    raise UserInputError(
                        f"option {key}: unknown key {strange[0]!r}, its keys are {', '.join(names)}"
                    )
        try:
            typed[key] = TypeAdapter(hints[key]).validate_python(value)
        except ValidationError as problem:
            why = value_problem(problem.errors()[0])
            raise UserInputError(
                f"option {key} of sources of the kind {kind}: {why} (got {value!r})"
            ) from problem
    return typed


def recipe_with(name_or_path: str, changes: Sequence[str] = ()) -> Recipe:
    """Return a recipe with changed values, each ``dotted.key=value`` with a JSON value or text.

    A changed recipe no longer matches its name, so it is called ``NAME-changed`` unless the changes set its
    name.

    Raises
    ------
    UserInputError
        For an invalid change.
    """
    recipe = load_recipe(name_or_path)
    if not changes:
        return recipe
    fields = recipe.model_dump(mode="json")
    if recipe.pins:
        raise UsageError(f"recipe {name_or_path} pins its pairs: its values cannot be changed with --set")
    fields["name"] = f"{recipe.name}-changed"
    for change in changes:
        key, value = key_value(change, f"--set {change}", "KEY=VALUE, such as clips_per_pair=3")
        _put(fields, key.split("."), value, change)
    try:
        return own_name(recipe_from(fields))
    except UserInputError as problem:
        raise UsageError(f"--set: {problem}") from problem


def _put(fields: dict[str, Any], path: Sequence[str], value: Any, change: str) -> None:
    here = fields
    for depth, key in enumerate(path[:-1]):
        _known(here, key, path[:depth], change)
        below = here[key]
        if not isinstance(below, dict):
            raise UsageError(f"--set {change}: {'.'.join(path[: depth + 1])} has no keys below it")
        here = below
    # parameters without fields here: the operation's own model checks them
    if "parameters" not in path[:-1]:
        _known(here, path[-1], path[:-1], change)
    here[path[-1]] = value


def _known(here: dict[str, Any], key: str, above: Sequence[str], change: str) -> None:
    if key in here:
        return
    hint = did_you_mean(key, here)
    where = ".".join(above) or "the recipe"
    raise UsageError(f"--set {change}: {where} has no {key!r}.{hint} Keys: {', '.join(here)}")


def build_options(parameters: BuildParameters, site: Profile) -> BuildOptions:
    """Resolve the parameters of a build into options; the site's sources are the default.

    Raises
    ------
    UserInputError
        Without sources, or for an invalid value.
    """
    named = parameters.sources or site.sources
    if not named:
        raise UsageError("no sources: give folder:PATH or vript:PATH, or set `sources` in the profile")
    damaged = [f"damaged={_damage_rule(parameters.damaged)}"] if parameters.damaged else []
    recipe = recipe_with(parameters.recipe, [*parameters.changes, *damaged])
    return BuildOptions.at(
        site,
        sources=tuple(source_root(text) for text in named),
        recipe=with_prompts(recipe, checked_prompts(parameters.prompts)),
        release=site.release,
        fresh=parameters.fresh,
        retry=parameters.retry,
        settle_s=site.settle_s,
        quota_bytes=site.quota_bytes,
    )


def _damage_rule(text: str) -> str:
    if text not in get_args(DamageRule):
        raise UsageError(f"--set damaged={text}: {suggestion(text, get_args(DamageRule), 'choose')}")
    return text


def remember(store: Store, options: BuildOptions) -> None:
    """Store a build's options."""
    write_atomic(request_path(store, options.release), with_checksum(options.model_dump_json(indent=1)))


def last_options(store: Store, release: str) -> BuildOptions:
    """Return the options of a release's last build.

    Raises
    ------
    UserInputError
        If there was none.
    """
    path = request_path(store, release)
    try:
        options = BuildOptions.model_validate_json(read_checked_json(path))
        # JSON loses the options' types
        sources = tuple(
            root.model_copy(update={"options": typed_options(root.kind, root.options)})
            for root in options.sources
        )
        return options.model_copy(update={"sources": sources})
    except FileNotFoundError as problem:
        raise UserInputError(
            f"no build of release {release!r} was started in {store.root}: run `slvmeval build` first, or "
            "choose another name"
        ) from problem
    except (ValidationError, IntegrityError) as problem:
        raise UserInputError(
            f"{path} is damaged or was written by another version of this program: run "
            "`slvmeval build --retry` with the same options as before"
        ) from problem


def request_path(store: Store, release: str) -> Path:
    """Return the path of the file with the options of a release's last build."""
    return store.cache / f"build-request-{release}.json"
