"""What the readers of other people's sets share: comparisons of two local videos, and what was left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from storage_schemas.errors import Reason, SetAside
from tasks.pairs.file_pairs import Gold
from tasks.scoring.user_files import UnusedLine
from tasks.sources.base import refuse_to_leave

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
class LoadedSet:
    """The comparisons of a set, and what was left out."""

    pairs: tuple[MetaPair, ...]
    left_out: tuple[UnusedLine, ...]

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


def unique(pairs: Sequence[MetaPair], left_out: Sequence[UnusedLine]) -> LoadedSet:
    """Return a loaded set; of comparisons with the same id the first stays."""
    found: dict[str, MetaPair] = {}
    more = list(left_out)
    for pair in pairs:
        if pair.key in found:
            more.append(UnusedLine(pair.key, Reason.DUPLICATE_ID.value, f"{pair.key} is there twice"))
        found.setdefault(pair.key, pair)
    return LoadedSet(tuple(found.values()), tuple(more))
