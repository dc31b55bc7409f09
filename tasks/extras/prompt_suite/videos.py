"""The videos that prompts are made from: a folder, or a file that lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage_schemas.checksum_cache import remembered_digests
from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.model import Frozen
from tasks.media.probe import probe
from tasks.scoring.suites.manifest import VIDEO_SUFFIXES
from tasks.scoring.user_files import MALFORMED, UnusedLine, read_rows
from tasks.scoring.video_folder import VideoFolder

#: Ids are also used as file names.
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._-]+")
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class SourceVideo(Frozen):
    """One video of the user.

    Parameters
    ----------
    prompt_id
        Id of its prompt: letters, digits, ``.``, ``_`` and ``-``.
    path, digest
        Absolute path of the file, and its SHA-256.
    """

    prompt_id: str
    path: str
    digest: str
    theme: str = ""


@dataclass(frozen=True)
class SourceVideos:
    """The videos in order of their ids, and rows that were left out."""

    videos: tuple[SourceVideo, ...]
    left_out: tuple[UnusedLine, ...] = ()


def load_videos(path: Path) -> SourceVideos:
    """Read a folder, or a list in CSV or JSON Lines with ``file`` and optionally ``prompt_id``, ``theme``.

    In a folder, the theme is the first folder of a path, and the id is made of the path. Paths in a list are
    relative to the list. Videos that are missing, damaged or duplicates are left out.

    Raises
    ------
    UserInputError
        If there is no video.
    """
    root = path if path.is_dir() else path.parent
    rows = _of_folder(path) if path.is_dir() else _of_list(path)
    finder = VideoFolder(root)
    videos: dict[str, SourceVideo] = {}
    left_out: list[UnusedLine] = []
    for where, file, id_, theme in rows:
        try:
            video = _video(finder, file, id_, theme)
        except ValueError as problem:
            left_out.append(UnusedLine(where, MALFORMED, str(problem)))
            continue
        except SetAside as problem:
            left_out.append(UnusedLine(where, problem.reason.value, problem.message))
            continue
        if video.prompt_id in videos:
            message = (
                f"{video.prompt_id} is already the id of {videos[video.prompt_id].path}: give each video its "
                "own prompt_id"
            )
            left_out.append(UnusedLine(where, Reason.DUPLICATE_ID.value, message))
        videos.setdefault(video.prompt_id, video)
    if not videos:
        reason = f": {left_out[0].where}: {left_out[0].message}" if left_out else ""
        raise UserInputError(f"{path} has no usable video{reason}")
    return SourceVideos(tuple(videos[id_] for id_ in sorted(videos)), tuple(left_out))


def _of_folder(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    for path in sorted(folder.rglob("*")):
        # broken links are reported too
        if path.suffix.lower() in VIDEO_SUFFIXES and not path.is_dir():
            file = path.relative_to(folder)
            yield file.as_posix(), file.as_posix(), "", file.parts[0] if len(file.parts) > 1 else ""


def _of_list(path: Path) -> Iterator[tuple[str, str, str, str]]:
    for where, row in read_rows(path, ("file",)):
        cells = [row.get(name) for name in ("file", "prompt_id", "theme")]
        file, id_, theme = ("" if cell is None else str(cell).strip() for cell in cells)
        yield where, file, id_, theme


def _video(finder: VideoFolder, file: str, id_: str, theme: str) -> SourceVideo:
    if not file:
        raise ValueError("file is empty: write the video's path")
    # with a leading dot, the file would be hidden
    name = id_ or _NOT_IN_IDS.sub("-", file.rpartition(".")[0]).strip("-.")
    if not _ID.fullmatch(name):
        raise ValueError(
            f"{name[:120]!r} is not an id: give a prompt_id of at most 100 letters, digits, '.', '_' and '-'"
        )
    path = finder.find(file).resolve()
    try:
        digest = remembered_digests(path.parent, [path.name])[path.name]
    except OSError as problem:
        raise SetAside(Reason.VIDEO_MISSING, f"{path} cannot be read ({problem.strerror})") from problem
    probe(path, quick=True)
    return SourceVideo(prompt_id=name, path=str(path), digest=digest, theme=theme)
