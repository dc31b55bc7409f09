"""Small films of pairs with the change of each aspect, as a campaign encodes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from storage_schemas.frames import ColorSpec, Planes
from tasks.media.encode import UnitFile, UnitWriter, encode_units

SIZE, FPS = 64, 8.0


def _bounded(planes: np.ndarray) -> Planes:
    return np.clip(planes, 0, 255).astype(np.uint8)


def _plain(clip: Planes) -> Planes:
    return _bounded((clip.astype(float) - 128) * 0.5 + 128)


def _painted(clip: Planes) -> Planes:
    return clip // 32 * 32 + 16


def _other_background(clip: Planes) -> Planes:
    changed = clip.copy()
    changed[:, : SIZE // 3] = np.roll(clip[:, : SIZE // 3], SIZE // 2, axis=2)
    return changed


def _other_color(clip: Planes) -> Planes:
    changed = clip.copy()
    changed[:, SIZE:] = 255 - clip[:, SIZE:]
    return changed


def _frozen(clip: Planes) -> Planes:
    return np.repeat(clip[:1], len(clip), axis=0)


def _erased(clip: Planes) -> Planes:
    changed = clip.copy()
    changed[:, 8:40, 16:48] = 128
    return changed


def _mirrored(clip: Planes) -> Planes:
    return clip[:, :, ::-1]


def _blurred(clip: Planes) -> Planes:
    sums = sum(np.roll(clip.astype(float), place, axis=2) for place in (-2, -1, 0, 1, 2))
    return _bounded(np.asarray(sums) / 5)


#: What is done to a clip for each aspect; None where clips are removed or moved.
CHANGES: dict[str, Callable[[Planes], Planes] | None] = {
    "aesthetics": _plain,
    "appearance_style": _painted,
    "background_consistency": _other_background,
    "color": _other_color,
    "comprehensiveness": None,
    "dynamics_degree": _frozen,
    "object_integrity": _erased,
    "spatial_relationship": _mirrored,
    "technical_quality": _blurred,
    "temporal_flow": None,
}


@dataclass(frozen=True)
class Film:
    """Both sides of a pair, and what workers see first of both, in seconds."""

    high: Path
    low: Path
    shown: tuple[tuple[float, float], ...]


def film(folder: Path, aspect: str, number: int) -> Film:
    """Write both sides of a pair of six clips; `number` determines the pictures and which are changed."""
    rng = np.random.default_rng([number, *aspect.encode()])
    counts = [int(count) for count in rng.permutation([13, 7, 21, 9, 16, 12])]
    clips = [_clip(rng, count) for count in counts]
    starts = [0, *accumulate(counts)]
    spans = list(pairwise(starts))
    high, low = folder / "high.mp4", folder / "low.mp4"
    encode_units(high, clips, SIZE, SIZE, ColorSpec(), FPS)
    first, second, decoy = (int(clip) for clip in rng.permutation(len(counts))[:3])
    change, order = CHANGES[aspect], list(range(len(counts)))
    shown = [spans[first], spans[second], spans[decoy]]
    if aspect == "temporal_flow":
        order[first], order[second] = second, first
        moved = [0, *accumulate(counts[clip] for clip in order)]
        shown += [span for place, span in enumerate(pairwise(moved)) if place in (first, second)]
    elif aspect == "comprehensiveness":
        order = [clip for clip in order if clip not in (first, second)]
    with UnitFile(high) as origin, UnitWriter(low, origin, ColorSpec()) as writer:
        for clip in order:
            if change is not None and clip in (first, second):
                writer.encode(change(clips[clip]))
            else:
                writer.copy(starts[clip], counts[clip])
    return Film(high, low, tuple(sorted((begin / FPS, end / FPS) for begin, end in shown)))


def _clip(rng: np.random.Generator, count: int) -> Planes:
    """Return frames of a drifting texture with noise."""
    coarse = rng.integers(0, 255, (SIZE * 3 // 16, SIZE // 8)).astype(float)
    texture = np.kron(coarse, np.ones((8, 8))) + rng.normal(0, 12, (SIZE * 3 // 2, SIZE))
    drift = int(rng.integers(1, 4))
    return np.stack([_bounded(np.roll(texture, drift * place, axis=1)) for place in range(count)])
