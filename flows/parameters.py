"""What a flow is given: parameters as a person writes them, and the options that are made of them.

A deployment's form and a command fill the same parameters; :meth:`FlowParameters.options` resolves both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args

from pydantic import Field, ValidationError

from infra.profile import Profile, load_profile
from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen, ModelServer
from storage_schemas.store import Store

_Model = TypeVar("_Model", bound=Frozen)

ModelFolders = Annotated[tuple[str, ...], Field(description="Folders with downloaded weights.")]
Workers = Annotated[
    int | None,
    Field(ge=1, description="How many tasks run at once where the profile has no worker pools."),
]
Retry = Annotated[bool, Field(description="Try again what failed before.")]
MostDollars = Annotated[float | None, Field(ge=0, description="End the run before it costs more.")]
MostTokens = Annotated[int | None, Field(ge=0, description="End the run before it takes more.")]
PriceList = Annotated[str | None, Field(description="Path of a price list in place of ours.")]


class RunOptions(Frozen):
    """What a run does, with everything resolved; each flow adds its own.

    Parameters
    ----------
    store
        Folder of the store.
    model_servers
        Model servers by name, as the profile says.
    """

    store: str
    model_servers: dict[str, ModelServer] = Field(default_factory=dict)

    @classmethod
    def at(cls, site: Profile, **fields: Any) -> Self:
        """Return options with what the site has.

        Raises
        ------
        UserInputError
            If a value does not fit.
        """
        of_site = {
            "store": _full(site.store),
            "model_folders": tuple(map(_full, site.model_folders)),
            "model_servers": site.model_servers,
            "allow_cpu_models": site.allow_cpu_models,
            "pools": tuple(site.pools),
        }
        return validated(
            cls, {name: value for name, value in of_site.items() if name in cls.model_fields} | fields
        )

    def open_store(self) -> Store:
        """Open the store, making it if there is none."""
        return Store.create(Path(self.store))


class FlowParameters(Frozen):
    """What a person asks a flow for, as text, numbers and switches; None is not given.

    Class attributes
    ----------------
    paths_in
        Fields that are paths, beside those of the profile.
    site_fields
        Fields that go over those of the profile.
    """

    paths_in: ClassVar[tuple[str, ...]] = ()
    site_fields: ClassVar[tuple[str, ...]] = ("store", "model_folders", "workers")

    store: str | None = Field(default=None, description="Folder of the store.")
    profile: str | None = Field(
        default=None,
        description="Path of the site's settings, a .toml file with store, model servers and worker pools.",
    )
    quiet: bool = Field(default=True, description="Draw no progress bars in the worker's own terminal.")

    @abstractmethod
    def options(self, site: Profile) -> RunOptions:
        """Return what a run of this does at a site.

        Raises
        ------
        UserInputError
            For anything that does not exist or fit, before any work.
        """

    def options_on_worker(self, site: Profile) -> RunOptions:
        """Return what a run of this does on a Prefect worker."""
        return self.options(site)

    def paths(self) -> Mapping[str, Sequence[str]]:
        """Return the paths that are given, by field."""
        given = {name: getattr(self, name) for name in ("profile", *self.paths_in)}
        return {name: [path] for name, path in given.items() if path}

    def site(self) -> Profile:
        """Return the settings of the worker's site: the profile, and what goes over it.

        A run on a worker starts in no folder that anybody knows, so every path has to be absolute.

        Raises
        ------
        UserInputError
            For a profile that does not exist or fit, and for a relative path.
        """
        for what, paths in self.paths().items():
            for path in paths:
                check_absolute(what, path)
        given = {name: getattr(self, name, None) or None for name in self.site_fields}
        site = load_profile(Path(self.profile) if self.profile else None, given)
        gallery = [site.gallery] if site.gallery else []
        for what, paths in {
            "store": [site.store],
            "model_folders": site.model_folders,
            "gallery": gallery,
        }.items():
            for path in paths:
                check_absolute(what, path)
        return site

    @classmethod
    def of_form(cls, given: Mapping[str, Any]) -> Self:
        """Return the parameters of a filled form: what is optional and empty or 0 there is not given.

        Raises
        ------
        UserInputError
            If a value does not fit.
        """
        return validated(
            cls,
            {
                name: value
                for name, value in given.items()
                if value or name not in cls.model_fields or cls.model_fields[name].default is not None
            },
        )

    @classmethod
    def form(cls) -> dict[str, tuple[Any, Any, str]]:
        """Return type, default and description of each field of the form, the flow's own fields first.

        A form has one plain field for each parameter: for one that may be None, empty or 0 stands for it.
        """
        levels = [level for level in cls.__mro__ if issubclass(level, FlowParameters)]
        names = dict.fromkeys(name for level in levels for name in level.__annotations__)
        fields = {}
        for name in (name for name in names if name in cls.model_fields):
            field = cls.model_fields[name]
            kind, default = field.annotation, field.default
            if default is None:
                (kind,) = (part for part in get_args(kind) if part is not NoneType)
                default = kind()
            fields[name] = (kind, default, field.description or "")
        return fields


def validated(model: type[_Model], fields: Mapping[str, Any]) -> _Model:
    """Return a model of some fields.

    Raises
    ------
    UserInputError
        With the first field that does not fit.
    """
    try:
        return model.model_validate(dict(fields))
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"])) or "options"
        message = first["msg"].removeprefix("Value error, ")
        raise UserInputError(f"{key}: {message} (got {first['input']!r})") from problem


def check_absolute(what: str, path: str) -> None:
    """Raise UserInputError for a relative path, which names nothing on a worker."""
    if not Path(path).expanduser().is_absolute():
        raise UserInputError(
            f"{what}: {path!r} is not an absolute path: a run on a worker has no folder from which others "
            f"count; write it in full, or name the {what} in the profile"
        )


def required(what: str, path: str | None) -> str:
    """Return a path that has to be given, in full.

    Raises
    ------
    UserInputError
        If it is not given.
    """
    if not path:
        raise UserInputError(f"{what} is empty: give its path")
    return _full(path)


def full_or_none(path: str | None) -> str | None:
    """Return a path in full, or None where none is given."""
    return _full(path) if path else None


def _full(path: str) -> str:
    return str(Path(path).expanduser().resolve())
