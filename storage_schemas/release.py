"""Read a release: a frozen, versioned, checksummed set of pairs.

A version is an immutable folder ``releases/<name>/versions/<N>/``; the newest complete one is current.
Its Parquet files are derived from the pairs' manifests and can be recreated from them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storage_schemas.away import is_away
from storage_schemas.commit import MANIFEST_NAME, SCHEMA_VERSION, Manifest
from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.frames import FrameReader
from storage_schemas.pair import DegradedClipRow, PairRecord, Segment
from storage_schemas.parquet import read_column, read_dicts, read_rows
from storage_schemas.regular_files import entries, is_there, leads_nowhere, read_regular, why_unread
from storage_schemas.set_aside import CONTROL_STAGE, LENGTH_STAGE, SetAsideRow
from storage_schemas.source import ClipRow, SourceRow
from storage_schemas.store import DEGRADED_CLIP, FRAMES, Store, check_files, read_manifest
from storage_schemas.value_problems import problem_text

RELEASE = "release"
FRAMES_FOLDER = "planes.zarr"
#: Frames of a degraded clip: the same, in one file.
CLIP_FILE = "planes.zarr.zip"


def release_versions(store: Store, name: str) -> list[int]:
    """Return the numbers of the complete versions of a release, oldest first."""
    return sorted(
        int(entry.name)
        for entry in entries(store.versions(name))
        if entry.name.isdigit() and is_there(Path(entry.path, MANIFEST_NAME))
    )


def release_names(store: Store) -> list[str]:
    """Return the names of the releases that have a complete version."""
    names = [entry.name for entry in entries(store.root / "releases")]
    return [name for name in names if release_versions(store, name)]


def find_version(store: Store, name: str | None = None, version: int | None = None) -> tuple[str, int]:
    """Return name and number of a version: by default the newest complete one of the only release.

    Parameters
    ----------
    name
        Its name, or ``NAME@3`` for version 3.

    Raises
    ------
    UserInputError
        If there is no such release or version; the message lists those available.
    StoreError
        If the folder of releases is a dangling link.
    """
    name, version = name_and_version(name, version)
    names = release_names(store)
    if leads_nowhere(store.root / "releases"):
        raise StoreError(f"{store.root}/releases is a dangling link: restore its target")
    if name is None:
        if not names:
            raise UserInputError(
                f"{store.root} has no release yet: `slvmeval build` or `slvmeval pull` creates one"
            )
        if len(names) > 1:
            raise UserInputError(f"{store.root} has these releases: {', '.join(names)}. Specify one.")
        name = names[0]
    # an unlisted name could be a path outside the store
    versions = release_versions(store, name) if name in names else []
    if not versions or (version is not None and version not in versions):
        wanted = name if version is None else f"{name} version {version}"
        have = f"the releases {', '.join(names)}" if names else "none"
        if versions:
            have = f"versions {', '.join(map(str, versions))}"
        raise UserInputError(f"no release {wanted} in {store.root} (it has {have})")
    number = versions[-1] if version is None else version
    return name, number


def name_and_version(text: str | None, version: int | None = None) -> tuple[str | None, int | None]:
    """Return the name and version that ``NAME`` or ``NAME@3`` specifies.

    Parameters
    ----------
    version
        The version, if given separately from the name.

    Raises
    ------
    UserInputError
        If the text after the @ is not a version, or two versions are given.

    Examples
    --------
    >>> name_and_version("main@3"), name_and_version("main"), name_and_version("main", 2)
    (('main', 3), ('main', None), ('main', 2))
    """
    name, at, number = (text or "").partition("@")
    if not at:
        return text, version
    if version is not None or not (number.isascii() and number.isdigit() and int(number)):
        raise UserInputError(f"release {text!r}: write NAME, or NAME@3 for its version 3")
    return name, int(number)


class Release:
    """One version of a release; tables are read on first access."""

    def __init__(self, store: Store, name: str, version: int, manifest: Manifest) -> None:
        self.store = store
        self.name = name
        self.version = version
        self.manifest = manifest
        self.path = store.versions(name) / str(version)

    def __repr__(self) -> str:
        """Return a description of the opened release."""
        return f"<Release {self.name}, version {self.version}: {self.manifest.content['pairs']} pairs>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the numbers of pairs by aspect."""
        rows = "".join(
            f"<tr><th>{escape(aspect)}</th><td>{row['planned']}</td><td>{row['built']}</td>"
            f"<td>{row['set_aside']}</td><td>{escape(', '.join(row['reasons']))}</td></tr>"
            for aspect, row in self.summary().items()
        )
        head = "".join(f"<th>{name}</th>" for name in ("", "planned", "built", "set aside", "reasons"))
        return f"<p>{escape(repr(self)[1:-1])}</p><table><tr>{head}</tr>{rows}</table>"

    @classmethod
    def open(cls, store: Store, name: str | None = None, version: int | None = None) -> Release:
        """Open a release: by default the only one, in its newest complete version.

        Raises
        ------
        UserInputError
            If there is no such release or version; the message lists those available.
        StoreError
            If the version has another schema version.
        IntegrityError
            If its manifest is damaged.
        """
        name, number = find_version(store, name, version)
        path = store.versions(name) / str(number)
        manifest = read_manifest(path)
        if manifest.kind != RELEASE:
            raise IntegrityError(
                f"{path} has the manifest of {manifest.kind} {manifest.id}: `slvmeval verify --repair` "
                "removes the version, and the next build writes it again"
            )
        if manifest.schema_version != SCHEMA_VERSION:
            raise StoreError(
                f"release {name} version {number} has schema version {manifest.schema_version}, "
                f"this program supports {SCHEMA_VERSION}: use the slvmeval version that created it"
            )
        return cls(store, name, number, manifest)

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the release."""
        return self._json("recipe.json")

    @cached_property
    def info(self) -> dict[str, Any]:
        """Time and software of the release, its fps, and the planned number of pairs per aspect."""
        return self._json("info.json")

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            value: dict[str, Any] = json.loads(read_regular(path))
        except FileNotFoundError as problem:
            raise StoreError(f"{path} is missing") from problem
        except (ValueError, OSError) as problem:
            if is_away(problem):
                raise
            why = why_unread(problem) if isinstance(problem, OSError) else problem
            raise IntegrityError(f"{path} is damaged: {why}") from problem
        return value

    @cached_property
    def _sources(self) -> list[SourceRow]:
        return read_rows(self.path / "sources.parquet", SourceRow)

    def sources(self) -> list[SourceRow]:
        """Return the sources that have a pair, sorted by id."""
        return self._sources

    @cached_property
    def _by_source(self) -> dict[str, SourceRow]:
        return {row.source_id: row for row in self._sources}

    def source(self, source_id: str) -> SourceRow:
        """Return one source's row."""
        row = self._by_source.get(source_id)
        if row is None:
            raise UserInputError(f"release {self.name} has no source {source_id!r}")
        return row

    @cached_property
    def _clips(self) -> dict[str, list[ClipRow]]:
        clips: dict[str, list[ClipRow]] = defaultdict(list)
        for row in read_rows(self.path / "clips.parquet", ClipRow):
            clips[row.source_id].append(row)
        return dict(clips)

    def clips(self, source_id: str) -> list[ClipRow]:
        """Return the clips of a source in clip order."""
        return self._clips[self.source(source_id).source_id]

    def prompt(self, source_id: str) -> str:
        """Return a source's prompt: its captions in clip order, joined by a newline."""
        return "\n".join(clip.caption for clip in self.clips(source_id))

    def prompt_of(self, record: PairRecord) -> str:
        """Return a pair's prompt; for an excerpt, only the captions of its clips."""
        excerpt = record.excerpt
        if excerpt is None or excerpt.frame_count == excerpt.source_frames:
            return self.prompt(record.source_id)
        inside = range(excerpt.first_frame, excerpt.first_frame + excerpt.frame_count)
        return "\n".join(
            clip.caption
            for clip in self.clips(record.source_id)
            if clip.frame_count and clip.first_frame in inside
        )

    @cached_property
    def _pairs(self) -> list[PairRecord]:
        segments: dict[str, list[Segment]] = defaultdict(list)
        records = []
        try:
            for row in read_dicts(self.path / "edits.parquet"):
                pair_id, _position = row.pop("pair_id"), row.pop("position")
                segments[pair_id].append(Segment.model_validate(row))
            for row in read_dicts(self.path / "pairs.parquet"):
                for name in ("parameters", "choices", "passed_over"):
                    row[name] = json.loads(row[name])
                records.append(PairRecord.model_validate({**row, "segments": segments[row["pair_id"]]}))
        except (ValidationError, KeyError, ValueError) as problem:
            raise IntegrityError(
                f"the pairs of {self.path} do not match their tables: {problem_text(problem)}"
            ) from problem
        return records

    def pairs(self, aspect: str | None = None, source_id: str | None = None) -> list[PairRecord]:
        """Return the pairs, optionally of one aspect or source, sorted by aspect, source and severity.

        The controls of an aspect, if there are any, follow its damaged pairs.
        """
        records = self._pairs if source_id is None else self._pairs_of_sources.get(source_id, ())
        return [record for record in records if aspect in (None, record.aspect)]

    @cached_property
    def _pairs_of_sources(self) -> dict[str, list[PairRecord]]:
        pairs: dict[str, list[PairRecord]] = defaultdict(list)
        for record in self._pairs:
            pairs[record.source_id].append(record)
        return dict(pairs)

    def pair(self, pair_id: str) -> PairRecord:
        """Return one pair by its id or an unambiguous prefix of it.

        Raises
        ------
        UserInputError
            If no pair or several pairs match.
        """
        whole = self._by_id.get(pair_id)
        if whole is not None:
            return whole
        matches = [record for record in self._pairs if record.pair_id.startswith(pair_id)]
        if len(matches) != 1:
            raise UserInputError(
                f"{len(matches)} pairs of release {self.name} have an id that starts with {pair_id!r}"
            )
        return matches[0]

    @cached_property
    def _by_id(self) -> dict[str, PairRecord]:
        return {record.pair_id: record for record in self._pairs}

    def degraded_clips(self) -> list[DegradedClipRow]:
        """Return the index of all degraded clips."""
        return read_rows(self.path / "degraded_clips.parquet", DegradedClipRow, ("choice", "provenance"))

    def set_aside(self) -> list[SetAsideRow]:
        """Return the items that were set aside, with the reasons."""
        return read_rows(self.path / "set_aside.parquet", SetAsideRow)

    def summary(self) -> dict[str, dict[str, Any]]:
        """Return planned, built and set-aside counts, with reasons, for every aspect of the recipe."""
        built = Counter(read_column(self.path / "pairs.parquet", "aspect"))
        reasons: dict[str, Counter[str]] = defaultdict(Counter)
        for row in self.set_aside():
            if row.aspect:
                of = f" ({row.stage})" if row.stage in (CONTROL_STAGE, LENGTH_STAGE) else ""
                reasons[row.aspect][f"{row.reason.value}{of}"] += 1
        planned: dict[str, int] = self.info["planned"]
        return {
            aspect: {
                "planned": planned[aspect],
                "built": built[aspect],
                "set_aside": sum(reasons[aspect].values()),
                "reasons": dict(sorted(reasons[aspect].items())),
            }
            for aspect in planned
        }

    def frames(self, source_id: str) -> FrameReader:
        """Return the stored frames of a source.

        Raises
        ------
        StoreError
            If they were evicted; the next build recreates them.
        """
        return FrameReader(frames_path(self.store, self.source(source_id).frames_id))

    def check(self) -> None:
        """Check every file of this version against the manifest.

        Raises
        ------
        IntegrityError
            If a file is missing or differs; the message names the first one.
        """
        check_files(self.path)


def frames_path(store: Store, frames_id: str) -> Path:
    """Return the folder of a source's frame array."""
    return store.artifact_path(FRAMES, frames_id) / FRAMES_FOLDER


def clip_path(store: Store, clip_id: str) -> Path:
    """Return the path of a degraded clip's frames."""
    return store.artifact_path(DEGRADED_CLIP, clip_id) / CLIP_FILE
