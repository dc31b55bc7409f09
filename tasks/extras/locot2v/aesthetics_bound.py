"""The upper bound of aesthetic quality: the predictor's mean score of the best tenth of a set of pictures.

The paper's RR-UB (LoCoT2V-Bench, appendix B.5); its pictures are the part ``data_1024_10K`` of
Text-to-Image-2M.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from storage_schemas.errors import UserInputError
from storage_schemas.regular_files import open_regular
from tasks.extras.locot2v.aesthetic_quality import upper_bound
from tasks.extras.locot2v.picture_models import Pictures, VisualModel
from tasks.extras.locot2v.visual_settings import AestheticSettings
from tasks.models.base import Models

_MODELS = AestheticSettings()
_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")


def pictures_in(folder: Path) -> list[Path]:
    """Return the pictures in a folder and its subfolders, sorted.

    Raises
    ------
    UserInputError
        If there are none.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _ENDINGS)
    if not paths:
        raise UserInputError(f"{folder} has no pictures ({', '.join(_ENDINGS)})")
    return paths


def bound_of(
    paths: Sequence[Path],
    models: Models,
    step: Callable[[int, int, str], None] = lambda done, total, note: None,
    *,
    siglip: str = _MODELS.pictures.model,
    head: str = _MODELS.head,
) -> float:
    """Return the mean score of the best tenth of some pictures, each read and scored separately.

    Parameters
    ----------
    paths
        At least one picture.
    step
        Called with (done, total, file name) after each.
    siglip, head
        Names of the two models in the model folders.

    Raises
    ------
    UserInputError
        If one cannot be read.
    PrerequisiteError
        If a model is missing.
    """
    pictures = Pictures(models, _MODELS.pictures.model_copy(update={"model": siglip}))
    last = VisualModel(models, head, ("aesthetic-head",), libraries=("torch",), gpu=False)
    pictures.check()
    last.check()
    scores = []
    for number, path in enumerate(paths, 1):
        try:
            with open_regular(path) as file, Image.open(file) as image:
                rgb = np.asarray(image.convert("RGB"))
        except OSError as problem:
            why = problem.strerror or "it is not a whole picture"
            raise UserInputError(f"{path} cannot be used ({why}): replace or remove it") from problem
        scores.append(float(last.loaded().scores(pictures.encoder().images(rgb[None]))[0]))
        step(number, len(paths), path.name)
    return upper_bound(scores)
