"""Contact sheets of pairs and sources that show the changes at a glance."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from storage_schemas.frames import FrameReader
from storage_schemas.pair import PairRecord
from storage_schemas.release import frames_path
from storage_schemas.source import ClipRow
from storage_schemas.store import Store
from tasks.media.planes import planes_to_rgb
from tasks.pairs.view import Side, open_record

#: Maximum number of clips on a contact sheet, and the width of one picture in pixels.
SHEET_CLIPS = 5
TILE_WIDTH = 208
GUTTER = 4

#: Pictures per row of a source's strip of clips, and their width in pixels.
STRIP_COLUMNS = 10
STRIP_WIDTH = 128

_JPEG_QUALITY = 82
_EMPTY = (38, 42, 50)
_STRIPE = (58, 63, 74)

#: Maximum number of clips in a strip; more would not fit into a JPEG.
MAX_STRIP_CLIPS = 4_000


def sheet_clips(record: PairRecord) -> list[int]:
    """Return the degraded clips shown on a pair's contact sheet, in source order."""
    drawn = sorted(record.drawn_clips)
    if len(drawn) <= SHEET_CLIPS:
        return drawn
    return [drawn[round(index)] for index in np.linspace(0, len(drawn) - 1, SHEET_CLIPS)]


def contact_sheet(store: Store, record: PairRecord, clips: Sequence[ClipRow]) -> Image.Image:
    """Return the middle frames of the degraded clips: the high side above, the low side below.

    A clip that was removed is a striped tile below.

    Raises
    ------
    StoreError
        If the source's frames were evicted.
    """
    pair = open_record(store, record, "")
    size = _fitted(pair.high.width, pair.high.height, TILE_WIDTH)
    by_index = {clip.clip: clip for clip in clips}
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    position = 0
    for segment in record.segments:
        if segment.clip is not None:
            starts[segment.clip] = position
            ends[segment.clip] = position + segment.frame_count
        position += segment.frame_count
    shown = sheet_clips(record)
    sheet = _canvas(max(len(shown), 1), 2, size)
    for column, index in enumerate(shown):
        clip = by_index[index]
        middle = clip.frame_count // 2
        at = clip.first_frame - record.first_frame + middle
        _paste(sheet, _tile(pair.high.rgb(at), size), column, 0, size)
        low = _removed(size)
        if index in starts:
            # a trimmed clip may end before its middle
            low = _tile(pair.low.rgb(min(starts[index] + middle, ends[index] - 1)), size)
        _paste(sheet, low, column, 1, size)
    return sheet


def sides_sheet(high: Side, low: Side) -> Image.Image:
    """Return frames at even distances of two videos: the high side above, the low side below.

    Raises
    ------
    SetAside
        If a video cannot be read.
    """
    sizes = [_fitted(side.width, side.height, TILE_WIDTH) for side in (high, low)]
    size = max(width for width, _ in sizes), max(height for _, height in sizes)
    columns = min(SHEET_CLIPS, max(len(high), len(low)))
    sheet = _canvas(columns, 2, size)
    for row, (side, own) in enumerate(zip((high, low), sizes, strict=True)):
        for column in range(columns):
            shown = column < len(side)
            index = (2 * column + 1) * len(side) // (2 * min(columns, max(len(side), 1)))
            tile = _tile(side.rgb(index), own) if shown else _removed(own)
            _paste(sheet, tile, column, row, size)
    return sheet


def clip_strip(store: Store, frames_id: str, clips: Sequence[ClipRow]) -> Image.Image:
    """Return the middle frame of each clip, `STRIP_COLUMNS` in a row; a clip without frames is striped.

    Raises
    ------
    StoreError
        If the frames were evicted.
    """
    reader = FrameReader(frames_path(store, frames_id))
    size = _fitted(reader.width, reader.height, STRIP_WIDTH)
    shown = clips[:MAX_STRIP_CLIPS]
    strip = Image.new(
        "RGB", (STRIP_COLUMNS * size[0], max(-(-len(shown) // STRIP_COLUMNS), 1) * size[1]), _EMPTY
    )
    for index, clip in enumerate(shown):
        if clip.frame_count:
            planes = reader.read(clip.first_frame + clip.frame_count // 2)
            tile = _tile(planes_to_rgb(planes, reader.color)[0], size)
        else:
            tile = _removed(size)
        row, column = divmod(index, STRIP_COLUMNS)
        strip.paste(tile, (column * size[0], row * size[1]))
    return strip


def strip_tile(width: int, height: int) -> tuple[int, int]:
    """Return the size of one picture of a strip for a frame size."""
    return _fitted(width, height, STRIP_WIDTH)


def jpeg(image: Image.Image) -> bytes:
    """Return a picture as JPEG."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=_JPEG_QUALITY, optimize=True)
    return buffer.getvalue()


def _fitted(width: int, height: int, tile_width: int) -> tuple[int, int]:
    """Return the size of a tile; for upright pictures `tile_width` limits the height."""
    scale = tile_width / max(width, height * 16 / 9)
    return max(round(width * scale), 8), max(round(height * scale), 8)


def _canvas(columns: int, rows: int, size: tuple[int, int]) -> Image.Image:
    return Image.new(
        "RGB",
        (columns * size[0] + (columns - 1) * GUTTER, rows * size[1] + (rows - 1) * GUTTER),
        _EMPTY,
    )


def _paste(sheet: Image.Image, tile: Image.Image, column: int, row: int, size: tuple[int, int]) -> None:
    sheet.paste(tile, (column * (size[0] + GUTTER), row * (size[1] + GUTTER)))


def _tile(rgb: NDArray[np.uint8], size: tuple[int, int]) -> Image.Image:
    return Image.fromarray(rgb).resize(size, Image.Resampling.LANCZOS)


def _removed(size: tuple[int, int]) -> Image.Image:
    tile = Image.new("RGB", size, _EMPTY)
    draw = ImageDraw.Draw(tile)
    for start in range(-size[1], size[0], 16):
        draw.line([(start, size[1]), (start + size[1], 0)], fill=_STRIPE, width=5)
    return tile


def data_uri(image: Image.Image) -> str:
    """Return a picture as a JPEG data URI."""
    return "data:image/jpeg;base64," + base64.b64encode(jpeg(image)).decode()
