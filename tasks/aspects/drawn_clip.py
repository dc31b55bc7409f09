"""A drawn clip that shows what every aspect needs, for tests of operations and checks of a site."""

from __future__ import annotations

import numpy as np

from storage_schemas.analysis import AgentAction, CaptionAnalysis, ColoredObject, LocatedObject
from storage_schemas.frames import ColorSpec, Planes
from tasks.media.planes import rgb_to_planes

#: An analysis with an entry of each kind, matching :func:`synthetic_clip`.
FULL_ANALYSIS = CaptionAnalysis(
    subject=("ball",),
    background=("sky", "meadow"),
    dynamic_degree=(AgentAction(agent="ball", action="rolls"),),
    human_action=(AgentAction(agent="man", action="walks"),),
    color=(ColoredObject(color="red", object="ball"),),
    spatial_relationship=(LocatedObject(location="left", object="ball"),),
    scene=("meadow",),
)


def synthetic_clip(frames: int = 3, height: int = 288, width: int = 512) -> Planes:
    """Return a red ball that rolls from the left over a textured meadow under a blue sky.

    Returns
    -------
    ndarray
        BT.709 planes of limited range, ``(frames, height·3/2, width)`` uint8; always the same.
    """
    rng = np.random.Generator(np.random.Philox(key=1))
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    sky = np.stack([90 + 110 * y / height, 150 + 70 * y / height, np.full_like(y, 235)], axis=-1)
    grass = np.stack([60 + 30 * x / width, 150 - 40 * x / width, np.full_like(x, 50)], axis=-1)
    scene = np.where((y < height * 0.55)[..., None], sky, grass)
    scene += rng.normal(0, 9, (height, width, 1))
    clip = np.empty((frames, height, width, 3), np.uint8)
    for index in range(frames):
        middle = width * (0.2 + 0.3 * index / max(frames - 1, 1))
        distance = np.hypot(x - middle, y - height * 0.6) / (height * 0.25)
        ball = np.stack([230 - 90 * distance, 30 + 0 * distance, 30 + 0 * distance], axis=-1)
        picture = np.where((distance < 1)[..., None], ball, scene)
        clip[index] = np.clip(np.rint(picture), 0, 255).astype(np.uint8)
    return rgb_to_planes(clip, ColorSpec())
