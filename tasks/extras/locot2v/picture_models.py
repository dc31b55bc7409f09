"""Models that the visual dimensions load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.extras.locot2v.visual_settings import PictureModel
from tasks.media.planes import planes_to_rgb
from tasks.models.base import Models
from tasks.models.hub import ModelHub
from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache, FrameFeature, Rows
from tasks.scoring.judges.local_models import HubSource, version_of

#: Kinds of model that give features of pictures.
PICTURE_KINDS = ("picture-features", "clip")
#: Maximum frames of a video whose features are stored; those of longer videos are computed each time.
MAX_KEPT = 20_000
#: Number of frames that are decoded and held at once.
BATCH = 32
_AT_ONCE = 1024


class VisualModel(HubSource):
    """A model from a model folder; a missing one affects only the dimensions that need it.

    Parameters
    ----------
    kinds
        Kinds of model that it may be.
    libraries
        Packages that its numbers depend on.
    gpu
        As for :class:`HubSource`.
    instead
        What ``visual=cpu-approx`` takes in its place; empty if nothing does.
    """

    def __init__(
        self,
        models: Models,
        name: str,
        kinds: Sequence[str],
        libraries: Sequence[str] = ("torch", "transformers", "pillow"),
        dtype: str = "",
        gpu: bool = True,
        instead: str = "",
    ) -> None:
        super().__init__(models, name, dtype)
        self._instead = f"; or choose the setting visual=cpu-approx, which takes {instead}" if instead else ""
        self.kinds, self.gpu, self._libraries = tuple(kinds), gpu, tuple(libraries)

    def libraries(self) -> dict[str, str]:
        """Return the versions that affect the last digits of its numbers."""
        return {name: version_of(name) for name in self._libraries}

    def settings(self) -> dict[str, Any]:
        """Return its identity; if its weights are missing, what is known about them.

        Raises
        ------
        PrerequisiteError
            If it is missing and nothing is known about it.
        """
        self._require()
        return super().settings()

    def check(self) -> None:
        """Check that it is present and of the right kind, without loading it.

        Raises
        ------
        PrerequisiteError
            If not, with the remedy.
        """
        self._require()
        try:
            super().check()
        except (UserInputError, PrerequisiteError) as problem:
            raise PrerequisiteError(f"{problem}{self._instead}") from problem

    def _require(self) -> None:
        if not isinstance(self._models, ModelHub) or self.name in self._models.names():
            return
        folders = ", ".join(map(str, self._models.model_folders)) or "any model folder (none is set)"
        raise PrerequisiteError(
            f"model {self.name} is not in {folders}: add its weights with `slvmeval models add {self.name} "
            f"FOLDER --kind {self.kinds[0]}`, see docs/locot2v.md, or name another in the setting "
            f"visual{self._instead}"
        )


class Pictures(VisualModel):
    """A model that gives features of pictures."""

    def __init__(self, models: Models, model: PictureModel) -> None:
        super().__init__(models, model.model, PICTURE_KINDS, dtype=model.dtype)

    def encoder(self) -> Any:
        """Return the loaded model: it has a ``width`` and ``images(rgb)``."""
        return self.loaded()


class PictureRow(FrameFeature):
    """The features of a whole frame, shared by all dimensions that use the same model."""

    name = "picture-features"

    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures

    @cached_property
    def width(self) -> int:
        """Length of a row."""
        return int(self._pictures.encoder().width)

    def settings(self) -> dict[str, Any]:
        """Return the model, its dtype and the libraries that preprocess pictures."""
        return {**self._pictures.settings(), "libraries": self._pictures.libraries(), "version": 1}

    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the features of frames by index, shape (n, width)."""
        rows: NDArray[np.float32] = self._pictures.encoder().images(
            planes_to_rgb(side.planes(indices), side.color)
        )
        return rows


def feature_rows(
    cache: FeatureCache, side: Side, indices: Sequence[int], feature: FrameFeature
) -> Iterator[Rows]:
    """Yield the features of frames in order, a few hundred rows at a time.

    Up to `MAX_KEPT` frames are cached. Longer videos are not, so that memory does not grow with their
    length.
    """
    if len(indices) <= MAX_KEPT:
        for start in range(0, len(indices), _AT_ONCE):
            some = indices[start : start + _AT_ONCE]
            yield cache.compute_missing(side, some, feature, batch=BATCH).rows
        return
    for start in range(0, len(indices), BATCH):
        yield np.asarray(feature.compute(side, indices[start : start + BATCH]), feature.dtype)
