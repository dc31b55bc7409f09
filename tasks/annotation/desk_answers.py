"""What a worker does with a task: look, prefer, confirm, rate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import get_args

from sqlalchemy import Connection, select

from storage_schemas.votes import Rating, Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk_assignment import Assignment
from tasks.annotation.desk_core import refuse
from tasks.annotation.desk_holding import AnyRow, HoldingDesk, checked_place, parts, seconds_of
from tasks.annotation.desk_types import EventKind, RefusedReason
from tasks.annotation.tables import VOTES, WORKERS, as_json, plain_text
from tasks.annotation.viewing import Film, believed, length, step_s, with_range

#: Longest comment that is kept, in characters.
LONGEST_COMMENT = 4000
#: Intervals of one report that are looked at.
MOST_CLAIMS = 500
#: What is cut of a claim below this comes from clocks and players, above it is put on record.
WORTH_NOTING_S = 2.0
#: So many cut claims of one assignment are put on record.
MOST_CUTS = 20


class AnswerDesk(HoldingDesk):
    """One assignment from opening to vote. Every method raises `Refused` for what may not be."""

    def assignment(self, campaign: str, worker: str, assignment_id: str) -> Assignment:
        """Return an assignment of this worker and renew its lease; one that is rated is only returned."""
        with self._acting(campaign, worker, assignment_id) as connection:
            settings, row = self._held(connection, campaign, worker, assignment_id)
            return self._assignment(connection, settings, row)

    def prefer(self, campaign: str, worker: str, assignment_id: str, place: str) -> Assignment:
        """Store which video is better; the same answer again changes nothing, another one is refused."""
        with self._acting(campaign, worker, assignment_id) as connection:
            wanted = checked_place(place)
            settings, row = self._held(connection, campaign, worker, assignment_id)
            found = self._assignment(connection, settings, row)
            if found.preferred is not None:
                if found.preferred != wanted:
                    refuse(RefusedReason.OTHER_ANSWER, "your first answer is stored and stays as it is")
                return found
            if not found.looked():
                refuse(
                    RefusedReason.NOT_LOOKED,
                    f"play at least {settings.least_look_s:g} seconds of each video before you answer",
                )
            row = self._changed(
                connection, row.assignment, state="preferred", preferred=wanted, preferred_at=self._now()
            )
            detail = {"side": found.side_at(wanted)}
            self._event(
                connection, campaign, EventKind.PREFERRED, worker, row.assignment, row.pair_id, **detail
            )
            return self._assignment(connection, settings, row)

    def play(
        self,
        campaign: str,
        worker: str,
        assignment_id: str,
        place: str,
        intervals: Sequence[tuple[float, float]],
        speed: float,
    ) -> Assignment:
        """Take the page's report of what was played at a place, as far as it can be true.

        A page does best to send all that it has played since it was loaded each time: what is cut now,
        because it came a moment too early, is taken then.

        Parameters
        ----------
        intervals
            ``[start, end)`` in seconds of the video; those of earlier reports may come again.
        speed
            Playback rate; above the campaign's `most_speed` nothing counts.
        """
        # not waited for the disk: reports come all the time, and a page that lost one goes on reporting
        with self._acting(campaign, worker, assignment_id, on_disk=False) as connection:
            here = checked_place(place)
            # the queue is held only where a lease may have to be won back: reports come from all the time
            settings, row = self._held(connection, campaign, worker, assignment_id, queue=False)
            found = self._assignment(connection, settings, row)
            if found.state == "rated":
                return found
            now = self._now()
            elapsed = row.elapsed_s + step_s(seconds_of(row.last_at), seconds_of(now))
            side = found.side_at(here)
            film = Film(found.task.seconds(side), found.task.bytes_of(side), found.task.index_of(side))
            in_time = 0 < speed <= settings.most_speed
            told = list(intervals)[:MOST_CLAIMS]
            sent = parts(getattr(row, f"sent_{here}"))
            belief = believed(
                found.seen[here], told if in_time else (), film, elapsed, settings.most_speed, sent
            )
            cut = belief.cut_time_s + belief.cut_bytes_s
            noted = (cut >= WORTH_NOTING_S or not in_time) and row.cuts < MOST_CUTS
            row = self._changed(
                connection,
                row.assignment,
                last_at=now,
                elapsed_s=elapsed,
                cuts=row.cuts + noted,
                **{f"seen_{here}": as_json(belief.seen)},
            )
            if noted:
                detail = {
                    "place": here,
                    "speed": speed if abs(speed) < 1000 else None,
                    "cut_time_s": round(belief.cut_time_s, 3),
                    "cut_bytes_s": round(belief.cut_bytes_s, 3),
                }
                self._event(
                    connection, campaign, EventKind.CLAIM_CUT, worker, row.assignment, row.pair_id, **detail
                )
            return self._assignment(connection, settings, row)

    def serve(self, campaign: str, assignment_id: str, place: str, first_byte: int, last_byte: int) -> None:
        """Note that bytes `first_byte` to `last_byte` (both included) of a video are being sent.

        Call it before each chunk goes out, so that no report of what was played comes before the note; chunks
        of a megabyte are fine. It is a transaction.
        """
        with self._database.write(on_disk=False) as connection:
            here = checked_place(place)
            row = self._row(connection, campaign, None, assignment_id)
            if not 0 <= first_byte <= last_byte:
                refuse(RefusedReason.BAD_VALUE, f"bytes {first_byte} to {last_byte} are no range")
            name = f"sent_{here}"
            sent = parts(getattr(row, name))
            now_sent = with_range(sent, first_byte, last_byte + 1)
            if now_sent != sent:
                self._changed(connection, row.assignment, **{name: as_json(now_sent)})

    def confirm(self, campaign: str, worker: str, assignment_id: str, number: int) -> Assignment:
        """Store that the worker saw a stretch; only one that was played, and only after the preference."""
        with self._acting(campaign, worker, assignment_id) as connection:
            settings, row = self._held(connection, campaign, worker, assignment_id)
            found = self._assignment(connection, settings, row)
            if found.state == "opened":
                refuse(RefusedReason.NO_PREFERENCE, "say first which video is better")
            if not 0 <= number < len(found.task.must_see):
                refuse(RefusedReason.BAD_VALUE, f"this task has no stretch number {number}")
            if number in found.confirmed or found.state == "rated":
                return found
            if not found.was_seen(number):
                refuse(RefusedReason.NOT_SEEN, f"stretch {number + 1} was not played to its end yet")
            row = self._changed(
                connection, row.assignment, confirmed=as_json(sorted(found.confirmed | {number}))
            )
            self._event(
                connection, campaign, EventKind.CONFIRMED, worker, row.assignment, row.pair_id, number=number
            )
            return self._assignment(connection, settings, row)

    def rate(self, campaign: str, worker: str, assignment_id: str, rating: str, comment: str = "") -> Vote:
        """Store the rating and return the vote, once it is on the disk; again for the same answer again.

        An answer whose lease ran out is taken if the pair was not given on, or has a place left.
        """
        with self._acting(campaign, worker, assignment_id) as connection:
            words = plain_text(comment, LONGEST_COMMENT)
            if rating not in get_args(Rating):
                refuse(RefusedReason.BAD_VALUE, "a rating is A, B or C")
            settings, row = self._held(connection, campaign, worker, assignment_id)
            known = self._vote_on(connection, campaign, worker, row.pair_id)
            if known is not None:
                if (known.vote_id, known.rating, known.comment) != (row.assignment, rating, words):
                    refuse(RefusedReason.OTHER_ANSWER, "your answer is stored and stays as it is")
                return known
            self._check_seen(self._assignment(connection, settings, row))
            row = self._changed(connection, row.assignment, state="rated", rating=rating)
            vote = self._made_vote(connection, settings, row, words)
            number = self._database.numbers(connection, campaign, "votes")
            connection.execute(VOTES.insert().values(**vote_row(number, vote)))
            self._recount(connection, settings, [row.pair_id])
            self._event(
                connection, campaign, EventKind.RATED, worker, row.assignment, row.pair_id, rating=rating
            )
        return vote

    def _check_seen(self, found: Assignment) -> None:
        if found.state == "opened":
            refuse(RefusedReason.NO_PREFERENCE, "say first which video is better")
        unseen = [number + 1 for number in found.missing() if not found.was_seen(number)]
        if unseen:
            refuse(RefusedReason.NOT_SEEN, f"these stretches were not played yet: {_listed(unseen)}")
        if found.missing():
            left = [number + 1 for number in found.missing()]
            refuse(RefusedReason.NOT_CONFIRMED, f"confirm these stretches first: {_listed(left)}")

    def _vote_on(self, connection: Connection, campaign: str, worker: str, pair_id: str) -> Vote | None:
        body = connection.execute(
            select(VOTES.c.body).where(
                VOTES.c.campaign == campaign, VOTES.c.worker == worker, VOTES.c.pair_id == pair_id
            )
        ).scalar()
        return None if body is None else Vote.model_validate_json(body)

    def _made_vote(self, connection: Connection, settings: Campaign, row: AnyRow, comment: str) -> Vote:
        found, now = self._assignment(connection, settings, row), self._now()
        worker = connection.execute(
            WORKERS.select().where(WORKERS.c.campaign == row.campaign, WORKERS.c.worker == row.worker)
        ).one()
        opened = seconds_of(row.opened_at)
        return Vote(
            vote_id=row.assignment,
            campaign=settings.name,
            release=settings.release,
            version=settings.version,
            pair_id=row.pair_id,
            source_id=found.task.source_id,
            aspect=found.task.aspect,
            worker=row.worker,
            platform=worker.platform,
            language=worker.language,
            gold=found.task.gold,
            first=found.first,
            preferred=found.side_at(row.preferred),
            rating=row.rating,
            preference_s=max(seconds_of(row.preferred_at) - opened, 0.0),
            total_s=max(seconds_of(now) - opened, 0.0),
            watched_s=sum(length(seen) for seen in found.seen.values()),
            pair_duration_s=found.task.high_s + found.task.low_s,
            comment=comment,
            opened_at=row.opened_at,
            at=now,
        )


def vote_row(number: int, vote: Vote) -> dict[str, str | int]:
    """Return a vote as a row of its table."""
    return {
        "campaign": vote.campaign,
        "number": number,
        "vote_id": vote.vote_id,
        "worker": vote.worker,
        "pair_id": vote.pair_id,
        "body": json.dumps(vote.model_dump(mode="json"), ensure_ascii=False),
    }


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
