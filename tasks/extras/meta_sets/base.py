"""Shared by the readers of meta-evaluation sets: comparisons of two local videos, and what was left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from storage_schemas.errors import Reason
from tasks.pairs.file_pairs import Gold
from tasks.scoring.user_files import UnusedLine

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
        Further information from the set, JSON-serialisable.
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


def unique(pairs: Sequence[MetaPair], left_out: Sequence[UnusedLine]) -> LoadedSet:
    """Return a loaded set; among comparisons with the same id the first is kept."""
    by_key: dict[str, MetaPair] = {}
    more = list(left_out)
    for pair in pairs:
        if pair.key in by_key:
            more.append(UnusedLine(pair.key, Reason.DUPLICATE_ID.value, f"{pair.key} appears twice"))
        by_key.setdefault(pair.key, pair)
    return LoadedSet(tuple(by_key.values()), tuple(more))
