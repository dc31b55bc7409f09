"""Write a release: derive the Parquet index from the manifests of its pairs, as a new version."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.commit import Manifest, commit_folder, payload_files, staging_folder
from storage_schemas.errors import StoreError
from storage_schemas.ids import canonical_json, digest_value
from storage_schemas.pair import (
    DEGRADED_CLIPS,
    EDITS,
    EXCERPT_FIELD,
    PAIRS,
    PAIRS_WITH_CONTROLS,
    DegradedClipRow,
    PairRecord,
    SourceReport,
)
from storage_schemas.parquet import write_rows
from storage_schemas.provenance import provenance, utc_now
from storage_schemas.release import RELEASE, Release, release_versions
from storage_schemas.set_aside import SET_ASIDE, SetAsideRow
from storage_schemas.source import CLIPS, SOURCES, ClipRow, Source, SourceRow
from storage_schemas.store import DEGRADED_CLIP, Store
from tasks.pairs.facts import frames_id
from tasks.pairs.release_plan import duration_bin
from tasks.recipe import Recipe


class ReleaseMoved(StoreError):
    """Another build wrote a version of the release after this build drew its pairs."""


def source_rows(source: Source, report: SourceReport, recipe: Recipe) -> tuple[SourceRow, list[ClipRow]]:
    """Return the rows of an ingested source and of its clips, without those past a damaged video's end."""
    source = source.model_copy(update={"clips": source.clips[: len(report.spans)]})
    row = SourceRow(
        source_id=source.id,
        adapter=source.adapter,
        title=source.title,
        video=source.video,
        content_sha256=source.content_sha256,
        licence=source.licence,
        redistributable=source.redistributable,
        credit=source.credit,
        content_category=source.content_category,
        duration_s=report.duration_s,
        frames_id=frames_id(source, recipe),
        frames_checksum=report.frames_checksum,
        frame_count=report.frames,
        width=report.width,
        height=report.height,
        prompt_characters=len(source.prompt),
        damage=report.damage,
    )
    clips = [
        ClipRow(
            source_id=source.id,
            clip=clip.index,
            start_s=clip.start_s,
            end_s=clip.end_s,
            first_frame=first,
            frame_count=count,
            caption=clip.caption,
        )
        for clip, (first, count) in zip(source.clips, report.spans, strict=True)
    ]
    return row, clips


def degraded_clip_row(store: Store, id_: str) -> DegradedClipRow:
    """Return a degraded clip's index row, from its manifest."""
    manifest = store.manifest(DEGRADED_CLIP, id_)
    content = manifest.content
    return DegradedClipRow(
        degraded_clip=id_,
        source_id=content["source_id"],
        aspect=content["aspect"],
        operation=content["operation"],
        clip=content["clip"],
        first_frame=content["first_frame"],
        frame_count=content["frames"],
        height=content["height"],
        width=content["width"],
        difference=content["difference"],
        content_checksum=manifest.content_checksum,
        bytes=manifest.bytes,
        path=str(store.artifact_path(DEGRADED_CLIP, id_).relative_to(store.root)),
        choice=content["choice"],
        provenance=manifest.provenance,
    )


def release_checksum(records: Sequence[PairRecord]) -> str:
    """Return the checksum of a release's content, its pairs and their frames, independent of order."""
    return digest_value(sorted([r.pair_id, r.high_checksum, r.low_checksum] for r in records))


def source_inputs(sources: Sequence[SourceRow]) -> str:
    """Return the checksum of a version's inputs from its sources."""
    return digest_value(
        sorted(
            [
                *(r.source_id, r.video, r.licence, r.redistributable, r.credit, r.title),
                *(r.content_category, r.damage),
            ]
            for r in sources
        )
    )


def set_aside_inputs(rows: Sequence[SetAsideRow]) -> list[list[str]]:
    """Return what a version takes from the items that were set aside."""
    return sorted([r.source_id, r.aspect, r.reason.value] for r in rows)


def write_release(
    store: Store,
    name: str,
    recipe: Recipe,
    records: Sequence[PairRecord],
    sources: Sequence[SourceRow],
    clips: Sequence[ClipRow],
    set_aside: Sequence[SetAsideRow],
    planned: Mapping[str, int],
    extends: int | None = None,
    newest: int | None = None,
) -> tuple[Release, bool]:
    """Write the next version of a release, or return the newest one if nothing changed.

    Parameters
    ----------
    planned
        Number of planned pairs by aspect, for every aspect of the recipe.
    extends
        The version of the same release whose pairs were kept, if any.
    newest
        The newest version when the pairs were drawn, 0 if there was none; None if it does not matter.

    Returns
    -------
    tuple of Release and bool
        The version, and whether it is new.

    Raises
    ------
    ReleaseMoved
        If another build wrote a version since `newest`: its pairs have to be kept too.
    """
    started = time.monotonic()
    durations = {row.source_id: row.duration_s for row in sources}
    ordered = sorted(
        (
            record.model_copy(update={"bin_s": duration_bin(durations[record.source_id], recipe.bin_seconds)})
            for record in records
        ),
        key=lambda r: (
            *(list(recipe.aspects).index(r.aspect), r.control, r.source_id),
            *(r.strength, r.clips_degraded),
            *((r.excerpt.share, r.excerpt.position) if r.excerpt else (0.0, "")),
        ),
    )
    ordered_clips = sorted(clips, key=lambda row: (row.source_id, row.clip))
    consumes = {
        "recipe": recipe.digest(),
        "pairs": release_checksum(ordered),
        "sources": source_inputs(sources),
        "clips": digest_value([row.model_dump() for row in ordered_clips]),
        "planned": dict(planned),
        "set_aside": set_aside_inputs(set_aside),
    }
    versions = release_versions(store, name)
    if versions:
        last = Release.open(store, name, versions[-1])
        if last.manifest.consumes == json.loads(canonical_json(consumes)):
            return last, False
    with staging_folder(store.staging, RELEASE) as folder:
        write_tables(
            folder, ordered, sources, ordered_clips, set_aside, lambda id_: degraded_clip_row(store, id_)
        )
        stored = recipe.model_dump_json(indent=1, exclude=recipe.unset)
        (folder / "recipe.json").write_text(stored, encoding="utf-8")
        info = {
            "name": name,
            "created_at": utc_now(),
            "recipe": recipe.name,
            "fps": str(recipe.fps),
            "planned": dict(planned),
            "extends": extends,
            "licences": sorted({row.licence for row in sources}),
        }
        (folder / "info.json").write_text(json.dumps(info, indent=1), encoding="utf-8")
        number = (versions[-1] if versions else 0) + 1
        while True:
            manifest = Manifest(
                kind=RELEASE,
                id=f"{name}/{number}",
                consumes=consumes,
                content_checksum=release_checksum(ordered),
                content={"pairs": len(ordered), "sources": len(sources)},
                files=payload_files(folder),
                provenance=provenance(started),
            )
            if newest is not None and max(release_versions(store, name), default=0) != newest:
                raise ReleaseMoved(f"another build wrote a version of release {name} meanwhile")
            # a version is created exclusively: another build may be using the number right now
            target = store.versions(name) / str(number)
            if not target.exists() and commit_folder(folder, target, manifest):
                return Release.open(store, name, number), True
            number += 1


def write_tables(
    folder: Path,
    records: Sequence[PairRecord],
    sources: Sequence[SourceRow],
    clips: Sequence[ClipRow],
    set_aside: Sequence[SetAsideRow],
    degraded_row: Callable[[str], DegradedClipRow],
) -> None:
    """Write the Parquet files of a version; `degraded_row` gives the index row of a degraded clip."""
    edits: list[dict[str, Any]] = []
    degraded: dict[str, DegradedClipRow] = {}
    for record in records:
        for position, segment in enumerate(record.segments):
            edits.append({"pair_id": record.pair_id, "position": position, **segment.model_dump()})
            if segment.degraded_clip is not None and segment.degraded_clip not in degraded:
                degraded[segment.degraded_clip] = degraded_row(segment.degraded_clip)
    controls = any(record.control for record in records)
    schema = PAIRS_WITH_CONTROLS if controls else PAIRS
    if any(record.excerpt for record in records):
        schema = schema.append(EXCERPT_FIELD)
    write_rows(folder / "pairs.parquet", schema, records)
    write_rows(folder / "edits.parquet", EDITS, edits)
    write_rows(folder / "degraded_clips.parquet", DEGRADED_CLIPS, degraded.values())
    ordered_sources = sorted(sources, key=lambda row: row.source_id)
    write_rows(folder / "sources.parquet", SOURCES, ordered_sources)
    write_rows(folder / "clips.parquet", CLIPS, clips)
    write_rows(folder / "set_aside.parquet", SET_ASIDE, set_aside)
