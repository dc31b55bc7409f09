"""One worker's work on one task, as a value that defines what may leave the server.

There are two kinds of tasks, pairs and single videos, each with an assignment of its own. They differ in what
is shown, what an answer is, when it may be given, and what is stored; everything else about tasks is
the same for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sqlalchemy import Row

from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.playback import Intervals, ServedVideo, length
from tasks.annotation.pair_task import Place
from tasks.annotation.rating_task import AnyAnswer, AnyTask

#: Sums of fractions of a second are off by less.
ROUNDING_S = 1e-6

AssignmentState = Literal["opened", "preferred", "rated"]
AssignmentRow = Row[Any]


@dataclass(frozen=True, kw_only=True)
class Assignment(ABC):
    """One worker's work on one task of either kind.

    Parameters
    ----------
    id
        Random id; the answer has the same one.
    rating
        The last answer of the task, as text; None before.
    seen
        For each place, the merged intervals that were played, in seconds of that video.
    lease_until, opened_at
        UTC in ISO 8601.
    least_seen
        Share that must be played of what has to be watched.
    training
        Whether the worker trains with it: its answer is explained, and does not count.
    """

    id: str
    campaign: str
    worker: str
    task: AnyTask
    language: str
    state: AssignmentState
    rating: str | None
    seen: dict[Place, Intervals]
    lease_until: str
    opened_at: str
    least_seen: float
    training: bool = False

    #: What the page sends while a worker does such a task; `rate` is the last.
    steps: ClassVar[tuple[str, ...]]

    @property
    def played_s(self) -> float:
        """Seconds of all videos that were played, since opening or since the preference."""
        return sum(length(seen) for seen in self.seen.values())

    @abstractmethod
    def file_at(self, place: Place) -> str | None:
        """Return the file of the video at a place, relative to the media folder; None if there is none."""

    @abstractmethod
    def served(self, place: Place) -> ServedVideo:
        """Return the video at a place as the server knows it."""

    @abstractmethod
    def check_value(self, rating: str | int) -> None:
        """Refuse what cannot be the last answer."""

    @abstractmethod
    def check_seen(self) -> None:
        """Refuse the last answer as long as something is not watched."""

    @abstractmethod
    def answered(self, settings: Campaign, row: AssignmentRow, common: dict[str, Any]) -> AnyAnswer:
        """Return what is stored of the answer in `row`; `common` has the values of every `Answer`."""

    def view(self) -> dict[str, Any]:
        """Return what may leave the server, ready for JSON; each kind adds what it shows.

        ::

            {"id", "campaign", "language", "state", "opened_at", "lease_until",
             "seen": {"left": [[0.0, 4.5]]}, "least_seen": 0.9}
        """
        return {
            "id": self.id,
            "campaign": self.campaign,
            "language": self.language,
            "state": self.state,
            "opened_at": self.opened_at,
            "lease_until": self.lease_until,
            "seen": {place: [list(part) for part in parts] for place, parts in self.seen.items()},
            "least_seen": self.least_seen,
        }
