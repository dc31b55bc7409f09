"""Base class of adapters, which turn a folder into sources, and the validation of ids and paths."""

from __future__ import annotations

import errno
import logging
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from storage_schemas.away import ask_again, is_away
from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.printable import DIRECTION_MARKS, UNSAFE_CATEGORIES, printable
from storage_schemas.regular_files import open_regular
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import MAX_ID_LENGTH, Source, content_category_mistake
from storage_schemas.value_problems import first_error
from tasks.sources.clips import MAX_CAPTION_BYTES, clean_caption
from tasks.sources.content_categories import read_content_categories
from tasks.sources.content_hash import ContentHashes

#: Hexadecimal digits of the content's checksum in an id derived from it.
CONTENT_DIGITS = 20


_log = logging.getLogger(__name__)


def content_id(sha256: str) -> str:
    """Return an id derived from the content, independent of the file's location."""
    return f"v{sha256[:CONTENT_DIGITS]}"


def check_id(source_id: str, where: str) -> str:
    """Validate a source id and return it.

    Spaces, quotes, emoji and a leading hyphen are allowed. Path separators, ``..``, a leading dot, control
    characters and marks that change the text direction are not.

    Parameters
    ----------
    source_id
        The id from the data set.
    where
        The file that contains it, for the message.

    Raises
    ------
    SetAside
        `unsafe_id`, or `id_too_long` over `MAX_ID_LENGTH` characters.
    """
    shown = ascii(source_id[:80])
    if len(source_id) > MAX_ID_LENGTH:
        raise SetAside(
            Reason.ID_TOO_LONG,
            f"{where}: the id {shown}… has {len(source_id)} characters: shorten it to {MAX_ID_LENGTH}",
        )
    if not source_id.strip():
        problem = "is empty"
    elif "/" in source_id or "\\" in source_id:
        problem = "has a path separator in it"
    elif ".." in source_id or source_id.startswith("."):
        problem = "starts with a dot or has '..' in it"
    elif any(unicodedata.category(sign) in UNSAFE_CATEGORIES for sign in source_id):
        problem = "has a control character in it"
    elif not DIRECTION_MARKS.isdisjoint(source_id):
        problem = "has a mark in it that turns the direction of text"
    else:
        return source_id
    raise SetAside(Reason.UNSAFE_ID, f"{where}: the id {shown} {problem}: give the source another id")


#: File name suffixes (in lower case) of videos.
VIDEO_SUFFIXES = (
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".m2v", ".ts", ".m2ts", ".mts",
    ".flv", ".wmv", ".ogv", ".3gp", ".vob", ".mxf",
)  # fmt: skip

#: Stage name in the rows of an adapter.
SCAN_STAGE = "scan"


class SourceAdapter(ABC):
    """Turns a data set on disk into sources.

    An adapter reads names, captions and bytes but never decodes a video. The probe checks later whether the
    bytes are a video.

    Parameters
    ----------
    root
        The folder of the data set.
    cache
        A folder that caches checksums (and unpacked videos) between scans, or ``None``.
    settle_s
        A video that changed less than this many seconds ago counts as still being written; 0 for never.

    Raises
    ------
    UserInputError
        If `root` is not a folder.
    """

    name: ClassVar[str]

    def __init__(self, root: Path, cache: Path | None = None, settle_s: float = 0.0) -> None:
        if not root.exists():
            raise UserInputError(f"{root} does not exist: give the folder that holds the data set")
        if not root.is_dir():
            raise UserInputError(f"{root} is not a folder: give the folder that holds the data set")
        self.root = root
        self.cache = cache
        self.settle_s = settle_s

    @abstractmethod
    def count(self) -> int:
        """Return the number of sources :meth:`scan` will process, without reading them."""

    @abstractmethod
    def items(self) -> Iterator[tuple[str, str, Callable[[ContentHashes], Source]]]:
        """Yield id (as far as known), location and factory of each source, in a fixed order.

        The id is used in rows of set-aside sources; the location is relative to `root`.

        Raises
        ------
        UserInputError
            If `root` contains nothing this adapter can read.
        """

    def scan(self) -> Iterator[Source | SetAsideRow]:
        """Yield each source, or the row of why it was set aside; bad sources do not affect others.

        The same folder gives the same sources in the same order. Of several sources with equal content, the
        first usable one is kept; ids are unique. A source whose data set names no content category gets the
        one in :mod:`tasks.sources.content_categories`, if any.
        """
        categories = read_content_categories(self.root)
        hashes = ContentHashes(self.cache, self.settle_s)
        by_content: dict[str, str] = {}
        by_id: dict[str, str] = {}
        try:
            for source_id, location, make in self.items():
                try:
                    source = _categorised(_made(make, hashes, location), categories, location)
                    _refuse_second(source, location, by_id, by_content)
                except SetAside as problem:
                    yield SetAsideRow(
                        source_id=printable(source_id),
                        stage=SCAN_STAGE,
                        reason=Reason.STORAGE_AWAY if is_away(problem) else problem.reason,
                        message=printable(problem.message),
                        location=printable(location),
                    )
                    continue
                by_content[source.content_sha256] = location
                by_id[source.id] = location
                yield source
        finally:
            hashes.save()


def _made(make: Callable[[ContentHashes], Source], hashes: ContentHashes, location: str) -> Source:
    """Make one source, turning any failure of its files into :class:`SetAside`."""
    try:
        return ask_again(partial(make, hashes))
    except OSError as problem:
        raise SetAside(Reason.VIDEO_MISSING, f"{location} cannot be read ({problem.strerror})") from problem
    except (ValueError, OverflowError, RecursionError) as problem:
        _log.info("%s", location, exc_info=True)
        why = f" ({first_error(problem)})" if isinstance(problem, ValidationError) else ""
        raise SetAside(
            Reason.CAPTIONS_MALFORMED,
            f"the captions or the metadata of {location} contain an invalid value{why}: correct or remove it",
        ) from problem


def _categorised(source: Source, categories: Mapping[str, str], location: str) -> Source:
    """Return a source with its content category as one line of text, validated."""
    named = source.content_category or categories.get(source.id, "")
    category = " ".join(clean_caption(named).split())
    if mistake := content_category_mistake(category):
        raise SetAside(
            Reason.BAD_CONTENT_CATEGORY,
            f"{location}: the content category {category[:80]!a} {mistake}: write a short plain name",
        )
    return source.model_copy(update={"content_category": category})


def _refuse_second(source: Source, location: str, by_id: dict[str, str], by_content: dict[str, str]) -> None:
    """Refuse a source whose id or content duplicates another's."""
    same_content = by_content.get(source.content_sha256)
    same_id = by_id.get(source.id)
    # An id derived from the content adds no information.
    if same_id is not None and source.id != content_id(source.content_sha256):
        raise SetAside(
            Reason.DUPLICATE_ID,
            f"{location} has the same id as {same_id} ({source.id}): rename one of them",
        )
    if same_content is not None:
        raise SetAside(
            Reason.DUPLICATE_CONTENT,
            f"{location} has the same content as {same_content}: remove one of them",
        )


def refuse_to_leave(path: Path, root: Path, location: str) -> None:
    """Check that a path resolves to a location within `root` and has a UTF-8 name.

    Raises
    ------
    SetAside
        `unsafe_path`, or `video_missing` for a broken link.
    """
    if any(unicodedata.category(sign) == "Cs" for sign in str(path)):
        raise SetAside(
            Reason.UNSAFE_PATH, f"the name {location!r} is not UTF-8: rename the file or its folder"
        )
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as problem:
        # Python up to 3.12 has an error of its own for a loop
        loop = isinstance(problem, RuntimeError) or problem.errno == errno.ELOOP
        what = "a loop of links" if loop else "a broken link"
        raise SetAside(Reason.VIDEO_MISSING, f"{location} is {what}: repair or remove it") from problem
    if not real.is_relative_to(root.resolve()):
        raise SetAside(
            Reason.UNSAFE_PATH,
            f"{location} is a link out of the folder: copy the file here or give the folder that contains it",
        )


def read_bytes(path: Path, shown: str) -> bytes:
    """Return the content of a caption file.

    Raises
    ------
    SetAside
        `captions_missing` if it does not exist or cannot be read, `captions_malformed` if it is far too
        large.
    """
    try:
        with open_regular(path) as file:
            data = file.read(MAX_CAPTION_BYTES + 1)
    except FileNotFoundError as problem:
        raise SetAside(Reason.CAPTIONS_MISSING, f"{shown} does not exist: create it") from problem
    except OSError as problem:
        raise SetAside(
            Reason.CAPTIONS_MISSING, f"{shown} cannot be read ({problem.strerror}): check the file"
        ) from problem
    if len(data) > MAX_CAPTION_BYTES:
        raise SetAside(
            Reason.CAPTIONS_MALFORMED, f"{shown} is larger than {MAX_CAPTION_BYTES >> 20} MiB: not captions"
        )
    return data
