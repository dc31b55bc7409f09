"""Write a small store by hand, as docs/storage-format.md has it, without the code under test.

One source, its frames, a degraded clip, a pair and a release.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.ids import artifact_id, digest_file, digest_frame, digest_frames
from storage_schemas.pair import DEGRADED_CLIPS, EDITS, PAIRS, DegradedClipRow, PairRecord, Segment
from storage_schemas.parquet import write_rows
from storage_schemas.set_aside import SET_ASIDE
from storage_schemas.source import CLIPS, SOURCES, ClipRow, SourceRow
from tests.frame_arrays import write_frames

COLOR = ColorSpec("bt709")
COUNT, FIRST, LENGTH = 12, 4, 5


def picture(number: int) -> Planes:
    """A frame of 32×16, each number another noise."""
    return np.random.default_rng(number).integers(0, 256, (24, 32), dtype=np.uint8)


def write_store(root: Path) -> str:
    """Write the store at `root`, and return the id of its pair."""
    root.mkdir(parents=True)
    (root / "store.json").write_text('{"schema_version": 1}')
    frames = [picture(number) for number in range(COUNT)]
    degraded = [255 - planes for planes in frames[FIRST : FIRST + LENGTH]]
    high = [digest_frame(planes) for planes in frames]
    changed = [digest_frame(planes) for planes in degraded]
    low = [*high[:FIRST], *changed, *high[FIRST + LENGTH :]]

    consumes: dict[str, Any] = {"content_sha256": "0" * 64, "fps": "1", "long_side": 32, "sampler": 1}
    frames_id, folder = _artifact(root, "frames", consumes)
    write_frames(folder / "planes.zarr", frames, map(float, range(COUNT)), COLOR)
    _finish(folder, "frames", frames_id, consumes, digest_frames(high), {"frames": COUNT})

    consumes = {"frames": frames_id, "clip": 1}
    clip_id, folder = _artifact(root, "degraded_clip", consumes)
    write_frames(folder / "planes.zarr.zip", degraded, map(float, range(LENGTH)), COLOR)
    content = {"clip": 1, "frames": LENGTH, "choice": {}}
    _finish(folder, "degraded_clip", clip_id, consumes, digest_frames(changed), content)

    consumes = {"frames": frames_id, "aspect": "aesthetics"}
    pair_id, folder = _artifact(root, "pair", consumes)
    record = _record(pair_id, frames_id, clip_id, digest_frames(high), digest_frames(low))
    _finish(folder, "pair", pair_id, consumes, record.low_checksum, record.model_dump(mode="json"))

    folder = root / "releases" / "main" / "versions" / "1"
    folder.mkdir(parents=True)
    _write_release(folder, record, digest_frames(high), digest_frames(changed))
    _finish(folder, "release", "main/1", {"pairs": "x"}, "x", {"pairs": 1})
    return pair_id


def _artifact(root: Path, kind: str, consumes: dict[str, Any]) -> tuple[str, Path]:
    id_ = artifact_id(kind, consumes)
    folder = root / "artifacts" / kind / id_[:2] / id_
    folder.mkdir(parents=True)
    return id_, folder


def _finish(
    folder: Path, kind: str, id_: str, consumes: dict[str, Any], checksum: str, content: dict[str, Any]
) -> None:
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": digest_file(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest: dict[str, Any] = {"schema_version": 1, "kind": kind, "id": id_, "consumes": consumes}
    manifest |= {"provenance": {}, "content_checksum": checksum, "content": content, "files": files}
    body = json.dumps(manifest).encode().removesuffix(b"}")
    checksum = hashlib.sha256(body).hexdigest().encode()
    (folder / "manifest.json").write_bytes(body + b', "checksum": "%s"}' % checksum)


def _record(pair_id: str, frames_id: str, clip_id: str, high: str, low: str) -> PairRecord:
    end = FIRST + LENGTH
    interval = ((float(FIRST), float(end)),)
    segments = (
        Segment(kind="source", clip=0, first_frame=0, frame_count=FIRST),
        Segment(kind="degraded", clip=1, first_frame=FIRST, frame_count=LENGTH, degraded_clip=clip_id),
        Segment(kind="gap", clip=None, first_frame=end, frame_count=COUNT - end),
    )
    record: dict[str, Any] = {"pair_id": pair_id, "frames_id": frames_id, "segments": segments, "fps": 1.0}
    record |= {"source_id": "one", "aspect": "aesthetics", "dimension": "aesthetics", "category": "quality"}
    record |= {"operation": "ffmpeg-eq", "operation_version": 1, "parameters": {"contrast": -0.8}}
    record |= {"strength": "paper", "clips_degraded": 1, "drawn_clips": (1,)}
    record |= {"choices": {}, "passed_over": {}, "seed": "1"}
    record |= {"high_frames": COUNT, "high_checksum": high, "high_intervals": interval}
    record |= {"low_frames": COUNT, "low_checksum": low, "low_intervals": interval}
    return PairRecord.model_validate(record)


def _write_release(folder: Path, record: PairRecord, frames: str, clip: str) -> None:
    edits = [
        {"pair_id": record.pair_id, "position": place, **segment.model_dump()}
        for place, segment in enumerate(record.segments)
    ]
    size = {"width": 32, "height": 16}
    captions = ["A cat sleeps.", "A dog runs."]
    spans = [(0, FIRST), (FIRST, LENGTH)]
    clips = []
    for n, (start, count) in enumerate(spans):
        place = {"start_s": start, "end_s": start + count, "first_frame": start, "frame_count": count}
        clips.append(ClipRow.model_validate({"source_id": "one", "clip": n, "caption": captions[n], **place}))
    source: dict[str, Any] = {"source_id": "one", "adapter": "folder", "title": "one", "video": "one.mp4"}
    source |= {"content_sha256": "0" * 64, "licence": "CC0", "redistributable": True, "duration_s": COUNT}
    source |= {"frames_id": record.frames_id, "frames_checksum": frames, "frame_count": COUNT, **size}
    source |= {"credit": "", "prompt_characters": len("\n".join(captions))}
    id_ = record.segments[1].degraded_clip or ""
    degraded: dict[str, Any] = {"degraded_clip": id_, "source_id": "one", "aspect": "aesthetics"}
    degraded |= {"clip": 1, "first_frame": FIRST, "frame_count": LENGTH, "difference": 60.0, **size}
    degraded |= {"content_checksum": clip, "bytes": 1, "path": f"artifacts/degraded_clip/{id_[:2]}/{id_}"}
    degraded |= {"operation": "ffmpeg-eq", "choice": {}, "provenance": {}}
    tables: dict[str, tuple[pa.Schema, list[Any]]] = {
        "pairs": (PAIRS, [record]),
        "edits": (EDITS, edits),
        "degraded_clips": (DEGRADED_CLIPS, [DegradedClipRow.model_validate(degraded)]),
        "sources": (SOURCES, [SourceRow.model_validate(source)]),
        "clips": (CLIPS, clips),
        "set_aside": (SET_ASIDE, []),
    }
    for name, (schema, rows) in tables.items():
        write_rows(folder / f"{name}.parquet", schema, rows)
    (folder / "recipe.json").write_text('{"name": "cpu-approx"}')
    (folder / "info.json").write_text(json.dumps({"planned": {"aesthetics": 1}}))
