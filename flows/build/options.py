"""Parameters and options of a build, and the file in which the store keeps the last ones."""

from __future__ import annotations

import difflib
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from flows.parameters import FlowParameters, ModelFolders, Retry, RunOptions, Workers
from infra.profile import Profile
from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
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


class BuildOptions(RunOptions):
    """What to build, from what, and where it is kept.

    Parameters
    ----------
    sources
        The data sets.
    release
        Name of the release; a new version extends the newest one of the same name.
    model_folders
        Folders in which weights are looked for.
    fresh
        Extend nothing: draw all candidates anew.
    retry
        Try again what failed in earlier builds.
    settle_s
        Leave files alone that changed less than this many seconds ago.
    leave_unsettled
        Take no note of files that are still being written: the next run finds them. Else they are set aside.
    quota_bytes
        Most bytes the store may have, or None.
    placement
        Worker pools of single aspects, in place of those that their operations ask for.
    allow_cpu_models
        Whether work of the pool ``h100`` may run on a worker that sees no GPU.
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
    placement: dict[str, Pool] = Field(default_factory=dict)
    allow_cpu_models: bool = False

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


class BuildParameters(FlowParameters):
    """Build an SLVMEval release, or bring it up to date: only what is missing is made.

    What is empty or 0 is as the profile says. Paths are absolute, on the machine of the Prefect worker.
    """

    site_fields: ClassVar[tuple[str, ...]] = (
        *FlowParameters.site_fields,
        "release",
        "settle_s",
        "gallery",
    )

    sources: tuple[str, ...] = Field(
        default=(), description="Data sets, each KIND:PATH such as folder:/data/videos."
    )
    recipe: str = Field(
        default=DEFAULT_RECIPE,
        description="cpu-approx, paper, paper-eight, paper-lightning, or the path of a .toml or .json file.",
    )
    changes: tuple[str, ...] = Field(
        default=(), description="Single values of the recipe, each KEY=VALUE such as clips_per_pair=3."
    )
    release: str | None = Field(
        default=None, description="Name of the release; a new version extends the newest one of it."
    )
    fresh: bool = Field(default=False, description="Extend no older version, draw all candidates anew.")
    retry: Retry = False
    settle_s: float | None = Field(
        default=None,
        ge=0,
        description="Leave files for the next run that changed less than this many seconds ago.",
    )
    gallery: str | None = Field(default=None, description="Folder into which the gallery is written.")
    model_folders: ModelFolders = ()
    workers: Workers = None

    def paths(self) -> Mapping[str, Sequence[str]]:
        """Return the paths that are given, by field."""
        return {**super().paths(), "sources": [source_root(text).path for text in self.sources]}

    def options(self, site: Profile) -> BuildOptions:
        """Return what a build of this does; where no source is named, those of the site are built."""
        named = self.sources or site.sources
        if not named:
            raise UserInputError(
                "no sources are named: give folder:PATH or vript:PATH, or `sources` in the profile"
            )
        return BuildOptions.at(
            site,
            sources=tuple(source_root(text) for text in named),
            recipe=recipe_with(self.recipe, self.changes),
            release=site.release,
            fresh=self.fresh,
            retry=self.retry,
            settle_s=site.settle_s,
            quota_bytes=site.quota_bytes,
            placement=site.placement,
        )

    def options_on_worker(self, site: Profile) -> BuildOptions:
        """Return what a build of this does on a Prefect worker, which runs again and again."""
        return self.options(site).model_copy(update={"leave_unsettled": True})


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
