"""Encode what workers see first of a pair again, each clip of each side with a quality of its own.

The damaged clips are encoded later than everything else, so their settings, sizes and key frames could tell
them. Here the shown clips of both sides, changed or not, are decoded and encoded again, and both sides get
their IDR frames at the same places. Everything else is copied.
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
from storage_schemas.rng import shuffled
from tasks.media.encode import EncoderSettings, UnitFile, UnitWriter

#: x264's constant rate factors that are drawn; differences are not visible at any of them.
QUALITIES = range(14, 21)


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
    names: tuple[str, str],
    color: ColorSpec,
) -> None:
    """Write both sides of a pair with the shown clips encoded again.

    Parameters
    ----------
    sides
        Videos of :mod:`tasks.media.encode`, with the same parameter sets.
    targets
        Where the files go; existing ones are overwritten.
    shown
        What is seen first of both videos, in seconds.
    names
        Keys of the draws: equal names give equal files. The names' order does not matter, so that nobody who
        knows them learns which one is the source.
    color
        What the sides were encoded with.

    Raises
    ------
    IntegrityError
        If a side cannot be read, or was encoded with other settings.
    """
    with UnitFile(sides[0]) as high, UnitFile(sides[1]) as low:
        origins = (high, low)
        keys = [_keys(origin) for origin in origins]
        cuts, begun = [keys[0] & keys[1]] * 2, [keys[0] | keys[1]] * 2
        if high.count != low.count:
            # their length differs anyway, and no frames lie beside each other
            cuts = begun = keys
        for side, origin in enumerate(origins):
            spans = [(round(start * origin.rate), round(end * origin.rate)) for start, end in shown]
            blocks = _blocks(cuts[side], begun[side], origin.count, spans)
            _write(origin, targets[side], blocks, names, side, color)


def _keys(origin: UnitFile) -> set[int]:
    return {place for place, entry in enumerate(origin.stream.index_entries) if entry.is_keyframe}


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
    target: Path,
    blocks: Iterator[_Block],
    names: tuple[str, str],
    side: int,
    color: ColorSpec,
) -> None:
    with UnitWriter(target, origin, color) as writer:
        for block in blocks:
            if block.clip is None:
                writer.copy(block.first, sum(block.units))
                continue
            settings = EncoderSettings(crf=_quality(names, side, block.clip))
            frames = _frames(origin, block.first, sum(block.units))
            for unit in block.units:
                writer.encode(islice(frames, unit), settings)
            if next(frames, None) is not None:
                raise IntegrityError(
                    f"{origin.path} has more frames than its index: remove it and run this again"
                )


def _quality(names: tuple[str, str], side: int, clip: int) -> int:
    """Return a clip's draw, which differs between the sides."""
    ordered = sorted(names)
    return shuffled(QUALITIES, *ordered, "quality", clip)[ordered.index(names[side])]


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
