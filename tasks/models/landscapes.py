"""Generated landscapes: sky, sun, clouds, ridges, and water, meadow, dunes or snow in the foreground.

They replace photographs where none may be used or redistributed: no external image is needed, and the same
seed gives the same picture.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes

Image = NDArray[np.float32]
Colour = tuple[int, int, int]


class _Mood(NamedTuple):
    """Colours (RGB) of a time of day."""

    zenith: Colour
    horizon: Colour
    sun: Colour
    cloud: Colour
    far: Colour
    near: Colour
    light: float


_MOODS = (
    _Mood(
        (52, 116, 196), (190, 220, 240), (255, 250, 225), (252, 252, 252), (150, 178, 205), (38, 74, 58), 1.0
    ),
    _Mood(
        (40, 60, 120), (250, 170, 110), (255, 220, 150), (245, 170, 150), (150, 110, 140), (40, 32, 52), 0.75
    ),
    _Mood(
        (86, 120, 170), (255, 214, 178), (255, 240, 200), (255, 225, 215), (170, 165, 190), (62, 72, 70), 0.9
    ),
    _Mood(
        (120, 132, 146), (205, 210, 212), (235, 235, 230), (175, 180, 186), (160, 168, 176), (58, 70, 66), 0.8
    ),
    _Mood((14, 20, 52), (62, 84, 128), (235, 238, 250), (58, 70, 104), (46, 62, 100), (10, 16, 28), 0.45),
    _Mood((66, 30, 92), (246, 112, 90), (255, 200, 120), (214, 96, 120), (120, 64, 110), (28, 16, 40), 0.65),
)

#: Ground by kind: colour at the horizon and at the feet.
_GROUNDS: dict[str, tuple[Colour, Colour]] = {
    "meadow": ((150, 180, 88), (46, 92, 34)),
    "dunes": ((232, 200, 140), (176, 124, 66)),
    "snow": ((236, 242, 250), (178, 196, 220)),
    "autumn": ((206, 150, 62), (112, 62, 26)),
}


def _noise(rng: np.random.Generator, height: int, width: int, cells: tuple[int, int], octaves: int) -> Image:
    """Return fractal value noise in 0 … 1, ``(height, width)``; `cells` are those of the first octave."""
    total = np.zeros((height, width), np.float32)
    weight, weights = 1.0, 0.0
    for octave in range(octaves):
        rows, columns = cells[0] << octave, cells[1] << octave
        grid = rng.random((min(rows, height) + 1, min(columns, width) + 1), dtype=np.float32)
        total += weight * cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)
        weights += weight
        weight *= 0.5
    return cast("Image", np.clip(total / np.float32(weights), 0, 1))


def _mix(a: Image, b: Image, share: Image) -> Image:
    return cast("Image", a + (b - a) * share[..., None])


def _flat(colour: Colour, like: Image) -> Image:
    return np.broadcast_to(np.asarray(colour, np.float32), like.shape)


def _ramp(top: Colour, bottom: Colour, rows: int, width: int, power: float = 1.0) -> Image:
    share = np.linspace(0, 1, rows, dtype=np.float32)[:, None, None] ** np.float32(power)
    first, last = np.asarray(top, np.float32), np.asarray(bottom, np.float32)
    return cast("Image", np.broadcast_to(first + (last - first) * share, (rows, width, 3)))


def _sky(rng: np.random.Generator, mood: _Mood, height: int, width: int, horizon: int) -> Image:
    picture = np.empty((height, width, 3), np.float32)
    picture[:horizon] = _ramp(mood.zenith, mood.horizon, horizon, width, float(rng.uniform(0.7, 1.6)))
    picture[horizon:] = np.asarray(mood.horizon, np.float32)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    sun_x, sun_y = rng.uniform(0.1, 0.9) * width, rng.uniform(0.15, 0.95) * horizon
    radius = rng.uniform(0.02, 0.05) * width
    distance = np.sqrt((x - np.float32(sun_x)) ** 2 + (y - np.float32(sun_y)) ** 2)
    glow = np.exp(-distance / np.float32(radius * 5)) * np.float32(0.8)
    picture = _mix(picture, _flat(mood.sun, picture), glow)
    picture = _mix(picture, _flat(mood.sun, picture), np.clip(np.float32(radius) - distance + 1, 0, 1))
    cover = float(rng.uniform(0.4, 0.75))
    clouds = np.clip((_noise(rng, height, width, (5, 3), 5) - np.float32(cover)) * 4, 0, 1)
    return _mix(picture, _flat(mood.cloud, picture), clouds * np.float32(0.85))


def _ridges(rng: np.random.Generator, picture: Image, mood: _Mood, horizon: int) -> Image:
    height, width, _ = picture.shape
    layers = int(rng.integers(2, 6))
    rows = np.arange(height, dtype=np.float32)[:, None]
    for layer in range(layers):
        depth = (layer + 1) / layers
        rough = int(rng.integers(2, 5))
        outline = _noise(rng, 1, width, (1, rough), 6)[0]
        rise = np.float32(horizon * rng.uniform(0.25, 0.75) * (1.15 - 0.75 * depth))
        top = np.float32(horizon) - outline * rise
        inside = np.clip(rows - top + np.float32(0.5), 0, 1) * (rows < horizon)
        far, near = np.asarray(mood.far, np.float32), np.asarray(mood.near, np.float32)
        body = np.broadcast_to(far + (near - far) * np.float32(depth**1.3), picture.shape)
        # light from one side: noise pulled down the slope
        shade = _noise(rng, height, width, (4, 10), 4) * np.float32(0.5) + np.float32(0.75)
        # haze gathers at the foot of a ridge
        haze = np.clip((rows - top) / np.maximum(rise, 1), 0, 1) * np.float32(0.45 * (1 - depth))
        body = _mix(body * shade[..., None], _flat(mood.horizon, picture), haze)
        picture = _mix(picture, body, inside.astype(np.float32))
    return picture


def _water(rng: np.random.Generator, picture: Image, mood: _Mood, horizon: int) -> None:
    height, width, _ = picture.shape
    rows = height - horizon
    if rows < 2:
        return
    depth = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    ripple = _noise(rng, rows, width, (24, 4), 3) - np.float32(0.5)
    y = np.broadcast_to(np.arange(rows, dtype=np.float32)[:, None], (rows, width))
    source_y = np.clip(
        horizon - 1 - y * np.float32(horizon / rows * 0.9) + ripple * 14 * depth, 0, horizon - 1
    )
    source_x = np.arange(width, dtype=np.float32)[None, :] + ripple * 22 * depth
    mirrored = cv2.remap(
        picture,
        source_x.astype(np.float32),
        source_y.astype(np.float32),
        cv2.INTER_LINEAR,
        None,
        cv2.BORDER_REFLECT,
    )
    deep = np.asarray(mood.zenith, np.float32) * np.float32(0.55)
    share = np.broadcast_to(np.float32(0.2) + depth * np.float32(0.4), (rows, width))
    picture[horizon:] = (
        _mix(np.asarray(mirrored, np.float32), np.broadcast_to(deep, mirrored.shape), share)
        + ripple[..., None] * 40
    )


def _ground(rng: np.random.Generator, picture: Image, mood: _Mood, horizon: int, kind: str) -> None:
    height, width, _ = picture.shape
    rows = height - horizon
    if rows < 2:
        return
    far, near = _GROUNDS[kind]
    body = _ramp(far, near, rows, width) * np.float32(mood.light)
    # coarser when nearer: perspective stretches the noise
    texture = _noise(rng, rows * 2, width, (24, 24), 4)
    grow = np.float32(rows * 2 - 1) * np.linspace(0, 1, rows, dtype=np.float32) ** np.float32(0.5)
    smooth = kind in ("dunes", "snow")
    rolling = _noise(rng, rows, width, (3, 2) if smooth else (6, 3), 3) - np.float32(0.5)
    grain = texture[grow.astype(np.intp)] - np.float32(0.5)
    body = body * (1 + grain * np.float32(0.25 if smooth else 0.6) + rolling * np.float32(0.5))[..., None]
    picture[horizon:] = _mix(body, _flat(mood.horizon, body), _fade(rows, width))


def _fade(rows: int, width: int) -> Image:
    """Return the share of the horizon's haze over each row of the ground."""
    return np.broadcast_to(
        np.float32(0.5) * np.exp(-np.linspace(0, 12, rows, dtype=np.float32))[:, None], (rows, width)
    )


def _conifers(rng: np.random.Generator, picture: Image, mood: _Mood, horizon: int) -> None:
    height, width, _ = picture.shape
    count = int(rng.integers(6, 26))
    # from far to near, so that near trees cover far ones
    for foot in np.sort(rng.uniform(0.02, 0.5, count)):
        foot_y = int(horizon + foot * (height - horizon))
        tall = (foot_y - horizon + 0.1 * height) * rng.uniform(0.8, 1.8)
        middle = rng.uniform(0, 1) * width
        colour = np.asarray(mood.near, np.float32) * np.float32(rng.uniform(0.6, 1.2))
        for tier in range(5):
            top = foot_y - tall * (1 - tier * 0.17)
            base = foot_y - tall * (0.62 - tier * 0.145)
            half = tall * (0.07 + 0.045 * tier)
            corners = [(middle, top), (middle - half, base), (middle + half, base)]
            # coordinates in sixteenths of a pixel, for smooth edges
            points = np.round(np.asarray(corners) * 16).astype(np.int32)
            cv2.fillConvexPoly(picture, points, [float(value) for value in colour], cv2.LINE_8, 4)


def draw_landscape(rng: np.random.Generator, height: int, width: int) -> Planes:
    """Return a landscape.

    Parameters
    ----------
    rng
        Source of all random choices.
    height, width
        Size in pixels, at least 16.

    Returns
    -------
    ndarray
        RGB ``(height, width, 3)`` uint8.
    """
    mood = _MOODS[int(rng.integers(len(_MOODS)))]
    horizon = int(height * rng.uniform(0.42, 0.72))
    kind = ("water", *_GROUNDS)[int(rng.integers(1 + len(_GROUNDS)))]
    picture = _ridges(rng, _sky(rng, mood, height, width, horizon), mood, horizon)
    if kind == "water":
        _water(rng, picture, mood, horizon)
    else:
        _ground(rng, picture, mood, horizon, kind)
    if kind in ("meadow", "snow", "autumn") and rng.random() < 0.6:
        _conifers(rng, picture, mood, horizon)
    # a little grain, as in any photograph
    picture += rng.normal(0, 2.0, (height, width, 1)).astype(np.float32)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)
