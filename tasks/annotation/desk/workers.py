"""Workers: entering, consent, language, and the completion code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, func, select

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_value
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.assignments import lock_worker
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.events import EventKind, EventLog
from tasks.annotation.desk.extras import Extra, ExtraKind, Extras, pay_of
from tasks.annotation.desk.keys import DeskKey
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.desk.tables import INVITATIONS, TASKS, WORKERS, plain_text
from tasks.annotation.desk.votes import Votes

#: How the question about the instructions ended; empty while it did not.
CheckState = Literal["", "passed", "failed"]
#: How often it may be answered, and how many answers it offers.
CHECK_TRIES = 2
CHECK_CHOICES = 4
#: The platform of our own links.
LINK = "link"
_MAX_WORD_LENGTH = 200


@dataclass(frozen=True)
class WorkerSession:
    """A worker who has entered; `language` is empty before the consent.

    `check` is how the question about the instructions ended, if it did, after `tries` answers.
    """

    campaign: str
    worker: str
    platform: str
    language: str
    consented: bool
    returning: bool
    check: CheckState = ""
    tries: int = 0


@dataclass(frozen=True)
class Question:
    """A question about the instructions: which of some aspects' instructions belongs to the asked one.

    `id` is another one for other words, other choices and after each answer.
    """

    aspect: str
    choices: tuple[str, ...]
    tries: int
    id: str


@dataclass(frozen=True)
class Earned:
    """Number of tasks that a worker has answered, what is paid besides, and the pay for all."""

    tasks: int
    pay: float
    extras: tuple[Extra, ...] = ()


class Workers:
    """The workers of all campaigns. Forbidden requests raise `DeskRefusal`."""

    def __init__(
        self,
        database: Database,
        key: DeskKey,
        campaigns: Campaigns,
        events: EventLog,
        votes: Votes,
        extras: Extras,
    ) -> None:
        self._database, self._key = database, key
        self._campaigns, self._events, self._votes, self._extras = campaigns, events, votes, extras

    def name_of(self, platform: str, identity: str) -> str:
        """Return the name of a platform's worker in this installation.

        Raises
        ------
        UserInputError
            If the platform's name is not valid, or the identity is empty.
        """
        return self._key.worker_name(platform, identity)

    def enter(
        self,
        campaign: str,
        platform: str,
        identity: str,
        token: str | None = None,
        study: str = "",
        session: str = "",
    ) -> WorkerSession:
        """Admit a worker; a returning worker is recognised.

        Parameters
        ----------
        platform
            ``link``, ``prolific``, ``mturk`` or any other platform.
        identity
            The worker's id on that platform, of which only a keyed hash is stored. With ``link`` it is the
            token.
        token
            Token of a link made by :meth:`Organiser.invite`; required with the platform ``link``, where it is
            the identity.
        study, session
            The platform's ids of study and session, stored as given.
        """
        if platform == LINK:
            identity = token = token or identity
        try:
            worker = self.name_of(platform, identity)
        except UserInputError as problem:
            refuse(RefusalReason.BAD_LINK, f"this link does not identify you: {problem}")
        with self._events.worker_request(campaign, worker) as connection:
            lock_worker(connection, campaign, worker)
            self._campaigns.find_for_worker(connection, campaign, lock=True)
            if token is not None:
                self._use_token(connection, campaign, token, worker)
            known = self._row(connection, campaign, worker)
            if known is not None:
                return _session(known, returning=True)
            values = {
                "campaign": campaign,
                "worker": worker,
                "platform": platform,
                "study": plain_text(study, _MAX_WORD_LENGTH),
                "session": plain_text(session, _MAX_WORD_LENGTH),
                "language": "",
                "entered_at": self._database.now(),
                "consented_at": "",
                "finished_at": "",
                "refused_late": 0,
                "check_tries": 0,
                "check": "",
            }
            connection.execute(WORKERS.insert().values(**values))
            self._events.add(connection, campaign, EventKind.ENTERED, worker, platform=platform)
            return self.session(connection, campaign, worker)

    def get(self, campaign: str, worker: str) -> WorkerSession:
        """Return a worker who has entered."""
        with self._database.read() as connection:
            self._campaigns.find_for_worker(connection, campaign)
            return self.session(connection, campaign, worker)

    def consent(self, campaign: str, worker: str, language: str) -> WorkerSession:
        """Store a worker's consent and its language; repeating it changes only the language."""
        return self._set(campaign, worker, language, agrees=True)

    def set_language(self, campaign: str, worker: str, language: str) -> WorkerSession:
        """Store a worker's language, which later votes record."""
        return self._set(campaign, worker, language, agrees=False)

    def finish(self, campaign: str, worker: str) -> str:
        """Return the completion code of a worker to whom something is owed, or a task was answered."""
        with self._events.worker_request(campaign, worker) as connection:
            lock_worker(connection, campaign, worker)
            settings = self._campaigns.find_for_worker(connection, campaign, lock=True)
            session = self.session(connection, campaign, worker)
            paid = self._extras.of(connection, campaign, worker)
            if not paid and not self._votes.pairs_of(connection, campaign, worker):
                refuse(RefusalReason.NOTHING_DONE, "you get a code after your first task")
            which = (WORKERS.c.campaign == campaign, WORKERS.c.worker == worker, WORKERS.c.finished_at == "")
            finished = WORKERS.update().where(*which).values(finished_at=self._database.now())
            if connection.execute(finished).rowcount:
                self._events.add(connection, campaign, EventKind.FINISHED, worker)
        return self._key.completion_code(settings, worker, session.check == "failed")

    def done(self, campaign: str, worker: str) -> Earned:
        """Return what a worker has done and earned, also if no further task is given to them."""
        with self._database.read() as connection:
            settings = self._campaigns.find(connection, campaign)
            pairs = self._votes.pairs_of(connection, campaign, worker)
            which = (TASKS.c.campaign == campaign, TASKS.c.pair_id.in_(pairs))
            seconds = connection.execute(select(TASKS.c.watch_s).where(*which)).scalars()
            extras = tuple(self._extras.of(connection, campaign, worker).get(worker, ()))
            pay = sum(map(settings.pay_for, seconds)) + pay_of(extras)
            return Earned(len(pairs), pay, extras)

    def answer_pay(self, campaign: str) -> float:
        """Return what is paid for the time of an answer, apart from tasks."""
        with self._database.read() as connection:
            return self._extras.answer_pay(connection, self._campaigns.find(connection, campaign))

    def question(self, campaign: str, worker: str, instructions: Mapping[str, str]) -> Question | None:
        """Return the question that a worker answers before the first task; None if none is due.

        Parameters
        ----------
        instructions
            The instructions of the aspects that have some.
        """
        with self._database.read() as connection:
            settings = self._campaigns.find_for_worker(connection, campaign)
            session = self.session(connection, campaign, worker)
            if not settings.comprehension or session.check or not session.consented:
                return None
            return self._question(connection, session, instructions)

    def answer_question(
        self, campaign: str, worker: str, instructions: Mapping[str, str], question_id: str, choice: int
    ) -> WorkerSession:
        """Store an answer to the question, the number of a choice; the time is paid once it has ended.

        An answer to another question changes nothing: it is a repeated request, or the texts have changed
        since the page was shown.
        """
        with self._events.worker_request(campaign, worker) as connection:
            lock_worker(connection, campaign, worker)
            settings = self._campaigns.find_for_worker(connection, campaign)
            session = self.session(connection, campaign, worker)
            if not session.consented:
                refuse(RefusalReason.NO_CONSENT, "read and accept the consent first")
            if not settings.comprehension or session.check:
                return session
            question = self._question(connection, session, instructions)
            if question.id != question_id:
                return session
            if not 0 <= choice < len(question.choices):
                refuse(RefusalReason.BAD_VALUE, f"the question has no answer number {choice}")
            right = question.choices[choice] == question.aspect
            tries = question.tries + 1
            over = right or tries >= CHECK_TRIES
            check = ("passed" if right else "failed") if over else ""
            which = (WORKERS.c.campaign == campaign, WORKERS.c.worker == worker)
            connection.execute(WORKERS.update().where(*which).values(check_tries=tries, check=check))
            if over:
                self._extras.answered(connection, settings, worker, ExtraKind.CHECK)
            kind = EventKind.UNDERSTOOD if right else EventKind.MISUNDERSTOOD
            self._events.add(connection, campaign, kind, worker, aspect=question.aspect)
            return self.session(connection, campaign, worker)

    def _question(
        self, connection: Connection, session: WorkerSession, instructions: Mapping[str, str]
    ) -> Question:
        """Return a worker's question, the same for the same worker and instructions."""

        def chance(*what: str) -> float:
            return self._key.chance("question", session.campaign, session.worker, *what)

        shown = select(TASKS.c.aspect).where(TASKS.c.campaign == session.campaign, TASKS.c.shown.is_(True))
        asked = set(connection.execute(shown.distinct()).scalars()) & set(instructions)
        aspect = min(sorted(asked or instructions), key=chance)
        others = sorted(set(instructions) - {aspect}, key=chance)[: CHECK_CHOICES - 1]
        choices = sorted([aspect, *others], key=lambda one: chance("order", one))
        words = [instructions[one] for one in choices]
        id_ = digest_value([aspect, choices, words, session.tries])
        return Question(aspect, tuple(choices), session.tries, id_)

    def refuse_unchecked(self, session: WorkerSession) -> None:
        """Refuse a worker who has not shown that they understand the instructions."""
        if session.check == "failed":
            message = "the question about the instructions was not answered correctly"
            refuse(RefusalReason.SCREENED_OUT, message)
        if not session.check:
            refuse(RefusalReason.CHECK_FIRST, "answer the question about the instructions first")

    def refuse_full(self, connection: Connection, settings: Campaign) -> None:
        """Refuse one more participant if as many as are needed take part."""
        if 0 < settings.most_workers <= self._consented(connection, settings.name):
            refuse(RefusalReason.FULL, "as many people as this study needs take part already: thank you")

    def session(self, connection: Connection, campaign: str, worker: str) -> WorkerSession:
        """Return a worker who has entered, inside a transaction."""
        row = self._row(connection, campaign, worker)
        if row is None:
            refuse(RefusalReason.UNKNOWN_WORKER, "you are not recognised here: open your link again")
        return _session(row, returning=False)

    def _consented(self, connection: Connection, campaign: str) -> int:
        """Return the number of workers who have agreed to take part."""
        query = select(func.count()).where(WORKERS.c.campaign == campaign, WORKERS.c.consented_at != "")
        return int(connection.execute(query).scalar_one())

    def _use_token(self, connection: Connection, campaign: str, token: str, worker: str) -> None:
        token_hash = self._key.token_hash(token)
        which = (INVITATIONS.c.campaign == campaign, INVITATIONS.c.token_hash == token_hash)
        row = connection.execute(INVITATIONS.select().where(*which)).first()
        if row is None or row.withdrawn:
            refuse(
                RefusalReason.BAD_LINK, "this link is not valid: copy the whole link, or ask for a new one"
            )
        if row.worker not in ("", worker):
            refuse(RefusalReason.LINK_USED, "this link belongs to another worker: ask for your own")
        if not row.worker:
            connection.execute(INVITATIONS.update().where(*which).values(worker=worker))

    def _row(self, connection: Connection, campaign: str, worker: str) -> Row[Any] | None:
        # a string that cannot be a name is not sent to the database: it may not be valid text
        if not re.fullmatch(r"[0-9a-f]{32}", worker):
            return None
        return connection.execute(
            WORKERS.select().where(WORKERS.c.campaign == campaign, WORKERS.c.worker == worker)
        ).first()

    def _set(self, campaign: str, worker: str, language: str, agrees: bool) -> WorkerSession:
        with self._events.worker_request(campaign, worker) as connection:
            lock_worker(connection, campaign, worker)
            settings = self._campaigns.find_for_worker(connection, campaign, lock=True)
            before = self.session(connection, campaign, worker)
            if language not in settings.languages:
                refuse(
                    RefusalReason.BAD_VALUE, f"choose one of the languages {', '.join(settings.languages)}"
                )
            agrees = agrees and not before.consented
            if agrees:
                self.refuse_full(connection, settings)
            values = {"language": language, **({"consented_at": self._database.now()} if agrees else {})}
            which = (WORKERS.c.campaign == campaign, WORKERS.c.worker == worker)
            connection.execute(WORKERS.update().where(*which).values(**values))
            if agrees or language != before.language:
                kind = EventKind.CONSENTED if agrees else EventKind.LANGUAGE
                self._events.add(connection, campaign, kind, worker, language=language)
            return self.session(connection, campaign, worker)


def _session(row: Row[Any], returning: bool) -> WorkerSession:
    return WorkerSession(
        campaign=row.campaign,
        worker=row.worker,
        platform=row.platform,
        language=row.language,
        consented=bool(row.consented_at),
        returning=returning,
        check=row.check,
        tries=row.check_tries,
    )
