"""Contact sheets: a picture an aspect, high quality above and degraded below."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.pairs.view import Pair, Side, open_record

_COLUMNS = 5
_WIDTH = 256
_GAP = 4


def aspect_sheets(store: Store, release: Release) -> Iterator[tuple[str, str]]:
    """Yield (aspect, sheet as a data URI) for every aspect that has a pair."""
    for aspect in release.summary():
        records = release.pairs(aspect)
        if records:
            yield aspect, data_uri(contact_sheet(store, records[0]))


def contact_sheet(store: Store, record: PairRecord) -> Image.Image:
    """Return one column for each of at most five degraded intervals: the high side above, the low below."""
    pair = open_record(store, record, "")
    columns = [np.concatenate([_tile(pair.high, high), _tile(pair.low, low)]) for high, low in _moments(pair)]
    space = np.full((columns[0].shape[0], _GAP, 3), 255, np.uint8)
    joined = [part for column in columns for part in (column, space)][:-1]
    return Image.fromarray(np.concatenate(joined, axis=1))


def _moments(pair: Pair) -> list[tuple[int, int]]:
    """Return frames of the high and the low side that show the same degraded interval."""
    moments = []
    for high, low in zip(pair.high_intervals, pair.low_intervals, strict=False):
        moments.append(
            (
                min(int((high[0] + high[1]) / 2 * pair.high.fps), len(pair.high) - 1),
                min(int((low[0] + low[1]) / 2 * pair.low.fps), len(pair.low) - 1),
            )
        )
    return moments[:_COLUMNS]


def _tile(side: Side, frame: int) -> NDArray[np.uint8]:
    image = Image.fromarray(side.rgb(frame))
    height = round(image.height * _WIDTH / image.width)
    return np.asarray(image.resize((_WIDTH, height), Image.Resampling.LANCZOS))


def data_uri(image: Image.Image) -> str:
    """Return a picture as a JPEG data URI."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
