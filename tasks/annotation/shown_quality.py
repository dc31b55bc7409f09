"""Encode what workers see first of a pair again, each clip of each side with a quality of its own.

The damaged clips are encoded later than everything else, so their settings, sizes and key frames could tell
them. Here the shown clips of both sides, changed or not, are decoded and encoded again, and both sides get
their IDR frames at the same places. Everything else is copied.

A clip's quantiser is drawn, so it says nothing of the pictures. The first macroblock of each frame, in a
corner, gets one colour, the same on both sides, and faint noise: the arithmetic code behind it begins at no
known place. Otherwise a slice in which nothing moves would have known bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path

import av
import numpy as np

from storage_schemas.errors import IntegrityError
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.rng import keyed_rng, shuffled
from tasks.media.encode import EncoderSettings, UnitFile, UnitWriter

#: The quantisers that are drawn, and one finer than all; differences are not visible at any of them.
QUANTISERS, FINEST = range(15, 19), 14
#: Pixels of a macroblock's side.
_BLOCK = 16


@dataclass(frozen=True)
class _Block:
    """Frames between two places where both sides can be cut.

    `units` has the number of frames from each IDR frame to the next. `clip` is the first frame of the clip
    that is encoded again; None if the block is copied.
    """

    first: int
    units: tuple[int, ...]
    clip: int | None


def encode_shown(
    sides: tuple[Path, Path],
    targets: tuple[Path, Path],
    shown: Sequence[tuple[float, float]],
    key: str,
    color: ColorSpec,
    quantiser: int | None = None,
) -> None:
    """Write both sides of a pair with the shown clips encoded again.

    Parameters
    ----------
    sides
        Videos of :mod:`tasks.media.encode`, with the same parameter sets.
    targets
        Where the files go; existing ones are overwritten.
    shown
        Part of both videos that is shown first, in seconds.
    key
        Determines the draws: equal keys give equal files.
    color
        Encoder settings of the sides.
    quantiser
        One for all clips, instead of the drawn ones.

    Raises
    ------
    IntegrityError
        If a side cannot be read, or was encoded with other settings.
    """
    with UnitFile(sides[0]) as high, UnitFile(sides[1]) as low:
        origins = (high, low)
        keys = [_keys(origin) for origin in origins]
        cuts, begun = [keys[0] & keys[1]] * 2, [keys[0] | keys[1]] * 2
        beside: list[tuple[UnitFile, ...]] = [origins, origins]
        if high.count != low.count:
            # their length differs anyway, and no frames correspond
            cuts = begun = keys
            beside = [(high,), (low,)]
        for side, origin in enumerate(origins):
            spans = [(round(start * origin.rate), round(end * origin.rate)) for start, end in shown]
            blocks = _blocks(cuts[side], begun[side], origin.count, spans)
            _write(origin, beside[side], targets[side], blocks, key, side, color, quantiser)


def _keys(origin: UnitFile) -> set[int]:
    return {index for index, entry in enumerate(origin.stream.index_entries) if entry.is_keyframe}


def _blocks(
    cuts: Collection[int], begun: Collection[int], count: int, spans: Sequence[tuple[int, int]]
) -> Iterator[_Block]:
    """Yield all frames of a side: blocks are encoded again where they are shown, or where keys differ."""
    clip: int | None = None
    for first, end in pairwise([*sorted(cuts), count]):
        keys = [key for key in sorted(begun) if first <= key < end]
        seen = any(start < end and first < last for start, last in spans)
        if not seen and len(keys) == 1:
            clip = None
        elif clip is None or any(start == first for start, _ in spans):
            clip = first
        yield _Block(first, tuple(after - key for key, after in pairwise([*keys, end])), clip)


def _write(
    origin: UnitFile,
    beside: Sequence[UnitFile],
    target: Path,
    blocks: Iterator[_Block],
    key: str,
    side: int,
    color: ColorSpec,
    fixed: int | None,
) -> None:
    with UnitWriter(target, origin, color) as writer:
        for block in blocks:
            if block.clip is None:
                writer.copy(block.first, sum(block.units))
                continue
            # the drawn ones differ between the sides
            quantiser = fixed or shuffled(QUANTISERS, key, "quantiser", block.clip)[side]
            settings = EncoderSettings(quantiser=quantiser)
            rng = keyed_rng(key, "first macroblocks", side, block.first, quantiser)
            corner = _corner(beside, block.first)
            frames = _begun_alike(_frames(origin, block.first, sum(block.units)), corner, quantiser, rng)
            for unit in block.units:
                writer.encode(islice(frames, unit), settings)
            if next(frames, None) is not None:
                raise IntegrityError(
                    f"{origin.path} has more frames than its index: remove it and run this again"
                )


def _corner(sides: Sequence[UnitFile], first: int) -> list[float]:
    """Return the mean colour of the first macroblock of a frame, of both sides together."""
    blocks = [_first_macroblock(*_frames(side, first, 1)) for side in sides]
    return [float(np.mean(some)) for some in zip(*blocks, strict=True)]


def _begun_alike(
    frames: Iterator[Planes], corner: Sequence[float], quantiser: int, rng: np.random.Generator
) -> Iterator[Planes]:
    """Yield frames whose first macroblock has one colour, and noise.

    Of half the quantiser's step, it survives. Neither motion nor colours of the picture show before it.
    """
    step = 2 ** ((quantiser - 4) / 6)
    for planes in frames:
        changed = planes.copy()
        luma, *chroma = _first_macroblock(changed)
        noisy = rng.normal(corner[0], step / 2, luma.shape)
        luma[:] = np.clip(np.rint(noisy), 0, 255)
        for block, mean in zip(chroma, corner[1:], strict=True):
            block[:] = round(mean)
        yield changed


def _first_macroblock(planes: Planes) -> list[Planes]:
    """Return views of the first macroblock's luma and chroma."""
    width = planes.shape[1]
    pixels = planes.shape[0] * 2 // 3 * width
    luma, *chroma = np.split(planes.reshape(-1), [pixels, pixels * 5 // 4])
    half = _BLOCK // 2
    return [
        luma.reshape(-1, width)[:_BLOCK, :_BLOCK],
        *(plane.reshape(-1, width // 2)[:half, :half] for plane in chroma),
    ]


def _frames(origin: UnitFile, first: int, count: int) -> Iterator[Planes]:
    """Decode frames from an IDR frame on."""
    decoder = origin.stream.codec_context
    try:
        for packet in chain(origin.packets(first, count), (None,)):
            for frame in decoder.decode(packet):
                planes: Planes = frame.to_ndarray().astype(np.uint8, copy=False)
                yield planes
    except av.FFmpegError as problem:
        raise IntegrityError(f"{origin.path} cannot be decoded: remove it and run this again") from problem
    finally:
        decoder.flush_buffers()
