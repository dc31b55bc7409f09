"""Look up models by name; each is verified and loaded once per process.

`ModelCheck` checks all models of a build at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage_schemas.checksum_cache import remembered_digests
from storage_schemas.errors import IntegrityError, PrerequisiteError, SlvmevalError, UserInputError
from storage_schemas.sizes import size_text
from tasks.models.backgrounds import BackgroundSet, DrawnLandscapes, open_backgrounds
from tasks.models.base import Models
from tasks.models.loaders import load_model
from tasks.models.mirror import (
    MANIFEST,
    FileProgress,
    MirrorManifest,
    check_sizes,
    check_spec,
    check_sums,
    read_manifest,
)
from tasks.models.registry import (
    MODEL_SPECS,
    SERVED,
    ModelSpec,
    Wheel,
    check_model_name,
    model_spec,
    repository_name,
    unknown_model,
)
from tasks.models.residence import residence

#: Prefix of the names of background image sets: ``backgrounds:nature-dataset``.
BACKGROUNDS = "backgrounds:"


@dataclass(frozen=True)
class FoundModel:
    """A model in a model folder.

    Parameters
    ----------
    name, kind, licence, memory_bytes
        As in :class:`~tasks.models.registry.ModelSpec`.
    path
        The file, or the checkpoint's folder.
    size
        Bytes of all its files.
    identity
        Its part of artifact ids: SHA-256 of the file, or repository, revision and digest of the folder.
    manifest
        The folder's manifest; None for a file.
    """

    name: str
    kind: str
    licence: str
    memory_bytes: int
    path: Path
    size: int
    identity: str | dict[str, str | None]
    manifest: MirrorManifest | None = None

    @property
    def caveat(self) -> str:
        """What checksums do not prove of a built-in model that was added, not fetched; else empty."""
        built_in = self.name in MODEL_SPECS and self.manifest is not None
        if not built_in or self.manifest is None or self.manifest.compared_with_hub:
            return ""
        return (
            "added by hand: files without a known checksum were not compared with the hub, so the commit is "
            "not verified"
        )

    @property
    def weights(self) -> Path:
        """The path for its loader: the file, the folder, or the only file of a folder."""
        if self.manifest is not None and len(self.manifest.files) == 1:
            return self.path / self.manifest.files[0].path
        return self.path


class ModelHub(Models):
    """Looks up models in the model folders; the first folder that contains a model is used.

    A model is a file (U²-Net), or a checkpoint folder with the model's name. Sets of background images are
    subfolders of ``backgrounds``, with image files or Parquet files with a column ``image``; the set
    ``procedural`` is generated and needs no files. Loaded models are shared by all hubs of a process; a
    pickled hub consists of its model folders and its device.

    Parameters
    ----------
    model_folders
        The model folders.
    device
        Device of the models: ``cpu`` or ``cuda``.
    """

    def __init__(self, model_folders: Sequence[Path], device: str = "cpu") -> None:
        self.model_folders = tuple(Path(folder) for folder in model_folders)
        self.device = device

    def get(self, name: str, **options: str | float | bool) -> Any:
        """Return the loaded model, or the open set for ``backgrounds:<id>``.

        Raises
        ------
        PrerequisiteError
            If it is not in any model folder; the message has the command that fetches it.
        IntegrityError
            If its files are wrong or damaged.
        UserInputError
            For an unknown name, and for a model that needs a model server.
        """
        if name.startswith(BACKGROUNDS):
            return self._backgrounds(name.removeprefix(BACKGROUNDS))
        model = self.find(name)
        if model.kind == SERVED:
            raise UserInputError(
                f"model {name} runs behind a model server and is not loaded here: name a model of another "
                "kind instead (`slvmeval list models`)"
            )
        key = (name, str(model.path), str(model.identity), self.device, tuple(sorted(options.items())))
        return residence().get(
            key,
            model.memory_bytes,
            lambda: load_model(model.kind, model.weights, self.device, **options),
            device=self.device,
        )

    def find(self, name: str, *, again: bool = False, progress: FileProgress | None = None) -> FoundModel:
        """Return a model's location after verifying all checksums; nothing is loaded.

        Parameters
        ----------
        again
            Read all files, including those unchanged since they were last read.
        progress
            Called before each file of a folder is checked.

        Raises
        ------
        PrerequisiteError, IntegrityError, UserInputError
            As :meth:`get`.
        """
        model = self.glance(name)
        if model.manifest is not None:
            check_sums(model.path, model.manifest, again=again, progress=progress)
            return model
        sha256 = remembered_digests(model.path.parent, [model.path.name])[model.path.name]
        if sha256 != model.identity:
            raise IntegrityError(
                f"{model.path} is not the expected file (SHA-256 {sha256[:16]}…, expected "
                f"{model.identity!s:.16}…): delete it and fetch it again"
            )
        return model

    def glance(self, name: str) -> FoundModel:
        """Return a model's location after checking names, sizes and the folder's manifest only.

        Raises
        ------
        PrerequisiteError, IntegrityError, UserInputError
            As :meth:`get`, as far as these checks detect it.
        """
        spec = MODEL_SPECS.get(name)
        if spec is None:
            check_model_name(name)
        unfinished = None
        for folder in self.model_folders:
            if spec is not None and isinstance(spec.source, Wheel):
                path = folder / spec.files[0].path
                if path.is_file():
                    return _found_file(spec, path)
            elif (folder / name / MANIFEST).is_file():
                return _found_folder(spec, folder / name)
            elif (folder / name).is_dir():
                unfinished = unfinished or folder / name
        if unfinished is not None:
            raise IntegrityError(
                f"{unfinished} has no {MANIFEST}: if it is a complete checkpoint, register it with "
                f"`slvmeval models add {name} {unfinished} --set files=in-place`"
                + ("" if spec is None else f"; else remove it and fetch it with: {spec.command}")
            )
        repository = repository_name(name)
        if spec is None and repository is not None:
            raise PrerequisiteError(
                f"weights of {repository} are not in {self._folders()}; fetch them with: slvmeval models "
                f"add {repository}"
            )
        if spec is None:
            raise unknown_model(name, dict.fromkeys(self.names()))
        raise PrerequisiteError(
            f"weights of model {name} ({spec.origin}, {size_text(spec.size)}, {spec.licence}) are not in "
            f"{self._folders()}; fetch them with: {spec.command}"
        )

    def names(self) -> list[str]:
        """Return the names of all models: the built-in ones, and others in the model folders."""
        there = {
            path.parent.name for folder in self.model_folders for path in folder.glob(f"[!.]*/{MANIFEST}")
        }
        return [*MODEL_SPECS, *sorted(there - set(MODEL_SPECS))]

    def path(self, name: str) -> Path:
        """Return a model's path after verifying its checksums; nothing is loaded; raises as :meth:`get`."""
        return self.find(name).path

    def checksum(self, name: str) -> str:
        """Return the verified checksum of a model or a set of backgrounds; raises as :meth:`get`."""
        identity = self.consumed(name)
        return identity if isinstance(identity, str) else str(identity["digest"])

    def consumed(self, name: str) -> Any:
        """Return a model's identity in artifact ids, verified but not loaded; raises as :meth:`get`."""
        if name.startswith(BACKGROUNDS):
            return self._backgrounds(name.removeprefix(BACKGROUNDS)).checksum
        return self.find(name).identity

    def _backgrounds(self, id_: str) -> BackgroundSet:
        if id_ == "procedural":
            return DrawnLandscapes()
        if not id_ or Path(id_).name != id_ or id_.startswith("."):
            raise UserInputError(f"{id_!r} is not a valid name for a folder of background images")
        for folder in self.model_folders:
            path = folder / "backgrounds" / id_
            if path.is_dir():
                return open_backgrounds(path)
        raise PrerequisiteError(
            f"background images {id_!r} are not in {self._folders()}: put image files, or Parquet files "
            f"with a column `image`, into the subfolder backgrounds/{id_} of one of these; or set the "
            'parameter backgrounds to "procedural"'
        )

    def _folders(self) -> str:
        return ", ".join(str(folder) for folder in self.model_folders) or "any model folder (none is set)"


def _found_file(spec: ModelSpec, path: Path) -> FoundModel:
    known = spec.files[0]
    size = path.stat().st_size
    if size != known.size:
        raise IntegrityError(
            f"{path} is not the expected file ({size:,} bytes, expected {known.size:,}): delete it and fetch "
            "it again"
        )
    memory, identity = spec.memory_bytes, str(known.sha256)
    return FoundModel(spec.name, spec.kind, spec.licence, memory, path, size, identity)


def _found_folder(spec: ModelSpec | None, path: Path) -> FoundModel:
    manifest = read_manifest(path)
    check_spec(path, manifest, spec)
    check_sizes(path, manifest)
    return FoundModel(
        manifest.name,
        manifest.kind,
        manifest.licence,
        # the built-in spec takes precedence over a manifest that an older version wrote
        spec.memory_bytes if spec is not None else manifest.memory_bytes,
        path,
        manifest.size,
        manifest.identity,
        manifest,
    )


def consumed_model(models: Models, name: str) -> dict[str, Any]:
    """Return a model's name and its identity for the ids of artifacts made with it; the model must exist.

    A single file's identity is its checksum; a checkpoint folder's is its repository, revision and digest. A
    model object that is not in a folder has an attribute `checksum`.

    Raises
    ------
    PrerequisiteError
        If it is missing; the message has the command that fetches it.
    """
    if isinstance(models, ModelHub):
        return {name: models.consumed(name)}
    checksum = getattr(models.get(name), "checksum", None)
    return {name: str(checksum) if checksum is not None else model_spec(name).identity}


class ModelCheck(ModelHub):
    """Checks models without stopping at the first problem.

    Parameters
    ----------
    model_folders
        The model folders.
    quick
        Whether to check names and sizes only.
    progress
        As in :meth:`ModelHub.find`.

    Attributes
    ----------
    problems
        The problem of each model by name; None for a valid model.
    """

    def __init__(
        self, model_folders: Sequence[Path], *, quick: bool = False, progress: FileProgress | None = None
    ) -> None:
        super().__init__(model_folders)
        self.problems: dict[str, SlvmevalError | None] = {}
        self._quick = quick
        self._progress = progress

    def consumed(self, name: str) -> Any:
        """Record a model's problem, if any; return its identity, or None if it has a problem."""
        try:
            identity: Any = self._look(name)
        except (PrerequisiteError, IntegrityError, UserInputError) as problem:
            self.problems[name] = problem
            return ""
        self.problems.setdefault(name, None)
        return identity

    def _look(self, name: str) -> Any:
        if name.startswith(BACKGROUNDS):
            images = self._backgrounds(name.removeprefix(BACKGROUNDS))
            return "" if self._quick else images.checksum
        if self._quick:
            return self.glance(name).identity
        return self.find(name, progress=self._progress).identity

    def raise_problems(self) -> None:
        """Raise the recorded problems.

        Raises
        ------
        PrerequisiteError, IntegrityError, UserInputError
            The only problem, or all problems as one PrerequisiteError.
        """
        problems = [problem for problem in self.problems.values() if problem is not None]
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise PrerequisiteError("\n".join(str(problem) for problem in problems))
