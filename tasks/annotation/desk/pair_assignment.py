"""One worker's work on one pair: a blind preference first, then the changed stretches and their rating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from storage_schemas.votes import Rating, SideWord, Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.assignment import ROUNDING_S, Assignment, AssignmentRow
from tasks.annotation.desk.playback import Intervals, ServedVideo, covered, length
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.desk.tables import moment
from tasks.annotation.pair_task import PLACES, PairTask, Place


@dataclass(frozen=True, kw_only=True)
class PairAssignment(Assignment):
    """One worker's work on one pair.

    Parameters
    ----------
    first
        The side that is shown on the left.
    preferred
        The place that the worker preferred; None before.
    confirmed
        Numbers of the stretches that the worker confirmed.
    look_share
        Share of each video that must be played before the preference; 0 for the task's first look, None for
        nothing.
    """

    task: PairTask
    first: SideWord
    preferred: Place | None
    confirmed: frozenset[int]
    look_share: float | None

    steps: ClassVar[tuple[str, ...]] = ("play", "prefer", "confirm", "rate")

    def side_at(self, place: Place) -> SideWord:
        """Return the side whose video is shown at a place."""
        other: SideWord = "low" if self.first == "high" else "high"
        return self.first if place == "left" else other

    def place_of(self, side: SideWord) -> Place:
        """Return the place where a side's video is shown."""
        return "left" if side == self.first else "right"

    def file_at(self, place: Place) -> str:
        """Return the file of the video at a place, relative to the media folder; for the server only."""
        return self.task.file_of(self.side_at(place))

    def served(self, place: Place) -> ServedVideo:
        """Return the video at a place as the server knows it."""
        side = self.side_at(place)
        return ServedVideo(self.task.seconds(side), self.task.bytes_of(side), self.task.index_of(side))

    def was_seen(self, number: int) -> bool:
        """Return whether enough of a stretch was played."""
        stretch = self.task.must_see[number]
        played = covered(self.seen[self.place_of(stretch.video)], stretch.start_s, stretch.end_s)
        needed = self.least_seen * (stretch.end_s - stretch.start_s) - ROUNDING_S
        # however small the share, the playhead was there
        return played > 0 and played >= needed

    def looked(self) -> bool:
        """Return whether enough of both videos was played for a preference."""
        return all(self._looked_at(place) for place in PLACES)

    def look(self, place: Place) -> Intervals:
        """Return the stretches of the video at a place that are looked at first, if stretches are."""
        return () if self.look_share is None or self.look_share else self.task.looks(self.side_at(place))

    def _looked_at(self, place: Place) -> bool:
        seen = self.seen[place]
        if length(seen) < (self.look_share or 0.0) * self.task.seconds(self.side_at(place)) - ROUNDING_S:
            return False
        return all(
            covered(seen, start, end) >= self.least_seen * (end - start) - ROUNDING_S
            for start, end in self.look(place)
        )

    def missing(self) -> tuple[int, ...]:
        """Return the numbers of the stretches that are not played or not confirmed."""
        numbers = range(len(self.task.must_see))
        return tuple(n for n in numbers if n not in self.confirmed or not self.was_seen(n))

    def check_value(self, rating: str | int) -> None:
        """Refuse what cannot rate the damage."""
        if rating not in get_args(Rating):
            refuse(RefusalReason.BAD_VALUE, "a rating is A, B or C")

    def check_seen(self) -> None:
        """Refuse a rating before the preference, or before all stretches are played and confirmed."""
        if self.state == "opened":
            refuse(RefusalReason.NO_PREFERENCE, "first say which video is better")
        missing = self.missing()
        unseen = [number for number in missing if not self.was_seen(number)]
        if unseen:
            refuse(RefusalReason.NOT_SEEN, f"these stretches have not been played yet: {_listed(unseen)}")
        if missing:
            refuse(RefusalReason.NOT_CONFIRMED, f"confirm these stretches first: {_listed(missing)}")

    def answered(self, settings: Campaign, row: AssignmentRow, common: dict[str, Any]) -> Vote:
        """Return the vote."""
        took = moment(row.preferred_at) - moment(row.opened_at)
        return Vote(
            **common,
            release=settings.release,
            version=settings.version,
            source_id=self.task.source_id,
            control=self.task.control,
            first=self.first,
            preferred=self.side_at(row.preferred),
            rating=row.rating,
            preference_s=max(took.total_seconds(), 0.0),
            protocol=settings.shown_to(row.worker).protocol,
        )

    def view(self) -> dict[str, Any]:
        """Return what may leave the server, ready for JSON.

        Before the preference, nothing in it depends on which side is degraded. To what every view has, it
        adds::

            {"aspect", "preferred": null, "prompt": [{"start_s", "end_s", "caption", "translation"}],
             "look": {"left": [[8.0, 16.0]], "right": …}, "look_share": 0.0, "can_prefer": false,
             "training": false}

        After the preference, these values are added or changed::

            {"state": "preferred" | "rated", "preferred": "left" | "right", "intended": "left" | "right",
             "must_see": [{"number", "place", "start_s", "end_s", "kind", "note", "seen", "confirmed"}],
             "missing": [0, 2], "can_rate": false, "rating": null}
        """
        blind: dict[str, Any] = {
            **super().view(),
            "aspect": self.task.aspect,
            "preferred": self.preferred,
            "prompt": [clip.model_dump() for clip in self.task.prompt_clips],
            "look": {place: [list(part) for part in self.look(place)] for place in PLACES},
            "look_share": self.look_share,
            "can_prefer": self.looked(),
            "training": self.training,
        }
        if self.state == "opened":
            return blind
        missing = self.missing()
        return {
            **blind,
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
            "missing": list(missing),
            "can_rate": self.state == "preferred" and not missing,
            "rating": self.rating,
        }


def _listed(numbers: Sequence[int]) -> str:
    """Return the numbers of stretches as text, counted from 1."""
    return ", ".join(str(number + 1) for number in numbers)
