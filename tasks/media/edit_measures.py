"""What an edit did to a picture: how much of it changed, how far the rest moved, whether outlines stayed."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes
from tasks.media.color_names import rgb_to_lab

#: Distance in CIE Lab (CIE76) from which a pixel's colour counts as another one. 2.3 is just noticeable; the
#: nearest two colours of the palette (black, gray and white) lie about 40 apart, and this is half of that.
NOTABLE = 20.0


class EditMeasures(NamedTuple):
    """What an edit did to one picture.

    Attributes
    ----------
    changed_share
        Share of the pixels whose colour moved by `NOTABLE` or more in Lab.
    rest_shift
        Mean absolute difference of all other pixels, in 8-bit steps of RGB; 0 where there are none.
    edges_kept
        Correlation of the strength of the edges in the luma of both, −1 to 1: near 1 where every outline
        stands where it stood. 1 if neither has edges, 0 if only one has.
    """

    changed_share: float
    rest_shift: float
    edges_kept: float


def measure_edit(before: Planes, after: Planes) -> EditMeasures:
    """Compare a picture ``(H, W, 3)`` uint8 (sRGB) with its edited form of the same size."""
    distance = np.linalg.norm(rgb_to_lab(after) - rgb_to_lab(before), axis=-1)
    changed = distance >= NOTABLE
    shift = np.abs(after.astype(np.int16) - before)[~changed]
    return EditMeasures(
        changed_share=float(changed.mean()),
        rest_shift=float(shift.mean()) if shift.size else 0.0,
        edges_kept=_correlation(_edges(before), _edges(after)),
    )


def _edges(rgb: Planes) -> NDArray[np.float64]:
    """Return how steep the luma is at each pixel, ``(H, W)``."""
    luma = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float64)
    return np.hypot(cv2.Sobel(luma, cv2.CV_64F, 1, 0), cv2.Sobel(luma, cv2.CV_64F, 0, 1))


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return Pearson's r of two arrays; 1 if both are flat, 0 if one is."""
    one, other = one - one.mean(), other - other.mean()
    sizes = float(np.linalg.norm(one)), float(np.linalg.norm(other))
    if min(sizes) < 1e-6:
        return 1.0 if max(sizes) < 1e-6 else 0.0
    return float(np.vdot(one, other)) / (sizes[0] * sizes[1])
