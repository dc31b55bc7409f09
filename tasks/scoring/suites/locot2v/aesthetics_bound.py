"""The upper bound of aesthetic quality: the predictor's mean score of the best tenth of a folder of pictures.

``python -m tasks.scoring.suites.locot2v.aesthetics_bound FOLDER --models DIR`` prints it. The paper's
pictures are
the part ``data_1024_10K`` of Text-to-Image-2M, which you place yourself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from storage_schemas.errors import SlvmevalError, UserInputError
from tasks.models.aesthetic_head import AestheticHead
from tasks.models.hub import ModelHub
from tasks.scoring.suites.locot2v.aesthetic_quality import upper_bound
from tasks.scoring.suites.locot2v.picture_models import Pictures, VisualModel
from tasks.scoring.suites.locot2v.visual_settings import AestheticSettings, PictureModel

_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")


def picture_scores(folder: Path, encoder: Any, head: AestheticHead) -> Iterator[tuple[Path, float]]:
    """Yield the score of each picture in a folder and its subfolders, one at a time.

    Raises
    ------
    UserInputError
        If there are none, or one cannot be read.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _ENDINGS)
    if not paths:
        raise UserInputError(f"{folder} has no pictures ({', '.join(_ENDINGS)})")
    for path in paths:
        try:
            with Image.open(path) as image:
                rgb = np.asarray(image.convert("RGB"))
        except OSError as problem:
            raise UserInputError(f"{path} is no picture that can be read ({problem}): remove it") from problem
        yield path, float(head.scores(encoder.images(rgb[None]))[0])


def bound_of(folder: Path, models: ModelHub, settings: AestheticSettings) -> tuple[float, int]:
    """Return the mean score of the best tenth of a folder's pictures, and how many pictures it has.

    Raises
    ------
    UserInputError
        If there are no pictures.
    PrerequisiteError
        If a model is missing.
    """
    pictures = Pictures(models, settings.pictures)
    head = VisualModel(models, settings.head, ("aesthetic-head",), libraries=("torch",), gpu=False)
    pictures.check()
    head.check()
    scores = [score for _, score in picture_scores(folder, pictures.encoder(), head.loaded())]
    return upper_bound(scores), len(scores)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the bound of a folder; return the exit code."""
    defaults = AestheticSettings()
    parser = argparse.ArgumentParser(
        prog="python -m tasks.scoring.suites.locot2v.aesthetics_bound",
        description="compute the upper bound of aesthetic quality from a folder of pictures",
    )
    parser.add_argument("folder", type=Path, help="folder of pictures")
    parser.add_argument("--models", type=Path, action="append", required=True, help="a model folder")
    parser.add_argument("--pictures", default=defaults.pictures.model, help="name of the SigLIP")
    parser.add_argument("--head", default=defaults.head, help="name of the predictor's head")
    given = parser.parse_args(arguments)
    settings = AestheticSettings(pictures=PictureModel(model=given.pictures), head=given.head)
    try:
        bound, count = bound_of(given.folder, ModelHub(given.models), settings)
    except SlvmevalError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"visual.aesthetics.upper_bound = {bound:.4f}  # the best tenth of {count} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
