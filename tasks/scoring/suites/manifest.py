"""The manifest: the model and the prompt of each video file, never guessed from file names."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from storage_schemas.checksum_cache import remembered_digests
from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.model import Frozen
from tasks.media.probe import probe
from tasks.scoring.user_files import MALFORMED, UnusedLine, read_rows
from tasks.scoring.video_folder import VideoFolder

#: File names of a manifest in the videos' folder.
NAMES = ("manifest.csv", "manifest.jsonl", "manifest.tsv")
#: Suffixes of videos in a first manifest.
VIDEO_SUFFIXES = (".mp4", ".mov", ".webm", ".mkv", ".avi", ".gif", ".m4v")
#: Reasons for videos without a prompt, and prompts without a video.
NO_PROMPT, NO_VIDEO = "no_such_prompt", "prompt_without_video"
_COLUMNS = ("model", "prompt_id", "sample", "file")


class VideoEntry(Frozen):
    """One video of the manifest.

    Parameters
    ----------
    path
        The file, absolute.
    digest
        Its SHA-256.
    unreadable
        Why it cannot be used; empty if it can.
    """

    model: str
    prompt_id: str
    sample: int
    path: str
    digest: str = ""
    unreadable: str = ""

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.model}/{self.prompt_id}#{self.sample}"


@dataclass(frozen=True)
class VideoManifest:
    """The videos, by prompt, model and sample, and what was left out."""

    videos: tuple[VideoEntry, ...]
    left_out: tuple[UnusedLine, ...] = ()


def find_manifest(videos: Path) -> Path:
    """Return the manifest in the videos' folder.

    Raises
    ------
    UserInputError
        If there is none, with how to write one.
    """
    if not videos.is_dir():
        raise UserInputError(f"there is no folder {videos}")
    for name in NAMES:
        if (videos / name).is_file():
            return videos / name
    raise UserInputError(
        f"{videos} has no {NAMES[0]} or {NAMES[1]} that says which file is which model's video of "
        f"which prompt: `slvmeval init {quote(str(videos))} --kind manifest` writes a first one, "
        "whose column prompt_id you fill in"
    )


def load_manifest(path: Path, videos: Path, models: Sequence[str] = ()) -> VideoManifest:
    """Read a manifest, CSV or JSON Lines: ``model``, ``prompt_id``, ``file``, and ``sample`` (0 by default).

    Each file is read once for its checksum and checked. Missing files and paths outside the folder are left
    out; a file that is not a video stays, marked `unreadable`.

    Parameters
    ----------
    videos
        The folder in which the files lie.
    models
        Only these models; empty for all.

    Raises
    ------
    UserInputError
        If the manifest cannot be read, lacks a column, has no video of a requested model, or has no video at
        all.
    """
    finder = VideoFolder(videos)
    entries: dict[tuple[str, str, int], VideoEntry] = {}
    left_out: list[UnusedLine] = []
    known_models: set[str] = set()
    for where, row in read_rows(path, ("model", "prompt_id", "file")):
        try:
            model, prompt_id, sample, file = _cells(row)
            known_models.add(model)
            if models and model not in models:
                continue
            entry = _entry(finder, model, prompt_id, sample, file)
        except ValueError as problem:
            left_out.append(UnusedLine(where, MALFORMED, str(problem)))
            continue
        except SetAside as problem:
            left_out.append(UnusedLine(where, problem.reason.value, problem.message))
            continue
        key = (model, prompt_id, sample)
        if key in entries:
            message = (
                f"{entry.name} has a file already ({entries[key].path}): number further ones in `sample`"
            )
            left_out.append(UnusedLine(where, Reason.DUPLICATE_ID.value, message))
        entries.setdefault(key, entry)
    for model in models:
        if model not in known_models:
            raise UserInputError(
                f"{path} has no model {model!r}: it has {', '.join(sorted(known_models)) or 'none'}"
            )
    if not entries:
        wrong = f": {left_out[0].where}: {left_out[0].message}" if left_out else ""
        raise UserInputError(f"{path} names no video that is there{wrong}")
    order = sorted(entries.values(), key=lambda one: (one.prompt_id, one.sample, one.model))
    return VideoManifest(tuple(order), tuple(left_out))


def _cells(row: Mapping[str, Any]) -> tuple[str, str, int, str]:
    """Return model, prompt, sample and file of a row; raise ValueError if one is invalid."""
    cells = {name: str(row.get(name, "")).strip() for name in ("model", "prompt_id", "file")}
    empty = [name for name, value in cells.items() if not value or row.get(name) is None]
    if empty:
        raise ValueError(f"{', '.join(empty)} is empty: fill it in")
    given = row.get("sample")
    sample = 0 if given is None or given == "" else given
    try:
        number = int(str(sample))
    except ValueError:
        number = -1
    if number < 0 or number >= 2**31 or isinstance(sample, bool):
        raise ValueError(f"sample is {given!r}: give a whole number from 0")
    return cells["model"], cells["prompt_id"], number, cells["file"]


def _entry(finder: VideoFolder, model: str, prompt_id: str, sample: int, file: str) -> VideoEntry:
    path = finder.find(file).resolve()
    try:
        digest = remembered_digests(path.parent, [path.name])[path.name]
    except OSError as problem:
        raise SetAside(Reason.VIDEO_MISSING, f"{path} cannot be read ({problem.strerror})") from problem
    unreadable = ""
    try:
        probe(path, quick=True)
    except SetAside as problem:
        unreadable = f"{problem.reason.value}: {problem.message}"
    return VideoEntry(
        model=model,
        prompt_id=prompt_id,
        sample=sample,
        path=str(path),
        digest=digest,
        unreadable=unreadable,
    )


def draft_manifest(videos: Path) -> tuple[str, int]:
    """Return a first manifest of a folder as CSV, and its number of files; a person fills in `prompt_id`.

    The first folder in a file's path is taken as the model's name. The prompt is unknown, so that column is
    empty.

    Raises
    ------
    UserInputError
        If the folder does not exist or has no video.
    """
    if not videos.is_dir():
        raise UserInputError(f"there is no folder {videos}")
    files = sorted(
        path.relative_to(videos)
        for path in videos.rglob("*")
        if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file()
    )
    if not files:
        raise UserInputError(f"{videos} has no file that ends in {', '.join(VIDEO_SUFFIXES)}")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for file in files:
        writer.writerow([file.parts[0] if len(file.parts) > 1 else "", "", "0", file.as_posix()])
    return out.getvalue(), len(files)
