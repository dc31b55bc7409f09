"""A release as a folder that Hugging Face's `datasets` loads, or as a recipe with its pairs pinned.

The folder has Parquet tables, MP4 videos, a dataset card and the licences. Nothing of a source that may not
be redistributed leaves the store: anyone who has the source can make the same pairs from ``recipe.json``.

Hugging Face's `datasets` loads the tables directly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.ids import canonical_json, digest_file
from storage_schemas.pair import PairRecord
from storage_schemas.parquet import read_dicts
from storage_schemas.release import Release
from storage_schemas.source import CLIPS, ClipRow, SourceRow
from storage_schemas.store import Store
from storage_schemas.votes import VOTES
from tasks.media.encode import DEFAULT_SETTINGS, EncoderSettings
from tasks.publish.dataset_card import card, licence_notes
from tasks.publish.packed_release import check_may_leave, pack_release
from tasks.publish.pair_videos import encode_source, write_high, write_high_of, write_low
from tasks.recipe import Pin
from tasks.report.owned_folder import OwnedFolder
from tasks.report.public_names import SourceFolder, pair_slug, source_folder
from tasks.votes.release_votes import VOTES_FILE, filtered_from

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
        ("damage", pa.string()),
        ("video", pa.string()),
    ]
)

#: Columns of a filtered release's votes that do not identify a person.
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


LIST_NAME = "export.json"


@dataclass(frozen=True)
class ExportResult:
    """What an export holds.

    `left_out` are the sources that may not be redistributed; without any pair, the export is only the
    recipe (`recipe_only`).
    """

    path: Path
    pairs: int
    left_out: tuple[str, ...]

    @property
    def recipe_only(self) -> bool:
        """Whether only the recipe and the card could leave the store."""
        return self.pairs == 0


def export_release(
    store: Store,
    release: Release,
    target: Path,
    *,
    private: bool = False,
    votes: bool = False,
    packed: bool = False,
    address: str = "",
    settings: EncoderSettings = DEFAULT_SETTINGS,
    progress: Callable[[int, int, str], None] | None = None,
) -> ExportResult:
    """Write a release as a folder for ``datasets.load_dataset``.

    Existing videos are kept, so an interrupted export resumes; the card, without which the folder is
    not a dataset, is written last.

    Parameters
    ----------
    store, release
        What to export.
    target
        A folder: new, empty, or of an earlier export.
    private
        True exports every source, for internal use only; the card says so.
    votes
        Include the votes on the exported pairs; only a filtered release has them.
    packed
        Include the release itself, so that it can be opened in another store.
    address
        Where the folder will be at a hub (``hf://…/``): the pairs then have two columns of videos too.
    settings
        How to encode the videos.
    progress
        Called with (pairs done, all pairs, what was done).

    Raises
    ------
    UserInputError
        If `target` holds something else, votes are asked for and the release has none, or it is to be packed
        and may not be redistributed, or not without its votes.
    StoreError
        If frames were evicted that are needed.
    SetAside
        If `target` is full or cannot be written.
    """
    if votes and filtered_from(release) is None:
        raise UserInputError(
            f"release {release.name} has no votes in it: `slvmeval annotate filter {release.name}` makes a "
            "filtered release, which has them"
        )
    if packed:
        check_may_leave(release)
        if filtered_from(release) is not None and not votes:
            raise UserInputError(
                f"release {release.name} is a filtered one, and its votes are part of it: --set votes=true "
                "hands them on too (they name no worker), or hand on the release that it was filtered from"
            )
    folders = {row.source_id: source_folder(release, row, private) for row in release.sources()}
    passed = [folder for folder in folders.values() if not folder.hidden]
    left_out = [folder.row for folder in folders.values() if folder.hidden]
    records = {folder.row.source_id: release.pairs(source_id=folder.row.source_id) for folder in passed}
    owned = OwnedFolder(target, LIST_NAME)
    # no card while the tables do not match the videos, so that the folder is not mistaken for a dataset
    (target / "README.md").unlink(missing_ok=True)
    videos = [name for folder in passed for name in _video_names(folder, records[folder.row.source_id])]
    owned.announce(videos)
    total = sum(map(len, records.values()))
    done = 0
    rows: dict[str, list[dict[str, Any]]] = {}
    for folder in passed:
        source_id = folder.row.source_id
        rows[source_id] = []
        for row in _pair_rows(store, release, folder, records[source_id], target, settings):
            rows[source_id].append(row)
            done += 1
            if progress is not None:
                progress(done, total, f"{folder.row.title}: {row['aspect']}")
    owned.keep(videos)
    if passed:
        prompts = {one.pair_id: release.prompt_of(one) for some in records.values() for one in some}
        schema = PAIRS_EXPORT
        if any(record.control for some in records.values() for record in some):
            schema = schema.append(pa.field("control", pa.bool_()))
        if any(record.excerpt for some in records.values() for record in some):
            schema = schema.append(pa.field("length_share", pa.float64()))
            schema = schema.append(pa.field("damage_position", pa.string()))
        schema = _with_videos(schema) if address else schema
        owned.write("data/pairs.parquet", _table(schema, _with_prompts(rows, prompts, address)))
        owned.write("data/sources.parquet", _table(SOURCES_EXPORT, map(_source_row, passed)))
        clips = (clip for folder in passed for clip in release.clips(folder.row.source_id))
        owned.write("data/clips.parquet", _table(CLIPS, map(ClipRow.model_dump, clips)))
    if passed and votes:
        pairs = {record.pair_id for some in records.values() for record in some}
        kept_votes = (row for row in read_dicts(release.path / VOTES_FILE) if row["pair_id"] in pairs)
        owned.write("data/votes.parquet", _table(VOTES_EXPORT, kept_votes))
    owned.write("recipe.json", recipe_text(release).encode())
    owned.write("LICENSE.md", licence_notes([f.row for f in passed], left_out, private).encode())
    if packed:
        pack_release(release, owned, progress)
    owned.keep(["README.md"])
    owned.settle()
    write_atomic(
        target / "README.md",
        card(release, [f.row for f in passed], left_out, total, private, votes, packed).encode(),
    )
    return ExportResult(target, total, tuple(row.source_id for row in left_out))


def export_recipe(release: Release, path: Path) -> Path:
    """Write the release's recipe with its pairs pinned, as JSON, and return the path.

    It has ids, checksums, seeds and parameters, but no caption, title or video, so every licence
    allows it. ``slvmeval build --recipe`` makes the same pairs from it and from the sources.
    """
    write_atomic(path, recipe_text(release).encode())
    return path


def recipe_text(release: Release) -> str:
    """Return the recipe of a release with every pair pinned, as JSON."""
    content = {row.source_id: row.content_sha256 for row in release.sources()}
    pins = [
        Pin(
            source_id=record.source_id,
            content_sha256=content[record.source_id],
            aspect=record.aspect,
            operation=record.operation,
            parameters=record.parameters,
            strength=record.strength,
            clips=record.clips_degraded,
            drawn_clips=record.drawn_clips,
            seed=record.seed,
            pair_id=record.pair_id,
            high_checksum=record.high_checksum,
            low_checksum=record.low_checksum,
        ).model_dump(mode="json")
        for record in release.pairs()
    ]
    return json.dumps({**release.recipe, "pins": pins}, indent=1) + "\n"


def _video_names(folder: SourceFolder, records: list[PairRecord]) -> Iterator[str]:
    yield _video(folder, "high")
    for record in records:
        yield _video(folder, pair_slug(record))
        if record.excerpt is not None:
            yield _video(folder, f"{pair_slug(record)}-high")


def _video(folder: SourceFolder, name: str) -> str:
    return f"videos/{folder.slug}/{name}.mp4"


def _pair_rows(
    store: Store,
    release: Release,
    folder: SourceFolder,
    records: list[PairRecord],
    target: Path,
    settings: EncoderSettings,
) -> Iterator[dict[str, Any]]:
    if not records:
        return
    row = folder.row
    clips = release.clips(row.source_id)
    encoded = encode_source(store, row.frames_id, row.frame_count, clips, records[0].fps, settings)
    whole = _video(folder, "high")
    write_high(encoded, target / whole)
    whole_sha256 = digest_file(target / whole)
    for record in records:
        high, high_sha256 = whole, whole_sha256
        if record.excerpt is not None:
            high = _video(folder, f"{pair_slug(record)}-high")
            write_high_of(store, record, encoded, target / high, settings)
            high_sha256 = digest_file(target / high)
        low = _video(folder, pair_slug(record))
        write_low(store, record, encoded, target / low, settings)
        yield {
            **{name: getattr(record, name) for name in PAIRS_EXPORT.names if name in PairRecord.model_fields},
            "control": record.control,
            "parameters": canonical_json(record.parameters),
            "choices": canonical_json(record.choices),
            "high_video": high,
            "low_video": low,
            # by definition, the high-quality video of a pair is the better one, and no side of a control is
            "gold": "tie" if record.control else "high",
            "duration_s": row.duration_s if record.excerpt is None else record.high_frames / record.fps,
            "length_share": record.excerpt.share if record.excerpt else 1.0,
            "damage_position": record.excerpt.position if record.excerpt else "own",
            "high_video_sha256": high_sha256,
            "low_video_sha256": digest_file(target / low),
        }


def _with_prompts(
    rows: dict[str, list[dict[str, Any]]], prompts: dict[str, str], address: str
) -> Iterator[dict[str, Any]]:
    for some in rows.values():
        for row in some:
            videos = {side: {"path": f"{address}{row[f'{side}_video']}"} for side in ("high", "low")}
            yield {**row, "prompt": prompts[row["pair_id"]], **videos}


#: How a video is stored in a table that `datasets` and a hub's viewer read: by its address.
_VIDEO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def _with_videos(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the columns `high` and `low`, which `datasets` takes for videos."""
    features = {field.name: _feature(field.type) for field in schema}
    for side in ("high", "low"):
        schema = schema.append(pa.field(side, _VIDEO))
        features[side] = {"_type": "Video"}
    return schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def _feature(kind: pa.DataType) -> dict[str, Any]:
    """Return what `datasets` calls a type of Arrow."""
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    names = {"double": "float64", "float": "float32"}
    return {"dtype": names.get(str(kind), str(kind)), "_type": "Value"}


def _source_row(folder: SourceFolder) -> dict[str, Any]:
    names = [name for name in SOURCES_EXPORT.names if name in SourceRow.model_fields]
    return {
        **{name: getattr(folder.row, name) for name in names},
        "video": _video(folder, "high"),
    }


def _table(schema: pa.Schema, rows: Iterator[dict[str, Any]], batch: int = 256) -> bytes:
    """Return rows as one Parquet file, written batch by batch."""
    buffer = BytesIO()
    held: list[dict[str, Any]] = []
    with pq.ParquetWriter(buffer, schema, compression="zstd") as writer:
        for row in rows:
            held.append({name: row[name] for name in schema.names})
            if len(held) == batch:
                writer.write_table(pa.Table.from_pylist(held, schema=schema))
                held = []
        if held:
            writer.write_table(pa.Table.from_pylist(held, schema=schema))
    return buffer.getvalue()
