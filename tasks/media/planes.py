"""Conversion between planes and RGB, views of the planes, and the masked merge.

A frame is 8-bit 4:2:0 in one ``(H·3/2, W)`` array: luma, then the U plane and the V plane, each packed as
``H/4`` rows (I420). All arithmetic uses integers, so that results are the same on every machine.

Chroma is upsampled by replication and downsampled by the mean of 2×2 pixels, rounded half up. For colours
inside RGB, limited-range planes survive a round trip through RGB bit by bit; at full range a sample may
change by one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import ColorSpec, Matrix, Planes

Rgb = NDArray[np.uint8]
Mask = NDArray[np.bool_]

#: Red and blue weights of luma: ITU-R BT.601, BT.709, BT.2020 (non-constant luminance).
_LUMA_WEIGHTS: dict[Matrix, tuple[float, float]] = {
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
}

#: Binary places of the fixed-point coefficients; sums stay below 2³¹.
_PLACES = 16
_HALF = 1 << (_PLACES - 1)


class PlaneViews(NamedTuple):
    """Views of one or many frames' planes: ``(…, H, W)``, ``(…, H/2, W/2)``, ``(…, H/2, W/2)`` uint8."""

    y: Planes
    u: Planes
    v: Planes


class _Coefficients(NamedTuple):
    """Fixed-point coefficients of one :class:`ColorSpec`."""

    luma_offset: int
    luma_gain: int
    from_u: tuple[int, int, int]
    from_v: tuple[int, int, int]
    to_y: tuple[int, int, int]
    to_u: tuple[int, int, int]
    to_v: tuple[int, int, int]


def _fixed(value: float) -> int:
    return round(value * (1 << _PLACES))


@lru_cache(maxsize=8)
def _coefficients(color: ColorSpec) -> _Coefficients:
    red, blue = _LUMA_WEIGHTS[color.matrix]
    green = 1 - red - blue
    # 8-bit steps of luma and chroma for the whole span of RGB: 219 and 224 at limited range
    luma, chroma = (255.0, 255.0) if color.full_range else (219.0, 224.0)
    y_gain, c_gain = luma / 255, chroma / 255
    u_scale, v_scale = c_gain / (2 * (1 - blue)), c_gain / (2 * (1 - red))
    to_y = (_fixed(red * y_gain), _fixed(green * y_gain), _fixed(blue * y_gain))
    to_u = (_fixed(-red * u_scale), _fixed(-green * u_scale))
    to_v = (_fixed(-green * v_scale), _fixed(-blue * v_scale))
    return _Coefficients(
        luma_offset=0 if color.full_range else 16,
        luma_gain=_fixed(1 / y_gain),
        from_u=(0, _fixed(-2 * blue * (1 - blue) / green / c_gain), _fixed(2 * (1 - blue) / c_gain)),
        from_v=(_fixed(2 * (1 - red) / c_gain), _fixed(-2 * red * (1 - red) / green / c_gain), 0),
        to_y=to_y,
        # the third is the negative sum of the others, so that greys have exactly zero chroma
        to_u=(*to_u, -sum(to_u)),
        to_v=(-sum(to_v), *to_v),
    )


def split_planes(planes: Planes) -> PlaneViews:
    """Return writable views of luma and both chroma planes.

    Parameters
    ----------
    planes
        ``(H·3/2, W)`` or ``(n, H·3/2, W)`` uint8, C-contiguous frames; H a multiple of 4, W even.

    Raises
    ------
    ValueError
        If the shape is not valid for planes, or the memory layout does not allow views.
    """
    *lead, rows, width = planes.shape
    if rows % 6 or width % 2:
        raise ValueError(f"planes of shape {planes.shape}: rows must be a multiple of 6, width even")
    height = rows * 2 // 3
    quarter = height // 4
    shape = (*lead, height // 2, width // 2)
    u = planes[..., height : height + quarter, :].reshape(shape)
    v = planes[..., height + quarter :, :].reshape(shape)
    if planes.size and not (np.may_share_memory(u, planes) and np.may_share_memory(v, planes)):
        raise ValueError("planes must be C-contiguous, else their chroma has no view")
    return PlaneViews(planes[..., :height, :], u, v)


def empty_planes(count: int, height: int, width: int) -> Planes:
    """Return uninitialised planes ``(count, height·3/2, width)`` uint8."""
    return np.empty((count, height * 3 // 2, width), np.uint8)


def planes_to_rgb(planes: Planes, color: ColorSpec) -> Rgb:
    """Convert planes to RGB.

    Parameters
    ----------
    planes
        ``(n, H·3/2, W)`` uint8.
    color
        Matrix and range of the planes.

    Returns
    -------
    ndarray
        ``(n, H, W, 3)`` uint8; colours outside RGB are clipped.
    """
    k = _coefficients(color)
    views = split_planes(np.ascontiguousarray(planes))
    count, height, width = views.y.shape
    rgb = np.empty((count, height, width, 3), np.uint8)
    # split rows and columns in pairs, so that one chroma sample broadcasts to its four pixels
    luma = np.empty((height // 2, 2, width // 2, 2), np.int32)
    total = np.empty_like(luma)
    offset = _HALF - k.luma_offset * k.luma_gain
    for index in range(count):
        np.multiply(views.y[index].reshape(luma.shape), np.int32(k.luma_gain), out=luma, dtype=np.int32)
        luma += offset
        u = views.u[index].astype(np.int32) - 128
        v = views.v[index].astype(np.int32) - 128
        for channel in range(3):
            part = u * k.from_u[channel] + v * k.from_v[channel]
            np.add(luma, part[:, None, :, None], out=total)
            np.right_shift(total, _PLACES, out=total)
            np.clip(total, 0, 255, out=total)
            rgb[index, :, :, channel] = total.reshape(height, width)
    return rgb


def rgb_to_planes(rgb: Rgb, color: ColorSpec) -> Planes:
    """Convert RGB to planes; chroma is the mean of 2×2 pixels, rounded half up.

    Parameters
    ----------
    rgb
        ``(n, H, W, 3)`` uint8; H a multiple of 4, W even.
    color
        Matrix and range of the resulting planes.

    Returns
    -------
    ndarray
        ``(n, H·3/2, W)`` uint8.
    """
    k = _coefficients(color)
    count, height, width, _ = rgb.shape
    planes = empty_planes(count, height, width)
    views = split_planes(planes)
    luma_offset = _HALF + (k.luma_offset << _PLACES)
    # the sum of four pixels has two more binary places
    chroma_offset = (128 << (_PLACES + 2)) + (1 << (_PLACES + 1))
    for index in range(count):
        channels = [rgb[index, :, :, channel].astype(np.int32) for channel in range(3)]
        luma = channels[0] * k.to_y[0]
        luma += channels[1] * k.to_y[1]
        luma += channels[2] * k.to_y[2]
        luma += luma_offset
        luma >>= _PLACES
        np.clip(luma, 0, 255, out=luma)
        views.y[index] = luma
        sums = [
            channel[0::2, 0::2] + channel[0::2, 1::2] + channel[1::2, 0::2] + channel[1::2, 1::2]
            for channel in channels
        ]
        for view, weights in ((views.u, k.to_u), (views.v, k.to_v)):
            part = sums[0] * weights[0]
            part += sums[1] * weights[1]
            part += sums[2] * weights[2]
            part += chroma_offset
            part >>= _PLACES + 2
            np.clip(part, 0, 255, out=part)
            view[index] = part
    return planes


def merge_masked(original: Planes, changed: Planes, mask: Mask) -> Planes:
    """Return `original` with the pixels under `mask` taken from `changed`.

    Luma changes exactly under the mask. A chroma sample changes only if *all* of its 2×2 pixels lie under the
    mask, since it colours all four. Outside the mask, planes and RGB stay bit-identical.

    Parameters
    ----------
    original, changed
        ``(n, H·3/2, W)`` uint8.
    mask
        ``(n, H, W)`` bool, or ``(H, W)`` for all frames.
    """
    merged = np.array(original, copy=True, order="C")
    out = split_planes(merged)
    new = split_planes(np.ascontiguousarray(changed))
    mask = np.broadcast_to(mask, out.y.shape)
    np.copyto(out.y, new.y, where=mask)
    inside = mask[:, 0::2, 0::2] & mask[:, 0::2, 1::2] & mask[:, 1::2, 0::2] & mask[:, 1::2, 1::2]
    np.copyto(out.u, new.u, where=inside)
    np.copyto(out.v, new.v, where=inside)
    return merged
