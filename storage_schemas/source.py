"""Tables `sources` and `clips` (one row per clip, with its caption), and the timeline of a source.

The timeline lists the frames of a source with times and checksums.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage_schemas.frames import ColorSpec
from storage_schemas.ids import digest_value
from storage_schemas.model import Frozen
from storage_schemas.parquet import read_table
from storage_schemas.store import TIMELINE, Store

#: How a recipe handles a damaged video; see ``docs/sources.md``.
DamageRule = Literal["refuse", "truncate", "conceal"]
#: How the frames of a damaged video were read; empty if it is intact.
Damage = Literal["", "truncated", "concealed"]
DAMAGE_TEXTS: dict[Damage, str] = {
    "truncated": "cut off, used up to its last complete frame",
    "concealed": "damaged, used as concealed by FFmpeg's decoder",
}

MAX_ID_LENGTH = 200
MAX_CONTENT_CATEGORY = 60
_CATEGORY_SIGNS = frozenset(" &,.'’()/+-–")

SOURCES = pa.schema(
    [
        ("source_id", pa.string()),
        ("adapter", pa.string()),
        ("title", pa.string()),
        ("video", pa.string()),
        ("content_sha256", pa.string()),
        ("licence", pa.string()),
        ("redistributable", pa.bool_()),
        ("credit", pa.string()),
        ("content_category", pa.string()),
        ("duration_s", pa.float64()),
        ("frames_id", pa.string()),
        ("frames_checksum", pa.string()),
        ("frame_count", pa.int64()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("prompt_characters", pa.int64()),
        ("damage", pa.string()),
    ]
)

CLIPS = pa.schema(
    [
        ("source_id", pa.string()),
        ("clip", pa.int32()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
        ("first_frame", pa.int64()),
        ("frame_count", pa.int64()),
        ("caption", pa.string()),
    ]
)


def content_category_mistake(text: str) -> str | None:
    """Return why a text cannot be a content category, which appears in pages and tables; None if it can.

    Examples
    --------
    >>> content_category_mistake("Travel & Events")
    >>> content_category_mistake("<b>Sports</b>")
    "has '<' in it"
    """
    if len(text) > MAX_CONTENT_CATEGORY:
        return f"has {len(text)} characters; at most {MAX_CONTENT_CATEGORY} are allowed"
    for sign in text:
        if not (sign.isalnum() or sign in _CATEGORY_SIGNS or unicodedata.category(sign).startswith("M")):
            return f"has {sign!r} in it"
    return None


class Clip(Frozen):
    """A semantically coherent interval of a source, with one caption.

    `start_s` ≤ t < `end_s` in seconds of the source; `index` counts from 0 in clip order.
    """

    index: int
    start_s: float
    end_s: float
    caption: str


class Source(Frozen):
    """One long, human-made video with captioned clips.

    `id` is the data set's id, or else derived from the content's hash, so that a moved file remains the same
    source. `video` is the path of the file; `content_category` says what kind of video it is (SLVMEval,
    appendix D, figure 8), empty if unknown. Neither is part of any artifact's id.
    """

    id: str
    adapter: str
    title: str
    video: str
    content_sha256: str
    clips: tuple[Clip, ...]
    licence: str = "unknown"
    redistributable: bool = False
    credit: str = ""
    content_category: str = ""

    @property
    def prompt(self) -> str:
        """All captions in clip order, joined by a newline; a degradation never changes it."""
        return "\n".join(clip.caption for clip in self.clips)

    @property
    def captions_digest(self) -> str:
        """Checksum of the captions and boundaries of all clips."""
        return digest_value([clip.model_dump() for clip in self.clips])


class SourceRow(Frozen):
    """A source in a release, with its stored frames; times in seconds, sizes in pixels.

    `damage` says how the frames of a damaged video were read, empty if it is intact.
    """

    source_id: str
    adapter: str
    title: str
    video: str
    content_sha256: str
    licence: str
    redistributable: bool
    credit: str
    content_category: str = ""
    duration_s: float
    frames_id: str
    frames_checksum: str
    frame_count: int
    width: int
    height: int
    prompt_characters: int
    damage: Damage = ""


class ClipRow(Frozen):
    """A clip in a release, with the frames it owns."""

    source_id: str
    clip: int
    start_s: float
    end_s: float
    first_frame: int
    frame_count: int
    caption: str


TIMELINE_FILE = "timeline.parquet"
TIMELINE_SCHEMA = pa.schema([("pts_s", pa.float64()), ("digest", pa.uint64())])


class Timeline(Frozen):
    """The frames of a source at the recipe's `fps` and `long_side`.

    `pts_s` are the times of the images in seconds, `digests` the frames' checksums. `exact` is False in a
    prediction made before ingest, which has no digests. `damage` says how a damaged video was used.
    """

    width: int
    height: int
    color: ColorSpec
    duration_s: float
    pts_s: tuple[float, ...]
    digests: tuple[int, ...] = ()
    exact: bool = True
    damage: Damage = ""

    @property
    def count(self) -> int:
        """Number of frames."""
        return len(self.pts_s)

    def span(self, start_s: float, end_s: float) -> tuple[int, int]:
        """Return the first frame, and the number of frames, whose image has `start_s` ≤ t < `end_s`."""
        times: NDArray[np.float64] = np.asarray(self.pts_s)
        first, end = (int(index) for index in np.searchsorted(times, (start_s, end_s), side="left"))
        return first, max(end - first, 0)


def write_timeline_file(path: Path, pts_s: list[float], digests: list[int]) -> None:
    """Write the frame table of a timeline."""
    pq.write_table(pa.table({"pts_s": pts_s, "digest": digests}, schema=TIMELINE_SCHEMA), path)


def read_timeline(store: Store, id_: str) -> Timeline:
    """Read a stored timeline.

    Raises
    ------
    StoreError
        If it does not exist.
    IntegrityError
        If it is damaged.
    """
    content = store.manifest(TIMELINE, id_).content
    table = read_table(pa.BufferReader(store.read(TIMELINE, id_, TIMELINE_FILE)))
    return Timeline(
        width=content["width"],
        height=content["height"],
        color=ColorSpec(**content["color"]),
        duration_s=content["duration_s"],
        pts_s=tuple(table.column("pts_s").to_pylist()),
        digests=tuple(table.column("digest").to_pylist()),
        damage=content.get("damage", ""),
    )
