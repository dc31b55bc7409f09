"""One rater's work on one video in one dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.assignment import ROUNDING_S, Assignment, AssignmentRow
from tasks.annotation.desk.playback import ServedVideo, covered
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.pair_task import Place
from tasks.annotation.rating_task import RatingTask, VideoRating

#: The place of the only video.
ONLY: Place = "left"


@dataclass(frozen=True, kw_only=True)
class RatingAssignment(Assignment):
    """One rater's work on one video; `note` is what the checker wrote who sent an earlier rating back."""

    task: RatingTask
    note: str

    steps: ClassVar[tuple[str, ...]] = ("play", "rate")

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
        return self.seen_share >= self.least_seen - ROUNDING_S

    def check_value(self, rating: str | int) -> None:
        """Refuse what lies outside the scale."""
        task = self.task
        if not (isinstance(rating, int) and task.low <= rating <= task.high):
            refuse(RefusalReason.BAD_VALUE, f"a level is a whole number from {task.low} to {task.high}")

    def check_seen(self) -> None:
        """Refuse a level before enough of the video was played."""
        if not self.was_seen():
            refuse(
                RefusalReason.NOT_SEEN,
                f"play the video first: {self.seen_share:.0%} of it has been played, "
                f"{self.least_seen:.0%} is needed",
            )

    def answered(self, settings: Campaign, row: AssignmentRow, common: dict[str, Any]) -> VideoRating:
        """Return the rating."""
        task = self.task
        values = {"model": task.model, "prompt_id": task.prompt_id, "sample": task.sample}
        return VideoRating(**common, **values, rating=int(row.rating))

    def view(self) -> dict[str, Any]:
        """Return what may leave the server, ready for JSON: never which model made the video.

        To what every view has, it adds::

            {"dimension", "prompt", "translation", "seen_share": 0.9, "can_rate": false, "rating": null,
             "note": ""}
        """
        return {
            **super().view(),
            "dimension": self.task.dimension,
            "prompt": self.task.prompt,
            "translation": self.task.translation,
            "seen_share": self.seen_share,
            "can_rate": self.state == "opened" and self.was_seen(),
            "rating": self.rating,
            "note": self.note,
        }
