"""Workers' viewing of the videos: bytes that were sent, and playback reports."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.annotation.desk.assignment import Assignment
from tasks.annotation.desk.assignments import Assignments
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.events import EventKind, EventLog
from tasks.annotation.desk.playback import accepted, step_s, with_range
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.desk.tables import as_json, moment, read_spans
from tasks.annotation.pair_task import PLACES, Place

#: Maximum number of intervals of one report that are read.
MAX_CLAIMS = 500
#: Shorter cuts of a claim come from clocks and players; longer ones are recorded.
WORTH_RECORDING_S = 2.0
#: Maximum number of recorded cuts per assignment.
MAX_CUTS = 20


class Viewing:
    """What was sent and played in each assignment. Forbidden requests raise `DeskRefusal`."""

    def __init__(self, database: Database, events: EventLog, assignments: Assignments) -> None:
        self._database, self._events, self._assignments = database, events, assignments

    def serve(self, campaign: str, assignment_id: str, place: str, first_byte: int, last_byte: int) -> None:
        """Store that bytes `first_byte` to `last_byte` (inclusive) of a video are being sent, in one
        transaction.

        Call it before each chunk is sent, so that no playback report arrives earlier; chunks of a megabyte
        are fine.
        """
        with self._database.write(on_disk=False) as connection:
            column = f"sent_{checked_place(place)}"
            row = self._assignments.row(connection, campaign, None, assignment_id)
            if not 0 <= first_byte <= last_byte:
                refuse(RefusalReason.BAD_VALUE, f"bytes {first_byte} to {last_byte} are not a valid range")
            before = read_spans(getattr(row, column))
            sent = with_range(before, first_byte, last_byte + 1)
            if sent != before:
                self._assignments.change(connection, row.assignment, **{column: as_json(sent)})

    def play(
        self,
        campaign: str,
        worker: str,
        assignment_id: str,
        place: str,
        intervals: Sequence[tuple[float, float]],
        speed: float,
    ) -> Assignment:
        """Accept a page's report of what was played at a place, as far as it can be true.

        Each report should contain everything played since the page was loaded: what is cut now because it
        came too early is then accepted later.

        Parameters
        ----------
        intervals
            ``[start, end)`` in seconds of the video; those of earlier reports may be repeated.
        speed
            Playback rate; above the campaign's `most_speed` nothing counts.
        """
        # does not wait for the disk: reports are frequent, and a page repeats what was lost
        with self._events.worker_request(campaign, worker, assignment_id, on_disk=False) as connection:
            here = checked_place(place)
            settings, row = self._assignments.hold(connection, campaign, worker, assignment_id)
            assignment = self._assignments.value(connection, settings, row)
            if assignment.state == "rated":
                return assignment
            if here not in assignment.seen:
                refuse(RefusalReason.BAD_VALUE, f"this task has no video at the {here}")
            now = self._database.now()
            step = step_s(moment(row.last_at).timestamp(), moment(now).timestamp())
            in_time = 0 < speed <= settings.most_speed
            # what was played slowly did not pass twice as fast
            elapsed = row.elapsed_s + step * (max(speed, 1.0) if in_time else 1.0)
            playback = accepted(
                assignment.seen[here],
                list(intervals)[:MAX_CLAIMS] if in_time else (),
                assignment.served(here),
                elapsed,
                read_spans(getattr(row, f"sent_{here}")),
            )
            cut_s = playback.cut_time_s + playback.cut_bytes_s
            recorded = (cut_s >= WORTH_RECORDING_S or not in_time) and row.cuts < MAX_CUTS
            row = self._assignments.change(
                connection,
                row.assignment,
                last_at=now,
                elapsed_s=elapsed,
                cuts=row.cuts + recorded,
                **{f"seen_{here}": as_json(playback.seen)},
            )
            if recorded:
                self._events.add(
                    connection,
                    campaign,
                    EventKind.CLAIM_CUT,
                    worker,
                    row.assignment,
                    row.pair_id,
                    place=here,
                    speed=speed if abs(speed) < 1000 else None,
                    cut_time_s=round(playback.cut_time_s, 3),
                    cut_bytes_s=round(playback.cut_bytes_s, 3),
                )
            return self._assignments.value(connection, settings, row, assignment)


def checked_place(place: str) -> Place:
    """Return a place if it is one, or refuse."""
    for known in PLACES:
        if place == known:
            return known
    refuse(RefusalReason.BAD_VALUE, "a place is left or right")
