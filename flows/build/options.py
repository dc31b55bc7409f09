"""What a build is told to do: from what a person asks for, and as the store keeps it."""

from __future__ import annotations

import difflib
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from flows.worker_site import check_absolute, site_of_worker
from infra.profile import Profile
from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen, ModelServer
from storage_schemas.store import Store
from tasks.aspects.base import Pool
from tasks.recipe import Recipe, load_recipe, own_name, recipe_from
from tasks.sources.base import SourceAdapter
from tasks.sources.registry import ADAPTERS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class SourceRoot(Frozen):
    """One data set: the kind of its adapter, its folder, and options of the adapter."""

    kind: str = "folder"
    path: str
    options: dict[str, Any] = Field(default_factory=dict)


class BuildOptions(Frozen):
    """What to build, from what, and where it is kept.

    Parameters
    ----------
    store
        Folder of the store; made if it is missing.
    sources
        The data sets.
    release
        Name of the release; a new version extends the newest one of the same name.
    models
        Folders in which weights are looked for.
    fresh
        Extend nothing: draw all candidates anew.
    retry
        Try again what failed in earlier builds.
    settle_s
        Leave files alone that changed less than this many seconds ago.
    quota_bytes
        Most bytes the store may have, or None.
    placement
        Worker pools of single aspects, in place of those that their operations ask for.
    allow_cpu_models
        Whether work of the pool ``h100`` may run on a worker that sees no GPU.
    model_servers
        Model servers by the names that recipes use.
    """

    store: str
    sources: tuple[SourceRoot, ...]
    recipe: Recipe
    release: str = "main"
    models: tuple[str, ...] = ()
    fresh: bool = False
    retry: bool = False
    settle_s: float = 0.0
    quota_bytes: int | None = None
    placement: dict[str, Pool] = Field(default_factory=dict)
    allow_cpu_models: bool = False
    model_servers: dict[str, ModelServer] = Field(default_factory=dict)

    @field_validator("release")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("a release's name is letters, digits, '.', '_' and '-', at most 64")
        return value


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


def remember(store: Store, options: BuildOptions) -> None:
    """Keep what a build is asked to do."""
    write_atomic(asked_path(store, options.release), options.model_dump_json(indent=1).encode())


def last_options(store: Store, release: str) -> BuildOptions:
    """Return what the last build of a release was asked to do.

    Raises
    ------
    UserInputError
        If none is known.
    """
    path = asked_path(store, release)
    try:
        asked = BuildOptions.model_validate_json(path.read_bytes())
        # in JSON they have lost their types
        sources = tuple(
            root.model_copy(update={"options": typed_options(root.kind, root.options)})
            for root in asked.sources
        )
        return asked.model_copy(update={"sources": sources})
    except FileNotFoundError as problem:
        raise UserInputError(
            f"no build of release {release!r} was started in {store.root}: run `slvmeval build` first, or "
            "name another --release"
        ) from problem
    except ValidationError as problem:
        raise UserInputError(
            f"{path} was written by another version of this program: run `slvmeval build --retry` with "
            "the same options as before"
        ) from problem


def asked_path(store: Store, release: str) -> Path:
    """Return the file that says it."""
    return store.cache / f"asked-{release}.json"
