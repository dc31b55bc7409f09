"""The adapter `vript`: the long videos of Vript in the data set's own layout, unpacked or in archives."""

from __future__ import annotations

import logging
import lzma
import os
import shutil
import struct
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from storage_schemas.commit import storage_errors
from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.regular_files import open_regular, read_regular
from storage_schemas.source import Clip, Source
from tasks.sources.base import VIDEO_SUFFIXES, SourceAdapter, check_id, read_bytes, refuse_to_leave
from tasks.sources.clips import (
    MAX_CAPTION_BYTES,
    CaptionLine,
    clean_caption,
    clips_from_lines,
    decode_utf8,
    load_json,
)
from tasks.sources.content_hash import ContentHashes
from tasks.sources.vript_times import (
    TimeKeys,
    Times,
    scene_number,
    times_from_cut_meta,
    times_from_durations,
)


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of the data set: `path` itself, or the member `member` of the archive at `path`.

    `location` is relative to the data set's folder, for messages.
    """

    path: Path
    member: str | None
    location: str

    @property
    def name(self) -> str:
        """The file name without folders."""
        return PurePosixPath(self.member or self.path.as_posix()).name

    def read(self, root: Path) -> bytes:
        """Return the content of a caption file.

        Raises
        ------
        SetAside
            `unsafe_path`, `bad_archive`, `captions_missing`, or `captions_malformed` if it is far too large.
        """
        refuse_to_leave(self.path, root, self.location)
        if self.member is None:
            return read_bytes(self.path, self.location)
        self._refuse_unsafe_member()
        try:
            with (
                open_regular(self.path) as whole,
                zipfile.ZipFile(whole) as archive,
                archive.open(self.member) as file,
            ):
                data = file.read(MAX_CAPTION_BYTES + 1)
        except _ARCHIVE_ERRORS as problem:
            raise _bad_archive(self.location, problem) from problem
        if len(data) > MAX_CAPTION_BYTES:
            raise SetAside(
                Reason.CAPTIONS_MALFORMED,
                f"{self.location} is larger than {MAX_CAPTION_BYTES >> 20} MiB: not captions",
            )
        return data

    def unpack(self, root: Path, target: Path) -> Path:
        """Extract an archive's member to `target` atomically, unless it exists.

        Raises
        ------
        SetAside
            `bad_archive`, `unsafe_path` (also for an archive that is a link out of `root`), `out_of_space`
            or `read_only_store`.
        """
        if self.member is None:
            return self.path
        refuse_to_leave(self.path, root, self.location)
        self._refuse_unsafe_member()
        try:
            with open_regular(self.path) as whole, zipfile.ZipFile(whole) as archive:
                info = archive.getinfo(self.member)
                # The copy has the archive's time stamp, unlike incomplete copies and those of other archives.
                stamp = self.path.stat().st_mtime_ns
                if target.is_file():
                    copy = target.stat()
                    if (copy.st_size, copy.st_mtime_ns) == (info.file_size, stamp):
                        return target
                with storage_errors(target.parent):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    draft = target.with_name(f".{uuid.uuid4().hex}")
                    try:
                        with archive.open(info) as packed, draft.open("wb") as file:
                            shutil.copyfileobj(packed, file, 1 << 20)
                        os.utime(draft, ns=(stamp, stamp))
                        draft.replace(target)
                    finally:
                        draft.unlink(missing_ok=True)
        except _ARCHIVE_ERRORS as problem:
            raise _bad_archive(self.location, problem) from problem
        return target

    def _refuse_unsafe_member(self) -> None:
        parts = PurePosixPath((self.member or "").replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts:
            raise SetAside(
                Reason.UNSAFE_PATH, f"{self.location} names a path outside its archive: do not trust it"
            )


# zipfile raises RuntimeError for an encrypted member and NotImplementedError for an unknown compression; the
# decompressors raise their own errors, and names that are not UTF-8 raise ValueError.
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    RuntimeError,
    EOFError,
    KeyError,
    ValueError,
)


def _bad_archive(location: str, problem: Exception) -> SetAside:
    match problem:
        case NotImplementedError():
            why = "its compression is not supported: unpack it yourself"
        case RuntimeError():
            why = "it is encrypted: unpack it yourself"
        case KeyError():
            why = "the file is no longer in it: fetch it again"
        case _:
            _log.info("%s", location, exc_info=problem)
            why = "it is damaged: fetch it again"
    return SetAside(Reason.BAD_ARCHIVE, f"{location} cannot be unpacked; {why}")


def list_files(root: Path, folder: str, endings: tuple[str, ...]) -> Iterator[DataFile]:
    """Yield the files below a folder with one of these suffixes, unpacked files first.

    An archive that cannot be opened is yielded itself, so that it can be reported.
    """
    archives = []
    for path in sorted((root / folder).rglob("*")):
        if path.name.endswith(endings):
            yield DataFile(path, None, path.relative_to(root).as_posix())
        elif path.suffix.lower() == ".zip":
            archives.append(path)
    for path in archives:
        location = path.relative_to(root).as_posix()
        try:
            with open_regular(path) as whole, zipfile.ZipFile(whole) as archive:
                members = sorted(name for name in archive.namelist() if name.endswith(endings))
        except (*_ARCHIVE_ERRORS, OSError):
            yield DataFile(path, None, location)
            continue
        for member in members:
            yield DataFile(path, member, f"{location}/{member}")


_log = logging.getLogger(__name__)

LICENCE = "Vript: academic use only, no distribution"

_META = "vript_meta/vript_long_videos_meta.json"
_CAPTIONS, _VIDEOS, _CLIPS = "vript_captions", "vript_long_videos", "vript_long_videos_clips"
_CAPTION_END, _CUT_END, _ASR_END = "_caption.json", "_cut_meta.json", "_asr.jsonl"
_TIME_ENDS = (_CUT_END, _ASR_END)


class VriptAdapter(SourceAdapter):
    """Reads Vript's long videos; see the module docstring.

    Parameters
    ----------
    root, cache, settle_s
        See :class:`tasks.sources.base.SourceAdapter`.
    unpack
        Whether to extract videos that exist only in an archive to ``cache/vript_videos``, each when needed.
        Otherwise they are set aside.
    only_present
        Whether to skip captions without a video with one log line instead of setting each aside; for partial
        copies of the data set.
    time_keys
        Keys of the times in ``cut_meta.json``, if not one of the known spellings.

    Raises
    ------
    UserInputError
        If the folder does not have Vript's layout, or `unpack` is set without a `cache`.
    """

    name: ClassVar[str] = "vript"

    def __init__(
        self,
        root: Path,
        cache: Path | None = None,
        settle_s: float = 0.0,
        unpack: bool = False,
        only_present: bool = False,
        time_keys: TimeKeys | None = None,
    ) -> None:
        super().__init__(root, cache, settle_s)
        for folder in (_CAPTIONS, _VIDEOS):
            if not (root / folder).is_dir():
                raise UserInputError(
                    f"{root} has no folder {folder}: looked for Vript's own layout "
                    f"({_CAPTIONS}, {_VIDEOS}, {_CLIPS})"
                )
        if unpack and cache is None:
            raise UserInputError("unpacking Vript's videos needs a cache folder")
        self.unpack = unpack
        self.only_present = only_present
        self.time_keys = time_keys

    def count(self) -> int:
        """Return the number of videos, with or without captions."""
        return len(self._captions) + len(self._uncaptioned) + len(self._broken)

    def items(self) -> Iterator[tuple[str, str, Callable[[ContentHashes], Source]]]:
        """Yield the videos sorted by id; see the base class."""
        if not self._captions and not self._uncaptioned and not self._broken:
            raise UserInputError(
                f"{self.root} has no sources: looked for *{_CAPTION_END} below {_CAPTIONS} and for "
                f"videos below {_VIDEOS}, unpacked or in archives"
            )
        left_out = 0
        for file in self._captions:
            source_id = file.name.removesuffix(_CAPTION_END)
            if self.only_present and source_id not in self._videos:
                left_out += 1
                continue
            yield source_id, file.location, partial(self._make, file)
        for file in self._uncaptioned:
            yield _video_id(file), file.location, partial(_no_captions, file)
        for file in self._broken:
            yield "", file.location, partial(_no_archive, file)
        if left_out:
            _log.info("skipped %d captioned videos of Vript that are missing", left_out)

    @cached_property
    def _files(self) -> dict[str, list[DataFile]]:
        """The relevant files by folder; each folder is listed and each archive opened once."""
        wanted = {_CAPTIONS: (_CAPTION_END,), _VIDEOS: VIDEO_SUFFIXES + _TIME_ENDS, _CLIPS: _TIME_ENDS}
        return {folder: list(list_files(self.root, folder, ends)) for folder, ends in wanted.items()}

    @cached_property
    def _captions(self) -> list[DataFile]:
        """Return the caption files sorted by id; archive copies of unpacked files are ignored."""
        seen: set[str] = set()
        files = []
        for file in self._files[_CAPTIONS]:
            packed_again = file.member is not None and file.name in seen
            short = "short" in file.location.removesuffix(file.name)
            if file.name.endswith(_CAPTION_END) and not packed_again and not short:
                seen.add(file.name)
                files.append(file)
        return sorted(files, key=lambda file: (file.name, file.location))

    @cached_property
    def _videos(self) -> dict[str, DataFile]:
        """Videos by id, unpacked ones before those in archives."""
        videos: dict[str, DataFile] = {}
        for file in self._files[_VIDEOS]:
            if file.name.endswith(VIDEO_SUFFIXES) and "-Scene-" not in file.name:
                videos.setdefault(_video_id(file), file)
        return videos

    @cached_property
    def _uncaptioned(self) -> list[DataFile]:
        captioned = {file.name.removesuffix(_CAPTION_END) for file in self._captions}
        return [file for source_id, file in sorted(self._videos.items()) if source_id not in captioned]

    @cached_property
    def _boundaries(self) -> dict[str, DataFile]:
        """Files with boundaries, by name."""
        files: dict[str, DataFile] = {}
        for file in self._files[_CLIPS] + self._files[_VIDEOS]:
            if file.name.endswith(_TIME_ENDS):
                files.setdefault(file.name, file)
        return files

    @cached_property
    def _about(self) -> dict[str, dict[str, Any]]:
        """The data set's metadata on its videos, by id; an object by id, or a list of objects."""
        path = self.root / _META
        if not path.exists():
            return {}
        refuse_to_leave(path, self.root, _META)
        try:
            values = load_json(decode_utf8(read_regular(path), _META), _META)
        except OSError as problem:
            raise UserInputError(f"{path} cannot be read ({problem.strerror}): fetch it again") from problem
        except SetAside as problem:
            message = f"{self.root}: {problem.message}: fetch it again, or remove it"
            raise UserInputError(message) from problem
        if isinstance(values, list):
            values = {str(row.get("video_id")): row for row in values if isinstance(row, dict)}
        if not isinstance(values, dict):
            raise UserInputError(f"{path} is neither an object nor a list: fetch it again, or remove it")
        return {id_: row for id_, row in values.items() if isinstance(row, dict)}

    @cached_property
    def _broken(self) -> list[DataFile]:
        """Archives that cannot be opened."""
        files = [file for folder in self._files.values() for file in folder]
        return [file for file in files if file.member is None and file.path.suffix.lower() == ".zip"]

    def _make(self, file: DataFile, hashes: ContentHashes) -> Source:
        value = load_json(decode_utf8(file.read(self.root), file.location), file.location)
        meta = _object(value, "meta", file.location)
        source_id = meta.get("video_id", file.name.removesuffix(_CAPTION_END))
        if not isinstance(source_id, str):
            raise SetAside(Reason.CAPTIONS_MALFORMED, f"{file.location}: video_id must be text")
        check_id(source_id, file.location)
        if source_id != file.name.removesuffix(_CAPTION_END):
            raise SetAside(
                Reason.CAPTIONS_MALFORMED,
                f"{file.location} describes the video {source_id!r}: its name and its content disagree",
            )
        captions = self._scene_captions(_object(value, "data", file.location), file.location)
        video = self._videos.get(source_id)
        if video is None:
            raise SetAside(
                Reason.VIDEO_MISSING,
                f"the video {source_id} is not below {_VIDEOS}: download it, or use only existing videos "
                "with vript:PATH?only_present=true",
            )
        clips = self._clips(source_id, captions, file.location)
        path = self._video_path(source_id, video)
        title = meta.get("video_title")
        return Source(
            id=source_id,
            adapter=self.name,
            title=(clean_caption(title) if isinstance(title, str) else "") or source_id,
            video=str(path.resolve()),
            content_sha256=hashes.digest(path, video.location),
            clips=clips,
            licence=LICENCE,
            redistributable=False,
            credit=f"YouTube video {source_id}, captioned in Vript",
            content_category=_category(self._about.get(source_id, {}), f"{_META}, {source_id}"),
        )

    def _scene_captions(self, data: dict[str, Any], where: str) -> dict[int, str]:
        """Return the caption of each captioned scene, by ascending scene number."""
        captions: dict[int, str] = {}
        for clip_id, row in data.items():
            here = f"{where}, {clip_id}"
            scene = scene_number(clip_id, where)
            if scene in captions:
                raise SetAside(Reason.CAPTIONS_MALFORMED, f"{here}: scene {scene} occurs twice")
            caption = row.get("caption") if isinstance(row, dict) else row
            content = caption.get("content") if isinstance(caption, dict) else caption
            if content is not None and not isinstance(content, str):
                raise SetAside(Reason.CAPTIONS_MALFORMED, f"{here}: the caption's content must be text")
            captions[scene] = content or ""
        return dict(sorted(captions.items()))

    def _clips(self, source_id: str, captions: dict[int, str], where: str) -> tuple[Clip, ...]:
        times = self._times(source_id)
        lines = []
        for scene, caption in captions.items():
            if not clean_caption(caption):
                continue
            if scene not in times:
                raise SetAside(
                    Reason.CLIP_BOUNDARIES_MISSING,
                    f"{where}: no start and end is known for scene {scene} of {source_id}",
                )
            start_s, end_s = times[scene]
            lines.append(CaptionLine(start_s, end_s, caption, f"{where}, scene {scene}"))
        return clips_from_lines(lines, where)

    def _times(self, source_id: str) -> Times:
        cut = self._boundaries.get(source_id + _CUT_END)
        asr = self._boundaries.get(source_id + _ASR_END)
        if cut is not None:
            try:
                return times_from_cut_meta(cut.read(self.root), cut.location, self.time_keys)
            except SetAside as problem:
                if asr is None:
                    raise
                _log.info("%s; using the cumulative durations in %s instead", problem, asr.location)
        if asr is not None:
            return times_from_durations(asr.read(self.root), asr.location)
        raise SetAside(
            Reason.CLIP_BOUNDARIES_MISSING,
            f"neither {source_id}{_CUT_END} nor {source_id}{_ASR_END} is below {_CLIPS}: fetch its archive",
        )

    def _video_path(self, source_id: str, video: DataFile) -> Path:
        if video.member is None:
            refuse_to_leave(video.path, self.root, video.location)
            return video.path
        if not self.unpack or self.cache is None:
            raise SetAside(
                Reason.VIDEO_MISSING,
                f"the video {source_id} is still packed in {video.path.name}: "
                "unzip the archive in place, or give the sources as vript:PATH?unpack=true",
            )
        return video.unpack(self.root, self.cache / "vript_videos" / video.name)


def _object(value: Any, key: str, where: str) -> dict[str, Any]:
    part = value.get(key) if isinstance(value, dict) else None
    if not isinstance(part, dict):
        raise SetAside(Reason.CAPTIONS_MALFORMED, f"{where}: {key!r} must be an object")
    return part


def _category(about: dict[str, Any], where: str) -> str:
    """Return a video's category: a text, or the first of a list, as YouTube gives it."""
    value = about.get("category") or about.get("categories") or ""
    first = value[0] if isinstance(value, list) else value
    if not isinstance(first, str):
        raise SetAside(
            Reason.BAD_CONTENT_CATEGORY, f"{where}: the category must be text, found {first!r:.80}"
        )
    return first


def _video_id(file: DataFile) -> str:
    return PurePosixPath(file.name).stem


def _no_captions(file: DataFile, _hashes: ContentHashes) -> Source:
    raise SetAside(
        Reason.CAPTIONS_MISSING,
        f"{file.location} has no {_video_id(file)}{_CAPTION_END} below {_CAPTIONS}",
    )


def _no_archive(file: DataFile, _hashes: ContentHashes) -> Source:
    raise SetAside(Reason.BAD_ARCHIVE, f"{file.location} is not a readable archive: fetch it again")
