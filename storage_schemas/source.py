"""Table `sources`: one row a source, and table `clips`: one row a clip with its caption."""

from __future__ import annotations

import pyarrow as pa

from storage_schemas.ids import digest_value
from storage_schemas.model import Frozen

MAX_ID_LENGTH = 200

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
        ("duration_s", pa.float64()),
        ("frames_id", pa.string()),
        ("frames_checksum", pa.string()),
        ("frame_count", pa.int64()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("prompt_characters", pa.int64()),
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

    `id` is the data set's own, else made of the content's hash, so that a moved file stays the same
    source. `video` is the path of the file; it is in no artifact's id.
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

    @property
    def prompt(self) -> str:
        """All captions in clip order, joined by a newline; a degradation never changes it."""
        return "\n".join(clip.caption for clip in self.clips)

    @property
    def captions_digest(self) -> str:
        """Checksum of the captions and boundaries of all clips."""
        return digest_value([clip.model_dump() for clip in self.clips])


class SourceRow(Frozen):
    """A source as a release knows it, with its stored frames; times in seconds, sizes in pixels."""

    source_id: str
    adapter: str
    title: str
    video: str
    content_sha256: str
    licence: str
    redistributable: bool
    credit: str
    duration_s: float
    frames_id: str
    frames_checksum: str
    frame_count: int
    width: int
    height: int
    prompt_characters: int


class ClipRow(Frozen):
    """A clip as a release knows it, with the frames that it owns."""

    source_id: str
    clip: int
    start_s: float
    end_s: float
    first_frame: int
    frame_count: int
    caption: str
