"""Parameters of a flow, as users write them, and the options resolved from them.

A deployment's form and a command fill in the same parameters, which a function of each flow resolves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, get_args

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from infra.profile import ENVIRONMENT_PREFIX, PROFILE_VARIABLE, Profile, load_profile
from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen, ModelServer
from storage_schemas.placement import Placement
from storage_schemas.value_problems import value_problem

if TYPE_CHECKING:
    from storage_schemas.store import Store

_Model = TypeVar("_Model", bound=Frozen)


@dataclass(frozen=True)
class Given:
    """How a parameter is given on the command line, where it is not ``--name-of-the-field``.

    Parameters
    ----------
    flags
        Its flags; a word without dashes makes it an argument that follows the command's name.
    metavar
        Placeholder of its value in the help.
    panel
        Section of the help.
    path
        Whether it is a path, or paths: relative to the working directory on the command line, absolute
        in a form.
    variable
        Environment variable that sets it.
    required
        Whether the command line requires it, although a form can leave it empty.
    form_only
        Whether the command line expresses it in another way.
    no_folder
        Whether a path must not be a folder.
    folder
        Whether a path must be a folder that exists.
    by_set
        Whether it is set by ``--set NAME=VALUE``, because it is rarely needed.
    """

    flags: tuple[str, ...] = ()
    metavar: str | None = None
    panel: str | None = None
    path: bool = False
    variable: str = ""
    required: bool = False
    form_only: bool = False
    no_folder: bool = False
    folder: bool = False
    by_set: bool = False


def given(field: FieldInfo) -> Given:
    """Return how a parameter is given on the command line."""
    return next((part for part in field.metadata if isinstance(part, Given)), Given())


#: Sections of the help.
INPUT, OUTPUT, LIMITS, SITE, RARE = "Input", "Output", "Limits", "Site", "Rarely needed"

ModelFolders = Annotated[
    tuple[str, ...],
    Given(("--model-folder",), "DIR", RARE, path=True, variable=ENVIRONMENT_PREFIX + "MODEL_FOLDERS"),
    Field(description="Folders with downloaded weights."),
]
Workers = Annotated[
    int | None,
    Given(panel=RARE, variable=ENVIRONMENT_PREFIX + "WORKERS"),
    Field(ge=1, description="Number of parallel tasks if the profile has no worker pools."),
]
ReleaseName = Annotated[
    str | None,
    Given(("release",), "RELEASE"),
    Field(description="NAME, or NAME@3 for its version 3; may be omitted if there is only one."),
]
#: A form has a separate field for it; the command line uses ``NAME@3``.
ReleaseVersion = Annotated[
    int | None,
    Given(form_only=True),
    Field(ge=1, description="Version of the release; the newest by default."),
]
Retry = Annotated[bool, Field(description="Retry what failed before.")]
MaxDollars = Annotated[
    float | None,
    Given(panel=LIMITS),
    Field(ge=0, description="Stop the run before it costs more."),
]
MaxTokens = Annotated[
    int | None,
    Given(panel=RARE),
    Field(ge=0, description="Stop the run before it uses more."),
]
PriceList = Annotated[
    str | None,
    Given(metavar="FILE", path=True, by_set=True),
    Field(description="A price list that replaces the built-in one."),
]
DryRun = Annotated[bool, Given(panel=LIMITS), Field(description="Only estimate the cost.")]
OwnPrompts = Annotated[
    str | None,
    Given(metavar="DIR", panel=RARE, path=True),
    Field(description="Folder of prompts that replace the built-in ones; `slvmeval prompts` creates one."),
]


class RunOptions(Frozen):
    """Resolved options of a run; each flow adds its own.

    Parameters
    ----------
    store
        Folder of the store.
    model_servers
        Model servers by name, from the profile.
    placement
        Where work runs.
    """

    store: str
    model_servers: dict[str, ModelServer] = Field(default_factory=dict)
    placement: Placement = Placement()

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
            "placement": site.work_placement,
            "store_wait_s": site.store_wait_s,
        }
        return validated(
            cls, {name: value for name, value in of_site.items() if name in cls.model_fields} | fields
        )

    def open_store(self) -> Store:
        """Open the store, creating it if necessary."""
        from storage_schemas.store import Store

        return Store.create(Path(self.store))


class SiteParameters(Frozen):
    """The store's location and the site's settings; None means not given.

    A field is declared once: the command line and the deployment's form both take its type, default and
    description from here.

    Class attributes
    ----------------
    site_fields
        Fields that override those of the profile.
    """

    site_fields: ClassVar[tuple[str, ...]] = ("store", "model_folders", "workers")

    store: Annotated[
        str | None, Given(metavar="DIR", panel=SITE, path=True, variable=ENVIRONMENT_PREFIX + "STORE")
    ] = Field(default=None, description="Folder of the store.")
    profile: Annotated[
        str | None, Given(metavar="FILE", panel=SITE, path=True, variable=PROFILE_VARIABLE)
    ] = Field(
        default=None,
        description="Settings of the site, a .toml file with store, model servers and worker pools.",
    )

    def site(self) -> Profile:
        """Return the settings of the site: the profile with these parameters' overrides.

        Raises
        ------
        UserInputError
            For a missing or invalid profile.
        """
        overrides = {name: getattr(self, name, None) or None for name in self.site_fields}
        return load_profile(Path(self.profile) if self.profile else None, overrides)

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Return the names of the fields, a subclass's own first."""
        levels = [level for level in cls.__mro__ if issubclass(level, SiteParameters)]
        names = dict.fromkeys(name for level in levels for name in level.__annotations__)
        return tuple(name for name in names if name in cls.model_fields)


class ReleaseParameters(SiteParameters):
    """A release of a store."""

    release: ReleaseName = None


class FlowParameters(SiteParameters):
    """User input for a flow as text, numbers and switches; None means not given."""

    def paths(self) -> Mapping[str, Sequence[str]]:
        """Return the given paths by field."""
        own = [name for name, field in type(self).model_fields.items() if given(field).path]
        values = {name: getattr(self, name) for name in own if name not in self.site_fields}
        return {name: [value] for name, value in values.items() if value}

    def site_on_worker(self) -> Profile:
        """Return the settings of a worker's site.

        The working folder of a worker is arbitrary, so every path must be absolute.

        Raises
        ------
        UserInputError
            For a missing or invalid profile, or a relative path.
        """
        for what, paths in self.paths().items():
            for path in paths:
                check_absolute(what, path)
        site = self.site()
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
        fields = {}
        for name in cls.fields():
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
    from tasks.llm.prompt_files import require_prompts

    require_prompts(folder)
    return full_or_none(folder) or ""


def full_or_none(path: str | None) -> str | None:
    """Return a path in full, or None if not given."""
    return _full(path) if path else None


def _full(path: str) -> str:
    return str(Path(path).expanduser().resolve())
