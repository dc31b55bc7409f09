"""Models that scorers load in their own process, named by their model folder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.models.base import Models
from tasks.models.device import device_of
from tasks.models.hub import ModelHub, consumed_model
from tasks.models.registry import MODEL_SPECS


class HubSource:
    """A model from a model folder, loaded in this process.

    Class attributes
    ----------------
    kinds
        Kinds of model that it may be: how it is loaded.
    gpu
        Whether it is loaded on the GPU if one is visible.

    Parameters
    ----------
    models
        The models of this process.
    name
        Its name in the model folder.
    dtype
        Of its weights and computations; empty for models that have no choice.
    """

    kinds: Sequence[str]
    gpu: bool = True

    def __init__(self, models: Models, name: str, dtype: str) -> None:
        self._models, self.name, self.dtype = models, name, dtype

    @cached_property
    def _identity(self) -> Any:
        return consumed_model(self._models, self.name)[self.name]

    def settings(self) -> dict[str, Any]:
        """Return the model's identity and dtype; if its weights are missing, what is known about them."""
        try:
            identity = self._identity
        except PrerequisiteError:
            if self.name not in MODEL_SPECS:
                raise
            identity = MODEL_SPECS[self.name].identity
        return {"model": {self.name: identity}, "dtype": self.dtype}

    def libraries(self) -> dict[str, str]:
        """Return the versions of the libraries for preprocessing and computing."""
        return {name: version_of(name) for name in ("torch", "transformers", "pillow")}

    def check(self) -> None:
        """Check that the weights are present and of the right kind, without loading them.

        Raises
        ------
        PrerequisiteError
            If they are missing, with the command that fetches them, or torch is not installed.
        UserInputError
            If it is a model of another kind.
        """
        if isinstance(self._models, ModelHub):
            model = self._models.find(self.name)
            if model.kind not in self.kinds:
                raise UserInputError(
                    f"model {self.name} is of kind {model.kind!r}, but one of kind "
                    f"{' or '.join(map(repr, self.kinds))} is needed: `slvmeval list models` has them, "
                    f"`slvmeval models add NAME FOLDER --kind {self.kinds[0]}` adds one"
                )
        lacking = [name for name, installed in self.libraries().items() if not installed]
        if lacking:
            raise PrerequisiteError(
                f"model {self.name} needs {' and '.join(lacking)}: `make env-models`, or pip install "
                "'slvmeval[gpu]'"
            )

    def loaded(self) -> Any:
        """Return the loaded model; call it each time, so that it can make room for another."""
        options = {"dtype": self.dtype} if self.dtype else {}
        return (on_gpu(self._models) if self.gpu else self._models).get(self.name, **options)


def on_gpu(models: Models) -> Models:
    """Return the same models, loaded on the GPU if one is visible: for work that needs one.

    The device is determined here, where the work is done, not where a run is planned.
    """
    return ModelHub(models.model_folders, device_of("gpu")) if isinstance(models, ModelHub) else models


@cache
def version_of(package: str) -> str:
    """Return the version of an installed package, or an empty text."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
