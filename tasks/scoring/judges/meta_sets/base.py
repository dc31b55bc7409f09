"""Shared by the readers of meta-evaluation sets: comparisons of two local videos, and what was left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from storage_schemas.errors import Reason, SetAside
from storage_schemas.regular_files import in_either_form
from tasks.pairs.file_pairs import Gold
from tasks.scoring.user_files import UnusedLine
from tasks.sources.base import refuse_to_leave

#: There is no answer, or one that the set does not define.
NO_GOLD = "no_gold_answer"


@dataclass(frozen=True)
class MetaPair:
    """One comparison of two videos for one aspect, with people's answer.

    Parameters
    ----------
    key
        The set's own id with the aspect: unique in the set.
    group
        Key shared by comparisons of one prompt, which are not independent.
    video_a, video_b
        Local files.
    gold
        Which one is better for the aspect; ``tie`` if they are equally good or bad.
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
class LoadedSet:
    """The comparisons of a set, and what was left out."""

    pairs: tuple[MetaPair, ...]
    left_out: tuple[UnusedLine, ...]

    def reasons(self) -> dict[str, int]:
        """Return the number left out for each reason."""
        return dict(sorted(Counter(one.reason for one in self.left_out).items()))


class MetaSet(ABC):
    """A reader of one set's published files.

    Class attributes
    ----------------
    name, title
        Its names in commands and for display.
    fps
        Default sampling rate of its videos, which last a few seconds, in frames per
        second.
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
            Its folder, or its file with the answers.
        videos
            The base folder of its paths; None for the set's default.

        Raises
        ------
        UserInputError
            If a file is missing or does not belong to the set.
        """


class Videos:
    """The videos under one folder; each is searched once.

    Parameters
    ----------
    root
        Paths of the set's files are relative to it and cannot leave it.
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
        video = self._known[named]
        if isinstance(video, SetAside):
            raise video
        return video

    def first(self, names: Sequence[str]) -> Path:
        """Return the first existing path.

        Raises
        ------
        SetAside
            For the first path, if none exists.
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
        path = in_either_form(self.root.joinpath(*parts.parts))
        if not path.is_file():
            raise SetAside(Reason.VIDEO_MISSING, f"there is no video {path}")
        refuse_to_leave(path, self.root, named)
        if path.stat().st_size == 0:
            raise SetAside(Reason.EMPTY_FILE, f"{path} has zero bytes: get it again")
        return path


def unique(pairs: Sequence[MetaPair], left_out: Sequence[UnusedLine]) -> LoadedSet:
    """Return a loaded set; among comparisons with the same id the first is kept."""
    by_key: dict[str, MetaPair] = {}
    more = list(left_out)
    for pair in pairs:
        if pair.key in by_key:
            more.append(UnusedLine(pair.key, Reason.DUPLICATE_ID.value, f"{pair.key} is there twice"))
        by_key.setdefault(pair.key, pair)
    return LoadedSet(tuple(by_key.values()), tuple(more))
