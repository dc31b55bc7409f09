"""The worker's side of the desk: enter, agree, get a task; `AnswerDesk` has what is done with it."""

from __future__ import annotations

import re
import uuid

from sqlalchemy import Connection, func, select

from storage_schemas.errors import UserInputError
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk_answers import AnswerDesk
from tasks.annotation.desk_assignment import Assignment
from tasks.annotation.desk_core import refuse
from tasks.annotation.desk_holding import AnyRow
from tasks.annotation.desk_queue import OPEN_STATES, Waiting, chosen, had, voted, waiting
from tasks.annotation.desk_types import EventKind, RefusedReason, WorkerSession
from tasks.annotation.tables import ASSIGNMENTS, INVITATIONS, VOTES, WORKERS, plain_text

#: The platform of links that we gave out ourselves.
LINK = "link"
_LONGEST_WORD = 200


class WorkerDesk(AnswerDesk):
    """What workers do. Every method raises `Refused` for what may not be, and says why."""

    def enter(
        self,
        campaign: str,
        platform: str,
        identity: str,
        token: str | None = None,
        study: str = "",
        session: str = "",
    ) -> WorkerSession:
        """Let a worker in; one who was here before is the same worker again.

        Parameters
        ----------
        platform
            ``link``, ``prolific``, ``mturk`` or a platform of one's own.
        identity
            Who it is on that platform; it is not stored, only its keyed hash. With ``link`` it is the token.
        token
            Of a link of `invite`; needed with the platform ``link``, where it is the identity.
        study, session
            What the platform says besides, stored as it is said.
        """
        if platform == LINK:
            identity = token = token or identity
        try:
            worker = self.worker_of(platform, identity)
        except UserInputError as problem:
            refuse(RefusedReason.BAD_LINK, f"this link does not say who you are: {problem}")
        with self._acting(campaign, worker) as connection:
            self._settings(connection, campaign, lock=True)
            if token is not None:
                self._use_token(connection, campaign, token, worker)
            known = self._known(connection, campaign, worker)
            if known is not None:
                return _session(known, returning=True)
            values = {
                "campaign": campaign,
                "worker": worker,
                "platform": platform,
                "study": plain_text(study, _LONGEST_WORD),
                "session": plain_text(session, _LONGEST_WORD),
                "language": "",
                "entered_at": self._now(),
                "consented_at": "",
                "finished_at": "",
                "refused_late": 0,
            }
            connection.execute(WORKERS.insert().values(**values))
            self._event(connection, campaign, EventKind.ENTERED, worker, platform=platform)
            return self._entered(connection, campaign, worker)

    def worker(self, campaign: str, worker: str) -> WorkerSession:
        """Return a worker who has entered."""
        with self._database.read() as connection:
            self._settings(connection, campaign)
            return self._entered(connection, campaign, worker)

    def consent(self, campaign: str, worker: str, language: str) -> WorkerSession:
        """Store that a worker agreed, and in which language; agreeing again changes nothing but that."""
        return self._speak(campaign, worker, language, agrees=True)

    def set_language(self, campaign: str, worker: str, language: str) -> WorkerSession:
        """Store which language a worker wants; votes from now on carry it."""
        return self._speak(campaign, worker, language, agrees=False)

    def next(self, campaign: str, worker: str) -> Assignment:
        """Return the worker's open assignment, or open one (`DONE`, `NO_TASKS`, `LIMIT`, `EXCLUDED`, …)."""
        with self._acting(campaign, worker) as connection:
            settings = self._settings(connection, campaign, lock=True)
            if not self._entered(connection, campaign, worker).consented:
                refuse(RefusedReason.NO_CONSENT, "read and accept the consent first")
            if self._is_excluded(connection, campaign, worker):
                refuse(RefusedReason.EXCLUDED, "you get no further tasks; thank you for what you did")
            expired = self._sweep(connection, campaign)
            done = self._votes_of(connection, campaign, worker)
            full = 0 < settings.tasks_per_worker <= done
            row = self._open_row(connection, settings, worker, lapsed=not full)
            if row is None and full:
                refuse(RefusedReason.LIMIT, f"you have done all {done} tasks that one may do: thank you")
            opened: list[AnyRow] = []
            if row is None:
                row = self._open(connection, settings, worker, self._pick(connection, settings, worker))
                opened = [row]
            found = self._assignment(connection, settings, row)
            happened = [(EventKind.EXPIRED, old) for old in expired]
            happened += [(EventKind.OPENED, new) for new in opened]
            self._events(
                connection,
                campaign,
                [(kind, each.worker, each.assignment, each.pair_id, {}) for kind, each in happened],
            )
            return found

    def finish(self, campaign: str, worker: str) -> str:
        """Return the completion code of a worker who has done at least one task."""
        with self._acting(campaign, worker) as connection:
            settings = self._settings(connection, campaign, lock=True)
            self._entered(connection, campaign, worker)
            if not self._votes_of(connection, campaign, worker):
                refuse(RefusedReason.NOTHING_DONE, "there is a code after your first task")
            here = (WORKERS.c.campaign == campaign, WORKERS.c.worker == worker, WORKERS.c.finished_at == "")
            if connection.execute(WORKERS.update().where(*here).values(finished_at=self._now())).rowcount:
                self._event(connection, campaign, EventKind.FINISHED, worker)
        return self._code(settings, worker)

    def _use_token(self, connection: Connection, campaign: str, token: str, worker: str) -> None:
        hashed = self._token_hash(token)
        here = (INVITATIONS.c.campaign == campaign, INVITATIONS.c.token_hash == hashed)
        row = connection.execute(INVITATIONS.select().where(*here)).first()
        if row is None or row.withdrawn:
            refuse(RefusedReason.BAD_LINK, "this link is not valid: copy it whole, or ask for a new one")
        if row.worker not in ("", worker):
            refuse(RefusedReason.LINK_USED, "this link belongs to somebody else: ask for one of your own")
        if not row.worker:
            connection.execute(INVITATIONS.update().where(*here).values(worker=worker))

    def _known(self, connection: Connection, campaign: str, worker: str) -> AnyRow | None:
        if not re.fullmatch(r"[0-9a-f]{32}", worker):
            return None
        return connection.execute(
            WORKERS.select().where(WORKERS.c.campaign == campaign, WORKERS.c.worker == worker)
        ).first()

    def _entered(self, connection: Connection, campaign: str, worker: str) -> WorkerSession:
        row = self._known(connection, campaign, worker)
        if row is None:
            refuse(RefusedReason.UNKNOWN_WORKER, "you are not known here: open your link again")
        return _session(row, returning=False)

    def _speak(self, campaign: str, worker: str, language: str, agrees: bool) -> WorkerSession:
        with self._acting(campaign, worker) as connection:
            settings = self._settings(connection, campaign, lock=True)
            before = self._entered(connection, campaign, worker)
            if language not in settings.languages:
                refuse(RefusedReason.BAD_VALUE, f"the languages here are {', '.join(settings.languages)}")
            agrees = agrees and not before.consented
            values = {"language": language, **({"consented_at": self._now()} if agrees else {})}
            here = (WORKERS.c.campaign == campaign, WORKERS.c.worker == worker)
            connection.execute(WORKERS.update().where(*here).values(**values))
            if agrees or language != before.language:
                kind = EventKind.CONSENTED if agrees else EventKind.LANGUAGE
                self._event(connection, campaign, kind, worker, language=language)
            return self._entered(connection, campaign, worker)

    def _votes_of(self, connection: Connection, campaign: str, worker: str) -> int:
        said = select(func.count()).where(VOTES.c.campaign == campaign, VOTES.c.worker == worker)
        return int(connection.execute(said).scalar_one())

    def _sweep(self, connection: Connection, campaign: str) -> list[AnyRow]:
        """Mark the leases that ran out, and return them."""
        over = (
            ASSIGNMENTS.c.campaign == campaign,
            ASSIGNMENTS.c.state.in_(OPEN_STATES),
            ASSIGNMENTS.c.lapsed.is_(False),
            ASSIGNMENTS.c.lease_until <= self._now(),
        )
        found = connection.execute(ASSIGNMENTS.select().where(*over)).all()
        # one that was renewed since it was read is no longer over
        update = ASSIGNMENTS.update().values(lapsed=True)
        return [
            row
            for row in found
            if connection.execute(update.where(ASSIGNMENTS.c.assignment == row.assignment, *over)).rowcount
        ]

    def _open_row(
        self, connection: Connection, settings: Campaign, worker: str, lapsed: bool
    ) -> AnyRow | None:
        """Return the assignment that the worker has open and may still answer, its lease renewed.

        `lapsed` says whether it may be one whose lease ran out.
        """
        rows = connection.execute(
            ASSIGNMENTS.select()
            .where(
                ASSIGNMENTS.c.campaign == settings.name,
                ASSIGNMENTS.c.worker == worker,
                ASSIGNMENTS.c.state.in_(OPEN_STATES),
            )
            .order_by(ASSIGNMENTS.c.lapsed, ASSIGNMENTS.c.opened_at)
        ).all()
        for row in rows:
            if (lapsed or not row.lapsed) and self._may_answer(connection, settings, row, self._now()):
                return self._renewed(connection, settings, row)
        return None

    def _pick(self, connection: Connection, settings: Campaign, worker: str) -> Waiting:
        """Return the pair that the worker gets next, gold or not."""
        name, now = settings.name, self._now()
        mine = had(connection, name, worker)
        queue = waiting(connection, name, now)
        found = chosen(
            queue, mine, settings.workers_per_pair, lambda what: self._chance("tie", name, worker, what)
        )
        if found is None:
            done_pairs = voted(connection, name, worker)
            if any(p.votes < settings.workers_per_pair and p.pair_id not in done_pairs for p in queue):
                refuse(RefusedReason.NO_TASKS, "all that is left is with others now: come back in an hour")
            refuse(RefusedReason.DONE, "you have done all there is: thank you")
        if self._chance("gold", name, worker, len(mine)) < settings.gold_share:
            gold = [pair for pair in waiting(connection, name, now, gold=True) if pair.pair_id not in mine]
            if gold:
                return min(gold, key=lambda pair: self._chance("gold pair", name, worker, pair.pair_id))
        return found

    def _open(self, connection: Connection, settings: Campaign, worker: str, pair: Waiting) -> AnyRow:
        """Give a pair to a worker."""
        name, now = settings.name, self._now()
        same_pair = (ASSIGNMENTS.c.campaign == name, ASSIGNMENTS.c.pair_id == pair.pair_id)
        connection.execute(
            ASSIGNMENTS.update().where(*same_pair, ASSIGNMENTS.c.lapsed.is_(True)).values(given_on=True)
        )
        values = {
            "assignment": uuid.uuid4().hex,
            "campaign": name,
            "pair_id": pair.pair_id,
            "worker": worker,
            "first_side": "high" if self._chance("order", name, worker, pair.pair_id) < 0.5 else "low",
            "state": "opened",
            "preferred": "",
            "rating": "",
            "opened_at": now,
            "preferred_at": "",
            "lease_until": self._lease_end(settings),
            "lapsed": False,
            "given_on": False,
            "last_at": now,
            "elapsed_s": 0.0,
            "cuts": 0,
            **dict.fromkeys(("seen_left", "seen_right", "sent_left", "sent_right", "confirmed"), "[]"),
        }
        return connection.execute(ASSIGNMENTS.insert().values(**values).returning(ASSIGNMENTS)).one()


def _session(row: AnyRow, returning: bool) -> WorkerSession:
    return WorkerSession(
        campaign=row.campaign,
        worker=row.worker,
        platform=row.platform,
        language=row.language,
        consented=bool(row.consented_at),
        returning=returning,
    )
