"""What the gallery's pages show, as plain JSON values; nothing here knows about HTML."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from storage_schemas.ids import digest_text, digest_value
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.source import SourceRow
from storage_schemas.store import ENCODED, FRAMES, Store
from tasks.publish.pictures import STRIP_COLUMNS, sheet_clips, strip_tile

#: What was done to the low-quality video, for a reader who has not seen the paper.
ASPECT_TEXTS = {
    "aesthetics": "Brightness is inverted and flattened: dark becomes light, and contrast fades.",
    "technical_quality": "The picture is made small and large again: fine detail is gone.",
    "appearance_style": "The picture is redrawn in another style, as a drawing or a painting.",
    "background_consistency": "What lies behind the subject changes from frame to frame.",
    "temporal_flow": "Neighbouring clips are taken out and put back at other places.",
    "comprehensiveness": "Clips are removed: parts of what the prompt tells are not shown.",
    "object_integrity": "The subject is painted out of the picture.",
    "spatial_relationship": "The picture is mirrored: left becomes right.",
    "dynamics_degree": "The clip stands still: every frame shows its middle one.",
    "color": "The colour that the caption names becomes another one.",
}

_HIDDEN = "Its licence does not allow passing the video and the captions on."


@dataclass(frozen=True)
class SourceFolder:
    """Where the files of one source go, and whether its content may be shown.

    `hidden` says for a reader why there are no videos; empty if there are. `licensed` is False where
    the captions may not be shown either.
    """

    row: SourceRow
    slug: str
    licensed: bool = True
    hidden: str = ""

    @property
    def page(self) -> str:
        """Path of the source's page."""
        return f"sources/{self.slug}.html"

    @property
    def media(self) -> str:
        """Path of the folder of its videos and pictures."""
        return f"media/{self.slug}"


def source_folder(release: Release, row: SourceRow, private: bool) -> SourceFolder:
    """Return where a source goes; the name changes with everything that its media depend on.

    `private` says that the pages stay with the person who has the sources; otherwise licences decide.
    """
    clips = [(clip.first_frame, clip.frame_count) for clip in release.clips(row.source_id)]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", row.source_id).strip("-")[:40].lower() or "source"
    slug = f"{readable}-{digest_value([row.source_id, row.frames_id, clips])[:10]}"
    if not private and not row.redistributable:
        return SourceFolder(row, f"source-{digest_text(slug)[:16]}", licensed=False, hidden=_HIDDEN)
    return SourceFolder(row, slug)


def pair_slug(record: PairRecord) -> str:
    """Return the name of a pair's files and of its place on a page."""
    return (
        record.pair_id[:16]
        if re.fullmatch(r"[0-9a-f]{16,}", record.pair_id)
        else digest_text(record.pair_id)[:16]
    )


def index_data(
    store: Store, release: Release, folders: dict[str, SourceFolder], private: bool
) -> dict[str, Any]:
    """Return what the first page shows: all pairs in short, statistics, what was set aside, credits."""
    places = {source_id: place for place, source_id in enumerate(folders)}
    pairs = release.pairs()
    counts = Counter(record.source_id for record in pairs)
    return {
        "release": release_data(release, private),
        "aspects": aspects_data(release),
        "sources": [
            {**source_head(folder), "pairs": counts[source_id]} for source_id, folder in folders.items()
        ],
        "pairs": [
            {**pair_head(record, folders[record.source_id]), "source": places[record.source_id]}
            for record in pairs
        ],
        "set_aside": [
            {
                "source": row.source_id if private else _public_name(row.source_id, folders),
                "aspect": row.aspect,
                "stage": row.stage,
                "reason": row.reason.value,
                "message": row.message if private else "",
                "location": PurePath(row.location).name if private else "",
            }
            for row in release.set_aside()
        ],
        "statistics": statistics(store, release),
    }


def page_data(
    release: Release, folder: SourceFolder, private: bool, differences: dict[str, float]
) -> dict[str, Any]:
    """Return what the page of one source shows: its clips and all of its pairs in full.

    `differences` gives the mean absolute difference of each degraded clip by its id.
    """
    clips = release.clips(folder.row.source_id)
    pairs = release.pairs(source_id=folder.row.source_id)
    tile = strip_tile(folder.row.width, folder.row.height)
    return {
        "release": release_data(release, private),
        "aspects": aspects_data(release),
        "source": {
            **source_head(folder),
            "adapter": folder.row.adapter,
            "content_sha256": folder.row.content_sha256,
            "frames_checksum": folder.row.frames_checksum,
            "frames_id": folder.row.frames_id,
            "frame_count": folder.row.frame_count,
            "fps": pairs[0].fps if pairs else 1.0,
            "strip": {"width": tile[0], "height": tile[1], "columns": STRIP_COLUMNS},
            "clips": [
                {
                    "clip": clip.clip,
                    "first": clip.first_frame,
                    "count": clip.frame_count,
                    "caption": clip.caption if folder.licensed else "",
                }
                for clip in clips
            ],
        },
        "pairs": [pair_data(record, folder, differences) for record in pairs],
    }


def release_data(release: Release, private: bool) -> dict[str, Any]:
    """Return name, version, recipe and date of a release."""
    return {
        "name": release.name,
        "version": release.version,
        "recipe": str(release.recipe.get("name", "")),
        "created_at": str(release.info.get("created_at", "")),
        "fps": str(release.info.get("fps", "")),
        "private": private,
    }


def aspects_data(release: Release) -> dict[str, Any]:
    """Return, for each aspect of the recipe, what it is and how many pairs were planned and built."""
    first = {record.aspect: record for record in reversed(release.pairs())}
    return {
        name: {
            "title": name.replace("_", " ").capitalize(),
            "text": ASPECT_TEXTS.get(name, ""),
            "category": first[name].category if name in first else "",
            **counts,
        }
        for name, counts in release.summary().items()
    }


def source_head(folder: SourceFolder) -> dict[str, Any]:
    """Return what every page says of a source; of one that may not be shown no more than its numbers."""
    row = folder.row
    return {
        "id": row.source_id if folder.licensed else folder.slug,
        "title": row.title if folder.licensed else "Source that may not be shown",
        "credit": row.credit,
        "licence": row.licence,
        "redistributable": row.redistributable,
        "duration_s": row.duration_s,
        "width": row.width,
        "height": row.height,
        "prompt_characters": row.prompt_characters,
        "hidden": folder.hidden,
        "page": folder.page,
        "media": "" if folder.hidden else folder.media,
    }


def pair_head(record: PairRecord, folder: SourceFolder) -> dict[str, Any]:
    """Return what a list says of a pair."""
    return {
        "slug": pair_slug(record),
        "aspect": record.aspect,
        "operation": record.operation,
        "strength": record.strength,
        "drawn": sorted(record.drawn_clips),
        "high_s": record.high_frames / record.fps,
        "low_s": record.low_frames / record.fps,
        "degraded_s": sum(end - start for start, end in record.high_intervals),
        "sheet": "" if folder.hidden else f"{folder.media}/{pair_slug(record)}.jpg",
    }


def pair_data(record: PairRecord, folder: SourceFolder, differences: dict[str, float]) -> dict[str, Any]:
    """Return all that is known of a pair; choices may hold words of a caption."""
    return {
        **pair_head(record, folder),
        "id": record.pair_id,
        "dimension": record.dimension,
        "category": record.category,
        "operation_version": record.operation_version,
        "parameters": record.parameters,
        "choices": record.choices if folder.licensed else {},
        "passed_over": record.passed_over if folder.licensed else {},
        "seed": record.seed,
        "bin_s": record.bin_s,
        "fps": record.fps,
        "high_frames": record.high_frames,
        "low_frames": record.low_frames,
        "high_checksum": record.high_checksum,
        "low_checksum": record.low_checksum,
        "high_intervals": record.high_intervals,
        "low_intervals": record.low_intervals,
        "sheet_clips": sheet_clips(record),
        "segments": [
            {
                "kind": segment.kind,
                "clip": segment.clip,
                "first": segment.first_frame,
                "count": segment.frame_count,
                "moved": segment.moved,
                "artifact": segment.degraded_clip or "",
                "difference": differences.get(segment.degraded_clip or ""),
            }
            for segment in record.segments
        ],
    }


def statistics(store: Store, release: Release) -> dict[str, Any]:
    """Return durations by bin, and bytes of what the release keeps against full copies."""
    width = int(release.recipe.get("bin_seconds", 100))
    sources, degraded = release.sources(), release.degraded_clips()
    durations = Counter(int(row.duration_s // width) for row in sources)
    pairs = Counter(record.bin_s // width for record in release.pairs())
    frame_bytes = {row.source_id: 0.0 for row in sources}
    cached = encoded = 0
    for row in sources:
        if store.has(FRAMES, row.frames_id):
            size = store.manifest(FRAMES, row.frames_id).bytes
            cached += size
            frame_bytes[row.source_id] = size / max(row.frame_count, 1)
    wanted = {row.frames_id for row in sources}
    for manifest in store.manifests(ENCODED):
        encoded += manifest.bytes if manifest.consumes.get("frames") in wanted else 0
    low_frames = sum(record.low_frames for record in release.pairs())
    return {
        "bin_s": width,
        "bins": [
            {"from_s": place * width, "sources": durations[place], "pairs": pairs[place]}
            for place in range(max([*durations, *pairs, 0]) + 1)
        ],
        "degraded_bytes": sum(row.bytes for row in degraded),
        "degraded_clips": len(degraded),
        "frames_bytes": cached,
        "encoded_bytes": encoded,
        "full_copies_bytes": round(
            sum(record.low_frames * frame_bytes[record.source_id] for record in release.pairs())
        ),
        "low_frames": low_frames,
        "index_bytes": release.manifest.bytes,
    }


def script_json(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in, whatever the strings hold."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _public_name(source_id: str, folders: dict[str, SourceFolder]) -> str:
    folder = folders.get(source_id)
    if folder is not None and folder.licensed:
        return source_id
    return folder.slug if folder is not None else f"source-{digest_text(source_id)[:16]}"
