"""Features of subjects and backgrounds of frames: inside a mask, and outside of all masks.

Masks are those of Grounded-SAM-2, as in the paper: SAM 2's in the boxes of Grounding DINO. By the name
``boxes``, the boxes are the masks: a subject includes what is behind it in its box, a background lacks the
whole box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes
from tasks.extras.locot2v.picture_models import Pictures, VisualModel
from tasks.extras.locot2v.visual_settings import ConsistencySettings
from tasks.media.planes import planes_to_rgb
from tasks.models.base import Box, Detector, Segmenter
from tasks.models.residence import Batches
from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache, FrameFeature, Rows

#: Masks of a frame, ``(k, H, W)``.
Masks = NDArray[np.bool_]
#: Number of the best boxes of a frame, each with left, top, right, bottom and score.
MAX_BOXES = 8
_NUMBERS = 5
#: Number of frames that are decoded and held at once.
BATCH = 8


class Boxes(FrameFeature):
    """Boxes of a phrase in a frame, shared by the dimensions of subjects and of backgrounds."""

    name = "boxes"
    width = MAX_BOXES * _NUMBERS

    def __init__(self, detector: VisualModel, phrase: str, settings: ConsistencySettings) -> None:
        self._detector, self._phrase, self._settings = detector, phrase, settings

    def settings(self) -> dict[str, Any]:
        """Return the detector, the phrase and the thresholds."""
        return {
            **self._detector.settings(),
            "phrase": self._phrase,
            "box_threshold": self._settings.box_threshold,
            "text_threshold": self._settings.text_threshold,
            "libraries": self._detector.libraries(),
            "version": 1,
        }

    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the best boxes of frames by index, filled up with zeros."""
        detector: Detector = self._detector.loaded()
        rgb = planes_to_rgb(side.planes(indices), side.color)
        given = self._settings

        def work(batch: slice) -> list[list[Box]]:
            return detector.find(rgb[batch], self._phrase, given.box_threshold, given.text_threshold)

        return np.stack([box_row(boxes) for boxes in Batches(BATCH, owner=detector).run(len(indices), work)])


def box_row(boxes: Sequence[Box]) -> NDArray[np.float32]:
    """Return the best boxes as a row."""
    row = np.zeros((MAX_BOXES, _NUMBERS), np.float32)
    for index, box in enumerate(boxes[:MAX_BOXES]):
        row[index] = box.left, box.top, box.right, box.bottom, box.score
    return row.ravel()


def corners_of(row: NDArray[Any], height: int, width: int) -> list[tuple[int, int, int, int]]:
    """Return the boxes of a row in whole pixels: left, top, right, bottom; each at least one pixel."""
    boxes = []
    for left, top, right, bottom, score in np.asarray(row, dtype=np.float64).reshape(-1, _NUMBERS):
        if score > 0:
            x, y = min(width - 1, math.floor(left)), min(height - 1, math.floor(top))
            boxes.append(
                (x, y, max(x + 1, min(width, math.ceil(right))), max(y + 1, min(height, math.ceil(bottom))))
            )
    return boxes


def masks_of(
    row: NDArray[Any], rgb: Planes, segmenter: Segmenter | None = None, most: int | None = None
) -> Masks:
    """Return the masks of a row's boxes in a frame, the best box's first.

    Parameters
    ----------
    segmenter
        Finds the pixels of the object in each box; None takes all pixels of the boxes.
    most
        Number of the best boxes to use; None for all.
    """
    corners = corners_of(row, *rgb.shape[:2])[:most]
    if segmenter is not None:
        return segmenter.masks(rgb, np.array(corners, np.float64).reshape(-1, 4))
    masks = np.zeros((len(corners), *rgb.shape[:2]), np.bool_)
    for mask, (left, top, right, bottom) in zip(masks, corners, strict=True):
        mask[top:bottom, left:right] = True
    return masks


def cut_out(rgb: Planes, masks: Masks) -> Planes | None:
    """Return the smallest rectangle around the best mask, ``(h, w, 3)``; None without one.

    Pixels outside the mask have its mean colour.
    """
    if not len(masks) or not masks[0].any():
        return None
    rows, columns = np.flatnonzero(masks[0].any(1)), np.flatnonzero(masks[0].any(0))
    inner = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return _filled(rgb[inner], ~masks[0][inner])


def without(rgb: Planes, masks: Masks) -> Planes | None:
    """Return a frame whose masks have the mean colour of the rest; None if no pixel is left."""
    covered: NDArray[np.bool_] = np.logical_or.reduce(masks, axis=0)
    return _filled(rgb, covered)


def _filled(rgb: Planes, where: NDArray[np.bool_]) -> Planes | None:
    """Return a picture with some pixels in the mean colour of the others; None if there are no others."""
    if where.all():
        return None
    if not where.any():
        return rgb
    filled = rgb.copy()
    filled[where] = np.round(rgb[~where].mean(0)).astype(np.uint8)
    return filled


class ThingRow(FrameFeature):
    """Features of a frame's subject or background: 1 and the features, or zeros without it.

    Parameters
    ----------
    part
        ``subject`` or ``background``.
    boxes
        Boxes of subjects; None for a background without subjects.
    segmenter
        The model of masks; None takes the boxes.
    """

    def __init__(
        self,
        part: str,
        boxes: Boxes | None,
        segmenter: VisualModel | None,
        pictures: Pictures,
        cache: FeatureCache,
    ) -> None:
        self.name = f"{part}-features"
        self._part, self._boxes, self._pictures, self._cache = part, boxes, pictures, cache
        self._segmenter = None if boxes is None else segmenter

    @cached_property
    def width(self) -> int:
        """Length of a row: the features, and a flag for their presence."""
        return 1 + int(self._pictures.encoder().width)

    def settings(self) -> dict[str, Any]:
        """Return the settings of boxes and masks, and the model of features."""
        segmenter = self._segmenter
        masks = {} if segmenter is None else {**segmenter.settings(), "libraries": segmenter.libraries()}
        return {
            "boxes": None if self._boxes is None else self._boxes.settings(),
            "masks": masks,
            **self._pictures.settings(),
            "libraries": self._pictures.libraries(),
            "version": 1,
        }

    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the rows of frames by index."""
        width = self.width
        empty = np.zeros((len(indices), Boxes.width), np.float32)
        boxes = empty
        if self._boxes is not None:
            boxes = self._cache.compute_missing(side, indices, self._boxes, batch=BATCH).rows
        rgb = planes_to_rgb(side.planes(indices), side.color)
        parted, most = (cut_out, 1) if self._part == "subject" else (without, None)
        segmenter: Segmenter | None = None if self._segmenter is None else self._segmenter.loaded()
        parts = [
            parted(frame, masks_of(where, frame, segmenter, most))
            for frame, where in zip(rgb, boxes, strict=True)
        ]
        encoder = self._pictures.encoder()
        rows = np.zeros((len(indices), width), np.float32)
        for row, picture in zip(rows, parts, strict=True):
            if picture is not None:
                # regions differ in size, so one by one
                row[0], row[1:] = 1.0, encoder.images(np.ascontiguousarray(picture)[None])[0]
        return rows


def present(rows: Rows) -> NDArray[np.float64]:
    """Return the features of the frames that have any, shape (n, dimensions)."""
    features: NDArray[np.float64] = rows[rows[:, 0] > 0, 1:].astype(np.float64)
    return features
