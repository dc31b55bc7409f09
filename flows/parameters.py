"""Parameters of a flow, as users write them, and the options resolved from them.

A deployment's form and a command fill in the same parameters; :meth:`FlowParameters.options` resolves both.
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
from storage_schemas.value_problems import value_problem
from tasks.llm.prompt_files import require_prompts

_Model = TypeVar("_Model", bound=Frozen)

ModelFolders = Annotated[tuple[str, ...], Field(description="Folders with downloaded weights.")]
Workers = Annotated[
    int | None,
    Field(ge=1, description="Number of parallel tasks if the profile has no worker pools."),
]
Retry = Annotated[bool, Field(description="Retry what failed before.")]
MostDollars = Annotated[float | None, Field(ge=0, description="Stop the run before it costs more.")]
MostTokens = Annotated[int | None, Field(ge=0, description="Stop the run before it uses more.")]
PriceList = Annotated[str | None, Field(description="Path of a price list that replaces the built-in one.")]
OwnPrompts = Annotated[
    str | None,
    Field(
        description="Folder of prompts that replace the built-in ones; `slvmeval prompts export` makes one."
    ),
]


class RunOptions(Frozen):
    """Resolved options of a run; each flow adds its own.

    Parameters
    ----------
    store
        Folder of the store.
    model_servers
        Model servers by name, from the profile.
    """

    store: str
    model_servers: dict[str, ModelServer] = Field(default_factory=dict)

    @classmethod
    def at(cls, site: Profile, **fields: Any) -> Self:
        """Return options with the site's settings.

        Raises
        ------
        UserInputError
            If a value is invalid.
        """
        of_site = {
            "store": _full(site.store),
            "model_folders": tuple(map(_full, site.model_folders)),
            "model_servers": site.model_servers,
            "allow_cpu_models": site.allow_cpu_models,
            "pools": tuple(site.pools),
            "store_wait_s": site.store_wait_s,
        }
        return validated(
            cls, {name: value for name, value in of_site.items() if name in cls.model_fields} | fields
        )

    def open_store(self) -> Store:
        """Open the store, creating it if necessary."""
        return Store.create(Path(self.store))


class FlowParameters(Frozen):
    """User input of a flow as text, numbers and switches; None means not given.

    Class attributes
    ----------------
    paths_in
        Fields that are paths, in addition to those of the profile.
    site_fields
        Fields that override those of the profile.
    """

    paths_in: ClassVar[tuple[str, ...]] = ()
    site_fields: ClassVar[tuple[str, ...]] = ("store", "model_folders", "workers")

    store: str | None = Field(default=None, description="Folder of the store.")
    profile: str | None = Field(
        default=None,
        description="Path of the site's settings, a .toml file with store, model servers and worker pools.",
    )
    quiet: bool = Field(default=True, description="Do not draw progress bars in the worker's terminal.")

    @abstractmethod
    def options(self, site: Profile) -> RunOptions:
        """Resolve these parameters into options for a site.

        Raises
        ------
        UserInputError
            For invalid or missing values, before any work.
        """

    def options_on_worker(self, site: Profile) -> RunOptions:
        """Resolve these parameters into options for a Prefect worker."""
        return self.options(site)

    def paths(self) -> Mapping[str, Sequence[str]]:
        """Return the given paths by field."""
        given = {name: getattr(self, name) for name in ("profile", *self.paths_in)}
        return {name: [path] for name, path in given.items() if path}

    def site(self) -> Profile:
        """Return the settings of the worker's site: the profile with these parameters' overrides.

        The working folder of a worker is arbitrary, so every path must be absolute.

        Raises
        ------
        UserInputError
            For a missing or invalid profile, or a relative path.
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
        """Return the parameters of a filled-in form, where empty or 0 means not given for optional fields.

        Raises
        ------
        UserInputError
            If a value is invalid.
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
        """Return type, default and description of each form field, the flow's own fields first.

        A form has one plain field per parameter: empty or 0 represents None.
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
    """Validate fields with a model.

    Raises
    ------
    UserInputError
        With the first invalid field.
    """
    try:
        return model.model_validate(dict(fields))
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"])) or "options"
        message = value_problem(first)
        raise UserInputError(f"{key}: {message} (got {first['input']!r})") from problem


def check_absolute(what: str, path: str) -> None:
    """Raise UserInputError for a relative path, which is meaningless on a worker."""
    if not Path(path).expanduser().is_absolute():
        raise UserInputError(
            f"{what}: {path!r} is not an absolute path: the working folder of a worker is arbitrary; give "
            f"the full path, or set the {what} in the profile"
        )


def required(what: str, path: str | None) -> str:
    """Return a required path in full.

    Raises
    ------
    UserInputError
        If it is not given.
    """
    if not path:
        raise UserInputError(f"{what} is empty: give its path")
    return _full(path)


def checked_prompts(folder: str | None) -> str:
    """Return a user's folder of prompts in full, or empty if not given.

    Raises
    ------
    UserInputError
        If the folder has mistakes; nothing has been sent.
    """
    require_prompts(folder)
    return full_or_none(folder) or ""


def full_or_none(path: str | None) -> str | None:
    """Return a path in full, or None if not given."""
    return _full(path) if path else None


def _full(path: str) -> str:
    return str(Path(path).expanduser().resolve())
