"""Models that dimensions of pixels and features load; one that is missing harms no other dimension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from tasks.media.planes import planes_to_rgb
from tasks.models.base import Models
from tasks.models.hub import ModelHub
from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache, FrameFeature, Rows
from tasks.scoring.judges.local_models import HubSource, on_gpu, version_of
from tasks.scoring.suites.locot2v.visual_settings import PictureModel

#: Kinds of model that give features of pictures.
PICTURE_KINDS = ("picture-features", "clip")
#: Frames of a video whose features are kept; of longer ones they are computed anew each time they are wanted.
MOST_KEPT = 20_000
#: Frames that are decoded, and held, at once.
BATCH = 32
_AT_ONCE = 1024


class SeenModel(HubSource):
    """A model of a model folder, of one of several kinds.

    Parameters
    ----------
    kinds
        How it may have to be loaded.
    libraries
        On which packages its numbers depend.
    dtype
        Of its weights and sums; empty for models that have no choice.
    gpu
        Whether it is loaded on the GPU where one is visible.
    """

    def __init__(
        self,
        models: Models,
        name: str,
        kinds: Sequence[str],
        libraries: Sequence[str] = ("torch", "transformers", "pillow"),
        dtype: str = "",
        gpu: bool = True,
    ) -> None:
        super().__init__(models, name, dtype)
        self._gpu = gpu
        self._kinds, self._libraries = tuple(kinds), tuple(libraries)

    def libraries(self) -> dict[str, str]:
        """Return the versions on which the last digits of its numbers depend."""
        return {name: version_of(name) for name in self._libraries}

    def settings(self) -> dict[str, Any]:
        """Return its identity; where it is not there, what is known of it.

        Raises
        ------
        PrerequisiteError
            If it is not there, and nothing is known of it.
        """
        self._need()
        return super().settings()

    def check(self) -> None:
        """Check that it is there and of a kind that fits; nothing is loaded.

        Raises
        ------
        PrerequisiteError
            If not, with what to do: other dimensions go on.
        """
        self._need()
        if isinstance(self._models, ModelHub):
            found = self._models.find(self.name)
            if found.kind not in self._kinds:
                raise PrerequisiteError(
                    f"model {self.name} is of kind {found.kind!r}, needed is one of kind "
                    f"{' or '.join(self._kinds)}: `slvmeval models list` has them"
                )
        lacking = [name for name, found in self.libraries().items() if not found]
        if lacking:
            raise PrerequisiteError(
                f"model {self.name} needs {' and '.join(lacking)}: `make env-models`, or pip install "
                "'slvmeval[gpu]'"
            )

    def loaded(self) -> Any:
        """Return the loaded model; ask each time, so that it can make room for another."""
        options = {"dtype": self.dtype} if self.dtype else {}
        return (on_gpu(self._models) if self._gpu else self._models).get(self.name, **options)

    def _need(self) -> None:
        if not isinstance(self._models, ModelHub) or self.name in self._models.names():
            return
        folders = ", ".join(map(str, self._models.model_folders)) or "any model folder (none is set)"
        raise PrerequisiteError(
            f"model {self.name} is not in {folders}: bring its weights with `slvmeval models add {self.name} "
            f"FOLDER --kind {self._kinds[0]}`, see docs/locot2v.md, or name another in the setting seen"
        )


class Pictures(SeenModel):
    """A model that gives features of pictures."""

    def __init__(self, models: Models, model: PictureModel) -> None:
        super().__init__(models, model.model, PICTURE_KINDS, dtype=model.dtype)

    def encoder(self) -> Any:
        """Return the loaded model: it has a ``width`` and ``images(rgb)``."""
        return self.loaded()


class PictureRow(FrameFeature):
    """The features of a whole frame; all dimensions that want the same model's share them."""

    name = "picture-features"

    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures

    @cached_property
    def width(self) -> int:
        """How many numbers a row has."""
        return int(self._pictures.encoder().width)

    def settings(self) -> dict[str, Any]:
        """Return the model, its dtype and the libraries that make pictures ready."""
        return {**self._pictures.settings(), "libraries": self._pictures.libraries(), "version": 1}

    def compute(self, side: Side, places: Sequence[int]) -> Rows:
        """Return the features of frames by place, shape (n, width)."""
        rows: NDArray[np.float32] = self._pictures.encoder().images(
            planes_to_rgb(side.planes(places), side.color)
        )
        return rows


def feature_rows(
    cache: FeatureCache, side: Side, places: Sequence[int], feature: FrameFeature
) -> Iterator[Rows]:
    """Yield the features of frames in order, a few hundred rows at a time.

    Up to `MOST_KEPT` frames come from the cache and go into it. Of more, none is kept: memory does not grow
    with the length of a video.
    """
    if len(places) <= MOST_KEPT:
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            yield cache.compute_missing(side, some, feature, batch=BATCH).rows
        return
    for start in range(0, len(places), BATCH):
        yield np.asarray(feature.compute(side, places[start : start + BATCH]), feature.dtype)
