"""The data of the gallery's pages as plain JSON values, independent of HTML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from storage_schemas.ids import digest_text
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.source import DAMAGE_TEXTS
from storage_schemas.store import ENCODED, FRAMES, Store
from tasks.pairs.excerpts import rebased_record, within
from tasks.report.pictures import STRIP_COLUMNS, sheet_clips, strip_tile
from tasks.report.public_names import ASPECT_TEXTS, SourceFolder, pair_slug
from tasks.report.release_facts import NO_CATEGORY, category_counts, duration_bins, release_facts
from tasks.statistics.trials import grouped


def shown_in(record: PairRecord, records: Iterable[PairRecord]) -> tuple[PairRecord, int]:
    """Return the pair whose videos contain those of `record`, and the index of their first frame in them.

    An excerpt is a part of the excerpt that has the whole film, so that no video is written for it, unless
    that one was set aside.

    Parameters
    ----------
    records
        All pairs of the source.
    """
    excerpt = record.excerpt
    if excerpt is None:
        return record, 0
    for other in records:
        whole = other.excerpt is not None and other.high_frames == excerpt.source_frames
        if whole and other.aspect == record.aspect and within(other.segments, excerpt) == [*record.segments]:
            return other, excerpt.first_frame
    return record, 0


def with_videos(records: Sequence[PairRecord]) -> list[PairRecord]:
    """Return the pairs of a source whose low videos are written."""
    needed = {shown_in(record, records)[0].pair_id for record in records}
    return [record for record in records if record.pair_id in needed]


def index_data(
    store: Store, release: Release, folders: dict[str, SourceFolder], private: bool
) -> dict[str, Any]:
    """Return the first page's data: all pairs in brief, statistics, set-aside rows, credits."""
    numbers = {source_id: index for index, source_id in enumerate(folders)}
    pairs = release.pairs()
    by_source = grouped(pairs, lambda record: record.source_id)
    counts = Counter(record.source_id for record in pairs if record.excerpt is None)
    return {
        "release": release_data(release, private),
        "aspects": aspects_data(release),
        "sources": [
            {**source_head(folder), "pairs": counts[source_id]} for source_id, folder in folders.items()
        ],
        "pairs": [
            {
                **pair_head(record, folders[record.source_id], by_source[record.source_id]),
                "source": numbers[record.source_id],
            }
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
    release: Release,
    folder: SourceFolder,
    private: bool,
    differences: dict[str, float],
    aspects: dict[str, Any],
) -> dict[str, Any]:
    """Return the data of a source's page: its clips and all of its pairs in full.

    `differences` gives the mean absolute difference of each degraded clip by its id, `aspects` is the result
    of :func:`aspects_data`, which reads the whole release.
    """
    clips = release.clips(folder.row.source_id)
    pairs = release.pairs(source_id=folder.row.source_id)
    tile = strip_tile(folder.row.width, folder.row.height)
    return {
        "release": release_data(release, private),
        "aspects": aspects,
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
        "pairs": [pair_data(record, folder, pairs, differences) for record in pairs],
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
    """Return each aspect of the recipe with its numbers of planned and built pairs."""
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
    """Return a source's facts for every page; only numbers if it may not be shown."""
    row = folder.row
    return {
        "id": row.source_id if folder.licensed else folder.slug,
        "title": row.title if folder.licensed else "Source that may not be shown",
        "credit": row.credit,
        "licence": row.licence,
        "content_category": row.content_category if folder.licensed else "",
        "damage": DAMAGE_TEXTS.get(row.damage, ""),
        "redistributable": row.redistributable,
        "duration_s": row.duration_s,
        "width": row.width,
        "height": row.height,
        "prompt_characters": row.prompt_characters,
        "hidden": folder.hidden,
        "page": folder.page,
        "media": "" if folder.hidden else folder.media,
    }


def pair_head(record: PairRecord, folder: SourceFolder, records: Iterable[PairRecord]) -> dict[str, Any]:
    """Return a pair's entry in a list; `records` are all pairs of its source."""
    excerpt, shown = record.excerpt, shown_in(record, records)[0]
    return {
        "slug": pair_slug(record),
        "aspect": record.aspect,
        "operation": record.operation,
        "strength": record.strength,
        "control": record.control,
        "drawn": sorted(record.drawn_clips),
        "high_s": record.high_frames / record.fps,
        "low_s": record.low_frames / record.fps,
        "degraded_s": sum(end - start for start, end in record.high_intervals),
        "sheet": "" if folder.hidden else f"{folder.media}/{pair_slug(shown)}.jpg",
        "excerpt": None if excerpt is None else {"share": excerpt.share, "position": excerpt.position},
    }


def pair_data(
    record: PairRecord, folder: SourceFolder, records: Iterable[PairRecord], differences: dict[str, float]
) -> dict[str, Any]:
    """Return all facts of a pair; choices may contain words of a caption.

    Segments and intervals count from the beginning of its videos, which is at `first` in the source, and at
    `video_first` in the low video that contains it.
    """
    shown, video_first = shown_in(record, records)
    return {
        **pair_head(record, folder, records),
        "video": pair_slug(shown),
        "video_first": video_first,
        "first": record.first_frame,
        "damage_at": None if record.excerpt is None else record.excerpt.damage_at,
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
            for segment in rebased_record(record).segments
        ],
    }


def statistics(store: Store, release: Release) -> dict[str, Any]:
    """Return the release's facts, sources by duration and category, and bytes compared with full copies."""
    width = int(release.recipe.get("bin_seconds", 100))
    sources, degraded = release.sources(), release.degraded_clips()
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
        "facts": release_facts(release).as_texts(),
        "bin_s": width,
        "bins": [vars(one) for one in duration_bins(release)],
        "content_categories": [
            {**vars(one), "category": one.category or NO_CATEGORY} for one in category_counts(release)
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
    """Return JSON that is safe inside a script element, whatever its strings contain."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _public_name(source_id: str, folders: dict[str, SourceFolder]) -> str:
    folder = folders.get(source_id)
    if folder is not None and folder.licensed:
        return source_id
    return folder.slug if folder is not None else f"source-{digest_text(source_id)[:16]}"
