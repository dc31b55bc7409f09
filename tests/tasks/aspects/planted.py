"""A detector and an inpainting model that are simple functions of the picture, for tests without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from tasks.models.base import Box, Detector, Inpainter, Models, OutOfMemory

#: What a name is found by: pixels in which this channel of RGB is far above both others.
CHANNELS = {"ball": 0, "leaf": 1, "sea": 2}


class ColourDetector(Detector):
    """Finds a ball by red, a leaf by green, a sea by blue: one box around all such pixels; nothing else."""

    checksum = "planted detector"

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.asked: list[tuple[str, int]] = []

    def find(self, rgb: Planes, phrase: str, box_threshold: float, text_threshold: float) -> list[list[Box]]:
        self.asked.append((phrase, len(rgb)))
        if self.most is not None and len(rgb) > self.most:
            raise OutOfMemory(f"{len(rgb)} pictures")
        return [self._boxes(picture, phrase) for picture in rgb]

    def _boxes(self, picture: Planes, phrase: str) -> list[Box]:
        if phrase not in CHANNELS:
            return []
        wanted = picture[..., CHANNELS[phrase]].astype(int)
        others = np.delete(picture, CHANNELS[phrase], axis=-1).max(axis=-1)
        rows, columns = np.nonzero(wanted - others > 60)
        if not len(rows):
            return []
        edges = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        left, top, right, bottom = map(float, edges)
        return [Box(left=left, top=top, right=right, bottom=bottom, score=0.8, label=phrase)]


class FixedDetector(Detector):
    """Finds the same boxes in every picture, whatever is asked for."""

    checksum = "fixed detector"

    def __init__(self, *edges: tuple[float, float, float, float]) -> None:
        self.boxes = [
            Box(left=left, top=top, right=right, bottom=bottom, score=0.9, label="it")
            for left, top, right, bottom in edges
        ]

    def find(self, rgb: Planes, phrase: str, box_threshold: float, text_threshold: float) -> list[list[Box]]:
        return [self.boxes for _ in rgb]


class GreyNoise(Inpainter):
    """Paints noise around a grey over the whole picture: what is outside of a mask must be merged away."""

    checksum = "planted inpainter"
    device, dtype = "cpu", "float32"

    def __init__(self, most: int | None = None, words: int | None = None) -> None:
        self.most, self.words = most, words
        self.calls: list[dict[str, Any]] = []

    def read(self, text: str) -> str:
        return text if self.words is None else " ".join(text.split()[: self.words])

    def inpaint(
        self,
        rgb: Planes,
        masks: NDArray[np.bool_],
        prompt: str,
        negative: str,
        seeds: Sequence[int],
        steps: int,
        guidance: float,
    ) -> Planes:
        self.calls.append({"count": len(rgb), "prompt": prompt, "negative": negative, "seeds": [*seeds]})
        if self.most is not None and len(rgb) > self.most:
            raise OutOfMemory(f"{len(rgb)} pictures")
        noise = [np.random.default_rng(seed).integers(110, 140, rgb.shape[1:3]) for seed in seeds]
        return np.repeat(np.stack(noise)[..., None], 3, axis=-1).astype(np.uint8)


class Unable(GreyNoise):
    """Paints nothing: what it gives back is nearly the picture itself."""

    def inpaint(self, rgb: Planes, *args: Any, **kwargs: Any) -> Planes:
        return np.where(rgb > 250, rgb, rgb + 1).astype(np.uint8)


class PlantedModels(Models):
    """Gives planted models by name, and remembers with which options they were asked for."""

    def __init__(self, **models: Any) -> None:
        self.models = {name.replace("_", "-"): model for name, model in models.items()}
        self.options: dict[str, dict[str, Any]] = {}

    def get(self, name: str, **options: Any) -> Any:
        if name not in self.models:
            raise PrerequisiteError(f"no model {name}")
        self.options[name] = options or self.options.get(name, {})
        return self.models[name]


def planted(detector: Detector, inpainter: Inpainter) -> PlantedModels:
    return PlantedModels(grounding_dino_base=detector, stable_diffusion_inpainting=inpainter)
