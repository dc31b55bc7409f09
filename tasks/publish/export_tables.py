"""The tables of an export, as Hugging Face's `datasets` loads them."""

from __future__ import annotations

import pyarrow as pa

from storage_schemas.vote import VOTES

PAIRS_EXPORT = pa.schema(
    [
        ("pair_id", pa.string()),
        ("source_id", pa.string()),
        ("aspect", pa.string()),
        ("dimension", pa.string()),
        ("category", pa.string()),
        ("prompt", pa.string()),
        ("high_video", pa.string()),
        ("low_video", pa.string()),
        ("gold", pa.string()),
        ("operation", pa.string()),
        ("operation_version", pa.int32()),
        ("parameters", pa.string()),
        ("strength", pa.string()),
        ("clips_degraded", pa.int32()),
        ("drawn_clips", pa.list_(pa.int32())),
        ("choices", pa.string()),
        ("high_intervals", pa.list_(pa.list_(pa.float64()))),
        ("low_intervals", pa.list_(pa.list_(pa.float64()))),
        ("fps", pa.float64()),
        ("high_frames", pa.int64()),
        ("low_frames", pa.int64()),
        ("duration_s", pa.float64()),
        ("bin_s", pa.int64()),
        ("seed", pa.string()),
        ("high_checksum", pa.string()),
        ("low_checksum", pa.string()),
        ("high_video_sha256", pa.string()),
        ("low_video_sha256", pa.string()),
    ]
)

SOURCES_EXPORT = pa.schema(
    [
        ("source_id", pa.string()),
        ("title", pa.string()),
        ("licence", pa.string()),
        ("credit", pa.string()),
        ("content_sha256", pa.string()),
        ("duration_s", pa.float64()),
        ("frame_count", pa.int64()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("video", pa.string()),
    ]
)

#: Of a filtered release's votes, what says something without leading to a person.
VOTES_EXPORT = pa.schema(
    [
        VOTES.field(name)
        for name in (
            "pair_id",
            "source_id",
            "aspect",
            "worker",
            "language",
            "gold",
            "first",
            "preferred",
            "rating",
            "preference_s",
            "total_s",
            "watched_s",
            "pair_duration_s",
        )
    ]
)
