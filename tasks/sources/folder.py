"""The adapter `folder`: video files, each with a caption file next to it.

``holiday/beach.mp4`` has its clips in ``holiday/beach.jsonl``, one a line::

    {"start_s": 0.0, "end_s": 7.5, "caption": "A red boat lies on the beach."}

An optional ``licences.jsonl`` in the root has the origin of videos, one per line::

    {"video": "holiday/beach.mp4", "title": "Beach", "licence": "CC BY 4.0", "redistributable": true,
     "credit": "A. Person", "content_category": "Travel & Events"}

A video without such a line has the licence "unknown" and may not be redistributed.
"""

from __future__ import annotations

import logging
import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from storage_schemas.errors import Reason, SetAside, UserInputError, did_you_mean
from storage_schemas.model import Frozen
from storage_schemas.printable import printable
from storage_schemas.regular_files import read_regular_text, why_unread
from storage_schemas.source import Source
from storage_schemas.value_problems import first_error
from tasks.sources.base import VIDEO_SUFFIXES, SourceAdapter, content_id, read_bytes, refuse_to_leave
from tasks.sources.caption_forms import (
    CAPTION_SUFFIXES,
    COMPRESSED_SUFFIXES,
    may_be_captions,
    parse_captions,
    to_convert,
)
from tasks.sources.clips import clean_caption, clips_from_lines, load_json
from tasks.sources.content_hash import ContentHashes

_log = logging.getLogger(__name__)

LICENCES_NAME = "licences.jsonl"


class LicenceLine(Frozen):
    """One line of ``licences.jsonl``; `video` is a path relative to the root."""

    video: str
    title: str = ""
    licence: str = "unknown"
    redistributable: bool = False
    credit: str = ""
    content_category: str = ""


def _key(location: str) -> str:
    """Return what a video and its captions have in common; a name can be written in two Unicode forms."""
    path = Path(location)
    path = path.with_suffix("") if path.suffix.lower() in COMPRESSED_SUFFIXES else path
    return unicodedata.normalize("NFC", str(path.with_suffix("")))


class FolderAdapter(SourceAdapter):
    """Reads a folder of videos with caption files; see the module docstring.

    Subfolders are read too; hidden files and folders are not. A source's id is derived from the video's
    content, so a moved or renamed file remains the same source.
    """

    name: ClassVar[str] = "folder"

    def __init__(self, root: Path, cache: Path | None = None, settle_s: float = 0.0) -> None:
        super().__init__(root, cache, settle_s)
        self._beside: dict[str, list[str]] = defaultdict(list)

    def count(self) -> int:
        """Return the number of video files."""
        return len(self._found)

    @property
    def locations(self) -> list[str]:
        """Paths of the videos, relative to the root, sorted; some may turn out to be unusable.

        Raises
        ------
        UserInputError
            If there are none.
        """
        if not self._found:
            raise UserInputError(
                f"{self.root} has no videos: looked in it and below it for files ending in "
                f"{', '.join(VIDEO_SUFFIXES)} that are not hidden"
            )
        return self._found

    def items(self) -> Iterator[tuple[str, str, Callable[[ContentHashes], Source]]]:
        """Yield the videos sorted by path; see the base class."""
        locations = self.locations
        licences = {unicodedata.normalize("NFC", video): line for video, line in self._licences().items()}
        for location in locations:
            licence = licences.get(unicodedata.normalize("NFC", location))
            yield "", location, partial(self._make, location, licence)

    @cached_property
    def _found(self) -> list[str]:
        """Return the locations of all videos, and of links and folders to report as problems."""
        paths: list[str] = []
        root = self.root.resolve()

        def tell(problem: OSError) -> None:
            paths.append(str(problem.filename))

        for folder, below, files in os.walk(self.root, onerror=tell):
            here = Path(folder)
            below[:] = [name for name in below if not name.startswith(".")]
            links = [here / name for name in below if (here / name).is_symlink()]
            paths += [str(link) for link in links if not link.resolve().is_relative_to(root)]
            paths += [
                str(here / name)
                for name in files
                if Path(name).suffix.lower() in VIDEO_SUFFIXES and not name.startswith(".")
            ]
            for name in files:
                if Path(name).suffix.lower() not in VIDEO_SUFFIXES:
                    location = Path(os.path.relpath(here / name, self.root)).as_posix()
                    self._beside[_key(location)].append(location)
        return sorted(Path(os.path.relpath(path, self.root)).as_posix() for path in paths)

    def captions_beside(self, location: str) -> str | None:
        """Return where a video's captions are, or None: of files with its name, the first ending counts.

        Raises
        ------
        SetAside
            `captions_missing` if there is a file that may hold captions in another form.
        """
        beside = sorted(self._beside.get(_key(location), ()))
        for suffix in CAPTION_SUFFIXES:
            found = [name for name in beside if Path(name).suffix.lower() == suffix]
            exact = Path(location).with_suffix(suffix).as_posix()
            if found:
                return exact if exact in found else found[0]
        if other := next(filter(may_be_captions, beside), None):
            raise self._missing(location, other)
        return None

    def _missing(self, location: str, other: str = "") -> SetAside:
        """Return the error for a video without captions, and with another file of its name, if any."""
        target = Path(location).with_suffix(CAPTION_SUFFIXES[0]).name
        first = "" if may_be_captions(other) else ". `slvmeval sources caption` writes first ones"
        return SetAside(
            Reason.CAPTIONS_MISSING,
            f"{location} has no captions next to it ({', '.join(CAPTION_SUFFIXES)}): "
            f"{other and f'{other} is not read: '}{to_convert(Path(other).name, target)}{first}",
        )

    def checked_video(self, location: str) -> Path:
        """Return the path of a video; raise SetAside if it is not a file of this folder that has bytes."""
        video = self.root / location
        refuse_to_leave(video, self.root, location)
        if video.is_dir():
            raise SetAside(
                Reason.UNSAFE_PATH,
                f"the folder {location} cannot be read, so its videos are missing: check its permissions",
            )
        if not video.is_file():
            raise SetAside(Reason.NOT_A_VIDEO, f"{location} is a pipe, socket or device: remove it")
        if video.stat().st_size == 0:
            raise SetAside(Reason.EMPTY_FILE, f"{location} has zero bytes: copy it again")
        return video

    def _make(self, location: str, licence: LicenceLine | None, hashes: ContentHashes) -> Source:
        video = self.checked_video(location)
        shown = self.captions_beside(location)
        if shown is None:
            beside = sorted(self._beside.get(_key(location), ()))
            raise self._missing(location, beside[0] if beside else "")
        captions = self.root / shown
        if captions.is_symlink():
            refuse_to_leave(captions, self.root, shown)
        clips = clips_from_lines(parse_captions(read_bytes(captions, shown), shown), shown)
        sha256 = hashes.digest(video, location)
        about = licence or LicenceLine(video=location)
        return Source(
            id=content_id(sha256),
            adapter=self.name,
            title=clean_caption(about.title) or clean_caption(printable(video.stem)),
            video=str(video.resolve()),
            content_sha256=sha256,
            clips=clips,
            licence=about.licence,
            redistributable=about.redistributable,
            credit=about.credit,
            content_category=about.content_category,
        )

    def _licences(self) -> dict[str, LicenceLine]:
        """Read ``licences.jsonl``; an error stops the scan, since a licence would be wrong."""
        file = self.root / LICENCES_NAME
        if not os.path.lexists(file):
            return {}
        lines: dict[str, LicenceLine] = {}
        found = {unicodedata.normalize("NFC", location) for location in self._found}
        try:
            texts = read_regular_text(file, "utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as problem:
            raise UserInputError(f"{file} cannot be read: {why_unread(problem)}") from problem
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                continue
            try:
                line = LicenceLine.model_validate(load_json(text, f"{file}, line {number}"), strict=True)
            except ValidationError as problem:
                raise UserInputError(
                    f"{file}, line {number}: {first_error(problem, LicenceLine.model_fields)}"
                ) from problem
            except SetAside as problem:
                raise UserInputError(problem.message) from problem
            if line.video in lines:
                raise UserInputError(f"{file}, line {number}: a second line for {line.video}")
            if unicodedata.normalize("NFC", line.video) not in found:
                hint = did_you_mean(line.video, self._found)
                _log.warning("%s, line %d: no video %r.%s", file, number, line.video, hint)
            lines[line.video] = line
        return lines
