"""Boxes and the masks made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor

import numpy as np

from tasks.media.planes import Mask
from tasks.models.base import Box

#: Left, top, right, bottom in pixels; right and bottom exclusive.
Corners = tuple[int, int, int, int]


def grown(box: Box, share: float, least: int, height: int, width: int) -> Corners | None:
    """Return a box that is larger on each side, in whole pixels, within the picture.

    Parameters
    ----------
    box
        What a detector found.
    share, least
        How far a side moves out: this share of the box's width or height, at least so many pixels.
    height, width
        Of the picture.

    Returns
    -------
    tuple or None
        Nothing if no pixel of the picture lies in the box itself.
    """
    if min(box.right, width) <= max(box.left, 0) or min(box.bottom, height) <= max(box.top, 0):
        return None
    across = max(least, share * (box.right - box.left))
    down = max(least, share * (box.bottom - box.top))
    return (
        max(0, floor(box.left - across)),
        max(0, floor(box.top - down)),
        min(width, ceil(box.right + across)),
        min(height, ceil(box.bottom + down)),
    )


def boxes_mask(boxes: Iterable[Sequence[int]], height: int, width: int) -> Mask:
    """Return the pixels ``(height, width)`` bool that lie in any of the boxes."""
    mask = np.zeros((height, width), np.bool_)
    for left, top, right, bottom in boxes:
        mask[top:bottom, left:right] = True
    return mask


def touches(box: Box, mask: Mask) -> bool:
    """Return whether a pixel of the mask lies, even in part, in a box."""
    rows = slice(max(0, floor(box.top)), max(0, ceil(box.bottom)))
    columns = slice(max(0, floor(box.left)), max(0, ceil(box.right)))
    return bool(mask[rows, columns].any())
