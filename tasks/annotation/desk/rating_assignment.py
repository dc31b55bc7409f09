"""One rater's work on one video in one dimension, as a value that defines what may leave the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tasks.annotation.desk.playback import Intervals, ServedVideo, covered
from tasks.annotation.pair_task import Place
from tasks.annotation.rating_task import RatingTask

#: The place of the only video.
ONLY: Place = "left"
_ROUNDING_S = 1e-6


@dataclass(frozen=True)
class RatingAssignment:
    """One rater's work on one task.

    Parameters
    ----------
    id
        Random id; the rating has the same one.
    state
        ``opened`` or ``rated``.
    rating
        The stored level, as text; None before.
    seen
        The merged intervals that were played, in seconds.
    note
        What the checker wrote who sent an earlier rating back; empty for none.
    lease_until, opened_at
        UTC in ISO 8601.
    least_seen
        Share of the video that must be played.
    """

    id: str
    campaign: str
    worker: str
    task: RatingTask
    language: str
    state: str
    rating: str | None
    seen: dict[Place, Intervals]
    note: str
    lease_until: str
    opened_at: str
    least_seen: float

    def served(self, place: Place) -> ServedVideo:
        """Return the video as the server knows it."""
        return ServedVideo(self.task.seconds, self.task.size, self.task.index)

    def file_at(self, place: Place) -> str | None:
        """Return the file of the video, relative to the media folder; None for another place."""
        return self.task.file if place == ONLY else None

    @property
    def seen_share(self) -> float:
        """Share of the video that was played, 0 to 1."""
        seconds = self.task.seconds
        return min(covered(self.seen[ONLY], 0.0, seconds) / seconds, 1.0) if seconds > 0 else 1.0

    def was_seen(self) -> bool:
        """Return whether enough of the video was played."""
        return self.seen_share >= self.least_seen - _ROUNDING_S

    def view(self) -> dict[str, Any]:
        """Return what may leave the server, ready for JSON: never which model made the video.

        ::

            {"id", "campaign", "dimension", "language", "state", "opened_at", "lease_until", "prompt",
             "translation", "seen": {"left": [[0.0, 4.5]]}, "seen_share": 0.9, "least_seen": 0.9,
             "can_rate": false, "rating": null, "note": ""}
        """
        return {
            "id": self.id,
            "campaign": self.campaign,
            "dimension": self.task.dimension,
            "language": self.language,
            "state": self.state,
            "opened_at": self.opened_at,
            "lease_until": self.lease_until,
            "prompt": self.task.prompt,
            "translation": self.task.translation,
            "seen": {ONLY: [list(part) for part in self.seen[ONLY]]},
            "seen_share": self.seen_share,
            "least_seen": self.least_seen,
            "can_rate": self.state == "opened" and self.was_seen(),
            "rating": self.rating,
            "note": self.note,
        }
