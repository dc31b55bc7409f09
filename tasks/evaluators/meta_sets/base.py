"""What the readers of other people's sets share: comparisons of two local videos, and what was left out."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from storage_schemas.errors import Reason, SetAside, UserInputError
from tasks.pairs.brought import Gold
from tasks.sources.base import refuse_to_leave

#: A row of the file does not have the form that its set publishes.
MALFORMED = "malformed_row"
#: People gave no answer, or one that the set does not have.
NO_GOLD = "no_gold_answer"


@dataclass(frozen=True)
class MetaPair:
    """One comparison of two videos for one aspect, with the answer that people gave.

    Parameters
    ----------
    key
        The set's own id of it, with the aspect: unique in the set.
    group
        What comparisons of one prompt share: they are not independent of each other.
    video_a, video_b
        Local files.
    gold
        Which of them is better for the aspect; ``tie`` where they are equally good or bad.
    details
        What else the set says of it, JSON-able.
    """

    key: str
    group: str
    video_a: Path
    video_b: Path
    prompt: str
    aspect: str
    gold: Gold
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LeftOut:
    """A row, or a comparison of it, that cannot be used.

    Parameters
    ----------
    where
        Its id or line.
    reason
        A member of :class:`~storage_schemas.errors.Reason`, or one of this module's.
    message
        What is wrong, for a person.
    """

    where: str
    reason: str
    message: str


@dataclass(frozen=True)
class LoadedSet:
    """The comparisons of a set, and what was left out."""

    pairs: tuple[MetaPair, ...]
    left_out: tuple[LeftOut, ...]

    def reasons(self) -> dict[str, int]:
        """Return how much was left out for each reason."""
        return dict(sorted(Counter(one.reason for one in self.left_out).items()))


class MetaSet(ABC):
    """A reader of one set's published files.

    Class attributes
    ----------------
    name, title
        What commands and people call it.
    fps
        Frames a second at which its videos are looked at, unless the user says otherwise: they last a few
        seconds.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    fps: ClassVar[str] = "2"

    @abstractmethod
    def load(self, path: Path, videos: Path | None) -> LoadedSet:
        """Read the set.

        Parameters
        ----------
        path
            Its folder or its file with the answers.
        videos
            The folder that its paths start from; None for the place where the set has it.

        Raises
        ------
        UserInputError
            If a file is missing or is not the set's at all.
        """


class Videos:
    """The videos under one folder; each is looked for once.

    Parameters
    ----------
    root
        Paths of the set's files start here and cannot leave it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, Path | SetAside] = {}

    def find(self, named: str) -> Path:
        """Return the video of a path in the set's files.

        Raises
        ------
        SetAside
            `unsafe_path`, `video_missing` or `empty_file`.
        """
        if named not in self._known:
            try:
                self._known[named] = self._look(named)
            except SetAside as problem:
                self._known[named] = problem
        found = self._known[named]
        if isinstance(found, SetAside):
            raise found
        return found

    def first(self, names: Sequence[str]) -> Path:
        """Return the first of some paths that is there.

        Raises
        ------
        SetAside
            Of the first path, if none is.
        """
        problems = []
        for name in names:
            try:
                return self.find(name)
            except SetAside as problem:
                problems.append(problem)
        raise problems[0]

    def _look(self, named: str) -> Path:
        parts = PurePosixPath(named.replace("\\", "/"))
        drive = bool(parts.parts) and parts.parts[0].endswith(":")
        if not named.strip() or "\0" in named or parts.is_absolute() or drive or ".." in parts.parts:
            raise SetAside(
                Reason.UNSAFE_PATH, f"the path {named[:200]!r} may leave the videos' folder: do not trust it"
            )
        path = self.root.joinpath(*parts.parts)
        if not path.is_file():
            raise SetAside(Reason.VIDEO_MISSING, f"there is no video {path}")
        refuse_to_leave(path, self.root, named)
        if path.stat().st_size == 0:
            raise SetAside(Reason.EMPTY_FILE, f"{path} has zero bytes: get it again")
        return path


def read_text(path: Path) -> str:
    """Return a file's text, a mark at its beginning dropped.

    Raises
    ------
    UserInputError
        If it cannot be read or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise UserInputError(f"{path} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise UserInputError(f"{path} is not UTF-8 at byte {problem.start}") from problem


def read_lines(path: Path) -> list[tuple[int, Any]]:
    """Return the values of a JSON Lines file with the numbers of their lines; empty lines are passed over.

    Raises
    ------
    UserInputError
        Naming the line, if one is no JSON.
    """
    found = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            try:
                found.append((number, json.loads(line)))
            except (json.JSONDecodeError, RecursionError) as problem:
                raise UserInputError(f"{path}, line {number}, is no JSON: {problem}") from problem
    return found


def first_there(folder: Path, names: Sequence[str], what: str) -> Path:
    """Return the first of some paths in a folder that exists.

    Raises
    ------
    UserInputError
        If none does, or the folder is none.
    """
    if not folder.is_dir():
        raise UserInputError(f"there is no folder {folder}")
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise UserInputError(f"{folder} has no {what}: it has to have one of {', '.join(names)}")


def unique(pairs: Sequence[MetaPair], left_out: Sequence[LeftOut]) -> LoadedSet:
    """Return a loaded set; of comparisons with the same id the first stays."""
    found: dict[str, MetaPair] = {}
    more = list(left_out)
    for pair in pairs:
        if pair.key in found:
            more.append(LeftOut(pair.key, Reason.DUPLICATE_ID.value, f"{pair.key} is there twice"))
        found.setdefault(pair.key, pair)
    return LoadedSet(tuple(found.values()), tuple(more))
