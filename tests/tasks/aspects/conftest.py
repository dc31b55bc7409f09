"""Frames and models for the tests of aspects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slvmeval.testing import FULL_ANALYSIS
from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.frames import ColorSpec, Planes
from tasks.aspects.base import ClipContext, ClipSpan, PixelOperation
from tasks.media.planes import planes_to_rgb, rgb_to_planes
from tasks.models.backgrounds import DrawnLandscapes
from tasks.models.base import Models
from tests.tasks.aspects.planted import ColourDetector, GreyNoise, PlantedModels
from tests.tasks.aspects.planted_editors import Patch

COLOR = ColorSpec()
#: What an operation needs else: weights and images that exist.
SMALL_NETWORK: dict[str, Any] = {"model": "u2netp", "backgrounds": "procedural"}


class Disc:
    """Stands in for U²-Net: a soft disc in the middle of the left half is salient."""

    def mask(self, rgb: Planes) -> Planes:
        height, width, _ = rgb.shape
        y, x = np.mgrid[0:height, 0:width]
        distance = np.hypot(x - width * 0.3, y - height * 0.55) / (height * 0.3)
        return np.clip(255 * (1.3 - distance) / 0.4, 0, 255).astype(np.uint8)


@pytest.fixture(scope="session")
def stub_models() -> Models:
    """The networks of onnxruntime as a disc, drawn landscapes, and planted models for those on torch."""
    return PlantedModels(
        u2net=Disc(),
        u2netp=Disc(),
        **{f"backgrounds:{name}": DrawnLandscapes() for name in ("procedural", "nature-dataset")},
        grounding_dino_base=ColourDetector(),
        stable_diffusion_inpainting=GreyNoise(),
        qwen_image_edit_2509=Patch(),
    )


@pytest.fixture(scope="session")
def photographs() -> Planes:
    """Strips of three photographs, 512×96 px, as planes ``(3, 144, 512)``, from scikit-image's wheel."""
    from skimage import data

    pictures = [data.astronaut()[60:156], data.coffee()[120:216, 50:562], data.rocket()[180:276, 60:572]]
    return rgb_to_planes(np.stack(pictures), COLOR)


@pytest.fixture
def clip_of(stub_models: Models) -> Callable[..., ClipContext]:
    """Makes the context of a clip."""

    def make(
        frames: int,
        analysis: CaptionAnalysis = FULL_ANALYSIS,
        index: int = 0,
        source: str = "s",
        models: Models | None = None,
        planes: Planes | None = None,
    ) -> ClipContext:
        shown = np.zeros((frames, 48, 32), np.uint8) if planes is None else planes
        return ClipContext(
            span=ClipSpan(index, index * 100, frames),
            color=COLOR,
            analysis=analysis,
            seed=(7, source, "aspect"),
            models=models or stub_models,
            read=lambda place, count: shown[place : place + count],
        )

    return make


@pytest.fixture
def degrade(clip_of: Callable[..., ClipContext]) -> Callable[..., Planes]:
    """Runs a pixel operation on planes as the build does, and gives planes back."""

    def run(
        operation: PixelOperation[Any],
        planes: Planes,
        strength: str | None = None,
        choice: dict[str, Any] | None = None,
        **overrides: Any,
    ) -> Planes:
        parameters = operation.parameters(strength, overrides)
        clip = clip_of(len(planes))
        chosen = operation.choose(clip, parameters) if choice is None else choice
        if operation.works_on == "planes":
            return operation.apply(planes, 0, clip, parameters, chosen)
        rgb = planes_to_rgb(planes, COLOR)
        return rgb_to_planes(operation.apply(rgb, 0, clip, parameters, chosen), COLOR)

    return run
