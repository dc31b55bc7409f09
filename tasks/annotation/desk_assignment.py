"""One worker's handling of one task, and what of it may leave the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from storage_schemas.votes import Rating, SideWord
from tasks.annotation.tasks import PLACES, PairTask, Place
from tasks.annotation.viewing import Intervals, covered, length

#: Sums of parts of a second are off by less.
ROUNDING_S = 1e-6

AssignmentState = Literal["opened", "preferred", "rated"]


@dataclass(frozen=True)
class Assignment:
    """One worker's handling of one task.

    Parameters
    ----------
    id
        Random; the vote has the same.
    first
        The side that is shown on the left.
    preferred
        The place that the worker called better, None before.
    rating
        What the worker said of the damage, None before.
    seen
        For each place the merged intervals that were played, seconds of that video.
    confirmed
        Numbers of the stretches that the worker says to have seen.
    lease_until, opened_at
        UTC in ISO 8601.
    least_seen
        Share of a stretch that has to be played.
    least_look_s
        Seconds of each video that have to be played before the preference.
    """

    id: str
    campaign: str
    worker: str
    task: PairTask
    first: SideWord
    language: str
    state: AssignmentState
    preferred: Place | None
    rating: Rating | None
    seen: dict[Place, Intervals]
    confirmed: frozenset[int]
    lease_until: str
    opened_at: str
    least_seen: float
    least_look_s: float

    def side_at(self, place: Place) -> SideWord:
        """Return which side's video is shown at a place."""
        other: SideWord = "low" if self.first == "high" else "high"
        return self.first if place == "left" else other

    def place_of(self, side: SideWord) -> Place:
        """Return where a side's video is shown."""
        return "left" if side == self.first else "right"

    def file_at(self, place: Place) -> str:
        """Return the file of the video at a place, relative to the folder of media; for the server only."""
        return self.task.file_of(self.side_at(place))

    def was_seen(self, number: int) -> bool:
        """Return whether enough of a stretch was played."""
        stretch = self.task.must_see[number]
        played = covered(self.seen[self.place_of(stretch.video)], stretch.start_s, stretch.end_s)
        return played >= self.least_seen * (stretch.end_s - stretch.start_s) - ROUNDING_S

    def looked(self) -> bool:
        """Return whether enough of both videos was played for a preference."""
        return all(
            length(self.seen[place])
            >= min(self.least_look_s, self.task.seconds(self.side_at(place))) - ROUNDING_S
            for place in PLACES
        )

    def missing(self) -> tuple[int, ...]:
        """Return the numbers of the stretches that are not seen, or not confirmed."""
        numbers = range(len(self.task.must_see))
        return tuple(n for n in numbers if n not in self.confirmed or not self.was_seen(n))

    def view(self) -> dict[str, Any]:
        """Return what may leave the server, ready for JSON.

        Before the preference nothing in it depends on which side is degraded::

            {"id", "campaign", "aspect", "language", "state": "opened", "preferred": null,
             "opened_at", "lease_until", "prompt": [{"start_s", "end_s", "caption", "translation"}],
             "seen": {"left": [[0.0, 4.5]], "right": []}, "least_look_s": 3.0, "can_prefer": false}

        After it these come on top::

            {"state": "preferred" | "rated", "preferred": "left" | "right", "intended": "left" | "right",
             "must_see": [{"number", "place", "start_s", "end_s", "kind", "note", "seen", "confirmed"}],
             "least_seen": 0.9, "missing": [0, 2], "can_rate": false, "rating": null}
        """
        said: dict[str, Any] = {
            "id": self.id,
            "campaign": self.campaign,
            "aspect": self.task.aspect,
            "language": self.language,
            "state": self.state,
            "preferred": self.preferred,
            "opened_at": self.opened_at,
            "lease_until": self.lease_until,
            "prompt": [clip.model_dump() for clip in self.task.prompt_clips],
            "seen": {place: [list(part) for part in self.seen[place]] for place in PLACES},
            "least_look_s": self.least_look_s,
            "can_prefer": self.looked(),
        }
        if self.state == "opened":
            return said
        missing = self.missing()
        return {
            **said,
            "intended": self.place_of("high"),
            "must_see": [
                {
                    "number": number,
                    "place": self.place_of(stretch.video),
                    **stretch.model_dump(exclude={"video"}),
                    "seen": self.was_seen(number),
                    "confirmed": number in self.confirmed,
                }
                for number, stretch in enumerate(self.task.must_see)
            ],
            "least_seen": self.least_seen,
            "missing": list(missing),
            "can_rate": self.state == "preferred" and not missing,
            "rating": self.rating,
        }
