"""The organiser's side of a campaign: publish, invite, monitor, decide about workers, erase workers."""

from __future__ import annotations

import secrets
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from sqlalchemy import ColumnElement, Connection, func, select

from storage_schemas.errors import UserInputError
from storage_schemas.votes import Decision, Standing, check_of
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.assignments import OPEN_STATES, Assignments, lock_worker
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.decisions import Decisions
from tasks.annotation.desk.events import EventKind, EventLog
from tasks.annotation.desk.extras import Extra, Extras
from tasks.annotation.desk.keys import DeskKey
from tasks.annotation.desk.tables import (
    ASSIGNMENTS,
    CAMPAIGNS,
    CHECKS,
    DECISIONS,
    ERASED,
    EVENTS,
    EXTRAS,
    INVITATIONS,
    META,
    TASKS,
    VOTES,
    WORKERS,
    plain_text,
)
from tasks.annotation.desk.votes import Votes, change_tasks
from tasks.annotation.pair_task import PairTask
from tasks.annotation.rating_task import AnyTask, read_task

#: Bytes of a token, so that it cannot be guessed.
_TOKEN_BYTES = 18
MAX_INVITATIONS = 100_000
#: Maximum length of a stored note on a decision, in characters.
MAX_NOTE_LENGTH = 4000


@dataclass(frozen=True)
class PublishedTasks:
    """Numbers of tasks that are new, were already published, and are no longer shown."""

    new: int
    known: int
    retired: int


@dataclass(frozen=True)
class ErasedRows:
    """What was erased about a worker; `vote_ids` are reported once, for cleaning files with the votes."""

    campaign: str
    at: str
    votes: int
    assignments: int
    events: int
    decisions: int
    vote_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskProgress:
    """The progress of one pair: votes that count, open leases, and the number of needed votes.

    `wanted` may grow while a pair is not certain. `expected` is the number of votes that it will probably
    have in the end. `watch_s` is how many seconds of its videos have to be watched.
    """

    pair_id: str
    aspect: str
    gold: bool
    votes: int
    leases: int
    wanted: int
    expected: int
    watch_s: float = 0.0

    @property
    def done(self) -> bool:
        """Whether the pair has all the votes it needs."""
        return self.votes >= self.wanted


@dataclass(frozen=True)
class WorkerProgress:
    """What one worker did; times are UTC in ISO 8601, empty if it did not happen.

    `standing` is ``excluded``, ``cleared`` or empty; `refused_late` counts answers that were too late.
    `session` is the platform's id of the session or assignment in which the worker first entered, and `code`
    the completion code. Both are empty for a worker who never entered; the code also if nothing is owed.
    `check` is how the question about the instructions ended, and `extras` what is paid besides votes.
    """

    worker: str
    platform: str
    language: str
    entered_at: str
    consented_at: str
    finished_at: str
    votes: int
    open: int
    refused_late: int
    standing: str
    session: str = ""
    code: str = ""
    check: str = ""
    extras: tuple[Extra, ...] = ()


class Organiser:
    """The organiser's actions. An unknown campaign raises `UserInputError`."""

    def __init__(
        self,
        database: Database,
        key: DeskKey,
        campaigns: Campaigns,
        events: EventLog,
        decisions: Decisions,
        assignments: Assignments,
        votes: Votes,
        extras: Extras,
    ) -> None:
        self._database, self._key, self._campaigns, self._events = database, key, campaigns, events
        self._decisions, self._assignments, self._votes = decisions, assignments, votes
        self._extras = extras

    def publish(self, campaign: Campaign, tasks: Iterable[AnyTask], by: str = "") -> PublishedTasks:
        """Publish a campaign's tasks, or publish it again with new settings and more tasks.

        Known tasks keep their votes; tasks that are not among `tasks` are no longer given out. A task is gold
        if `campaign.gold_pairs` names it, or if it is marked as gold.

        Raises
        ------
        UserInputError
            If the name belongs to a campaign that shows something else, a gold pair is not among the tasks, a
            task appears twice, or what may not change of a known one has changed: the stretches of a pair, or
            the file, prompt or scale of a video to be rated.
        """
        given = list(tasks)
        _check_given(campaign, given)
        gold = set(campaign.gold_pairs)
        with self._database.write() as connection:
            before = self._store_settings(connection, campaign)
            stored = TASKS.select().where(TASKS.c.campaign == campaign.name)
            known = {row.pair_id: row for row in connection.execute(stored)}
            published = {task.id for task in given}
            # a check task made from a pair does not count as another pair
            own = {task for task in published | set(known) if check_of(task)[1] is None}
            new, changed = [], []
            for one in given:
                task = one.model_copy(update={"gold": one.gold or one.id in gold})
                values = {
                    "gold": task.gold,
                    "shown": True,
                    "watch_s": task.watch_s(campaign.look_first),
                    "body": task.model_dump_json(),
                }
                old = known.get(task.id)
                if old is None:
                    row = {"campaign": campaign.name, "pair_id": task.id, "aspect": task.group}
                    new.append({**row, "votes": 0, "wanted": campaign.votes_at_least, **values})
                    continue
                if (old.gold, old.shown, old.watch_s, old.body) == tuple(values.values()):
                    continue
                if read_task(old.body).fixed != task.fixed:
                    what = "stretches to watch" if task.kind == "pair" else "file, prompt or scale"
                    raise UserInputError(
                        f"the {what} of {task.kind} {task.id} in campaign {campaign.name} have changed since "
                        "it was published: publish under another name"
                    )
                changed.append({"pair_id": task.id, **values})
            change_tasks(connection, campaign.name, changed)
            retired = [{"pair_id": pair, "shown": False} for pair in known if pair not in published]
            change_tasks(connection, campaign.name, retired)
            if new:
                connection.execute(TASKS.insert(), new)
            if before is None or _counts_by(before) != _counts_by(campaign):
                self._votes.recount(connection, campaign)
            done = PublishedTasks(
                new=len(own - set(known)),
                known=len(own & published & set(known)),
                retired=len(own - published),
            )
            self._events.add(
                connection,
                campaign.name,
                EventKind.PUBLISHED,
                by=by,
                new=done.new,
                known=done.known,
                retired=done.retired,
                settings=campaign.model_dump(mode="json"),
            )
        return done

    def _store_settings(self, connection: Connection, campaign: Campaign) -> Campaign | None:
        """Store a campaign's settings, lock its queue, and return the previous settings, if any."""
        values = {"settings": campaign.model_dump_json(), "published_at": self._database.now()}
        # one publication at a time: a new campaign has no row that could be locked
        connection.execute(META.select().where(META.c.name == "tables_version").with_for_update())
        query = CAMPAIGNS.select().where(CAMPAIGNS.c.campaign == campaign.name)
        row = connection.execute(query.with_for_update()).first()
        if row is None:
            connection.execute(CAMPAIGNS.insert().values(campaign=campaign.name, **values))
            self._database.begin_numbers(connection, campaign.name)
            return None
        before = Campaign.model_validate_json(row.settings)
        if before.shows != campaign.shows:
            raise UserInputError(
                f"campaign {campaign.name} shows {before.shows}, not {campaign.shows}: choose another name"
            )
        connection.execute(CAMPAIGNS.update().where(CAMPAIGNS.c.campaign == campaign.name).values(**values))
        return before

    def invite(self, campaign: str, count: int, note: str = "") -> list[str]:
        """Create `count` tokens, each for one worker's link; only their hashes are stored."""
        if not 0 < count <= MAX_INVITATIONS:
            raise UserInputError(f"cannot create {count} links: give a number from 1 to {MAX_INVITATIONS}")
        tokens = [secrets.token_urlsafe(_TOKEN_BYTES) for _ in range(count)]
        words = plain_text(note, 200)
        with self._database.write() as connection:
            self._campaigns.find(connection, campaign, lock=True)
            now = self._database.now()
            rows = [
                {
                    "campaign": campaign,
                    "token_hash": self._key.token_hash(token),
                    "note": words,
                    "made_at": now,
                    "worker": "",
                    "withdrawn": False,
                }
                for token in tokens
            ]
            connection.execute(INVITATIONS.insert(), rows)
            self._events.add(connection, campaign, EventKind.INVITED, count=count, note=words)
        return tokens

    def progress(self, campaign: str) -> list[TaskProgress]:
        """Return the progress of each published task, by aspect and pair id."""
        with self._database.read() as connection:
            settings = self._campaigns.find(connection, campaign)
            running = self._assignments.leases(connection, campaign)
            columns = [TASKS.c[name] for name in ("pair_id", "aspect", "gold", "votes", "wanted", "watch_s")]
            rows = connection.execute(
                select(*columns)
                .where(TASKS.c.campaign == campaign, TASKS.c.shown.is_(True))
                .order_by(TASKS.c.aspect, TASKS.c.pair_id)
            ).all()
            return [
                TaskProgress(
                    **row._asdict(),
                    leases=running.get(row.pair_id, 0),
                    expected=settings.votes_expected(row.votes, row.wanted),
                )
                for row in rows
            ]

    def workers(self, campaign: str) -> list[WorkerProgress]:
        """Return what each worker did, in order of entry; workers known only from files come last."""
        with self._database.read() as connection:
            settings = self._campaigns.find(connection, campaign)
            standings = self._decisions.standings(connection, campaign)
            voted = select(VOTES.c.worker, func.count()).where(VOTES.c.campaign == campaign)
            votes = {row[0]: row[1] for row in connection.execute(voted.group_by(VOTES.c.worker))}
            busy = select(ASSIGNMENTS.c.worker).where(
                ASSIGNMENTS.c.campaign == campaign, ASSIGNMENTS.c.state.in_(OPEN_STATES)
            )
            opened = Counter(connection.execute(busy).scalars())
            extras = self._extras.of(connection, campaign)
            rows = connection.execute(
                WORKERS.select()
                .where(WORKERS.c.campaign == campaign)
                .order_by(WORKERS.c.entered_at, WORKERS.c.worker)
            ).all()
            known = [
                WorkerProgress(
                    worker=row.worker,
                    platform=row.platform,
                    language=row.language,
                    entered_at=row.entered_at,
                    consented_at=row.consented_at,
                    finished_at=row.finished_at,
                    votes=votes.get(row.worker, 0),
                    open=opened[row.worker],
                    refused_late=row.refused_late,
                    standing=str(standings.get(row.worker, "")),
                    session=row.session,
                    code=self._key.completion_code(settings, row.worker, row.check == "failed")
                    if row.worker in votes or row.worker in extras
                    else "",
                    check=row.check,
                    extras=tuple(extras.get(row.worker, ())),
                )
                for row in rows
            ]
            entered = {row.worker for row in rows}
            return known + [
                WorkerProgress(worker, "", "", "", "", "", count, 0, 0, str(standings.get(worker, "")))
                for worker, count in sorted(votes.items())
                if worker not in entered
            ]

    def decide(
        self,
        campaign: str,
        worker: str,
        decision: Standing,
        note: str,
        by: str,
        after: str | None = None,
    ) -> Decision:
        """Exclude or clear a worker; the latest decision counts, earlier ones remain on record.

        An excluded worker's open task returns to the queue immediately, and if the votes stop counting, the
        pairs that the worker voted on need another vote.

        Parameters
        ----------
        after
            Id of the latest decision about the worker that `by` has seen, empty for none; None if it does not
            matter.

        Raises
        ------
        UserInputError
            If the worker neither entered the campaign nor voted in it, the note is empty, or another person
            has decided since.
        """
        words = plain_text(note, MAX_NOTE_LENGTH).strip()
        if not words:
            raise UserInputError("give the reason in a note: the worker may ask for it")
        with self._database.write() as connection:
            lock_worker(connection, campaign, worker)
            settings = self._campaigns.find(connection, campaign, lock=True)
            self._check_known(connection, campaign, worker)
            latest = self._decisions.latest(connection, campaign, worker)
            if latest is not None and after not in (None, latest.decision_id):
                raise UserInputError(
                    f"{latest.by} has decided meanwhile: {latest.decision.value}, {latest.note!r}. "
                    "Decide again if you still want to"
                )
            stored = Decision(
                decision_id=uuid.uuid4().hex,
                campaign=campaign,
                worker=worker,
                decision=decision,
                note=words,
                by=plain_text(by, 200),
                at=self._database.now(),
            )
            if decision is Standing.EXCLUDED:
                self._assignments.lapse_of_worker(connection, campaign, worker)
            self._decisions.add(connection, stored)
            self._votes.recount(connection, settings, self._votes.pairs_of(connection, campaign, worker))
            kind = EventKind.EXCLUDED if decision is Standing.EXCLUDED else EventKind.CLEARED
            self._events.add(connection, campaign, kind, worker, note=words, by=stored.by)
        return stored

    def erase(self, campaign: str, worker: str, by: str = "") -> ErasedRows:
        """Erase everything stored about a worker, including votes; a row of counts without a name remains.

        The worker's link becomes invalid.

        Raises
        ------
        UserInputError
            If the campaign has no data of this worker.
        """
        with self._database.write() as connection:
            lock_worker(connection, campaign, worker)
            settings = self._campaigns.find(connection, campaign, lock=True)
            self._check_known(connection, campaign, worker)
            voted = VOTES.select().where(VOTES.c.campaign == campaign, VOTES.c.worker == worker)
            votes = connection.execute(voted.order_by(VOTES.c.number)).all()
            links = (INVITATIONS.c.campaign == campaign, INVITATIONS.c.worker == worker)
            connection.execute(INVITATIONS.update().where(*links).values(worker="", withdrawn=True))
            deleted = {
                table.name: connection.execute(
                    table.delete().where(table.c.campaign == campaign, table.c.worker == worker)
                ).rowcount
                for table in (WORKERS, ASSIGNMENTS, VOTES, DECISIONS, EVENTS, CHECKS, EXTRAS)
            }
            self._votes.forget(connection, campaign)
            self._votes.recount(connection, settings, [row.pair_id for row in votes])
            erased = ErasedRows(
                campaign=campaign,
                at=self._database.now(),
                votes=len(votes),
                assignments=deleted[ASSIGNMENTS.name],
                events=deleted[EVENTS.name],
                decisions=deleted[DECISIONS.name],
            )
            number = self._database.numbers(connection, campaign, "erased")
            row = asdict(erased)
            del row["vote_ids"]
            connection.execute(ERASED.insert().values(number=number, **row))
            del row["campaign"], row["at"]
            self._events.add(connection, campaign, EventKind.ERASED, by=plain_text(by, 200), **row)
        self._database.forget()
        return replace(erased, vote_ids=tuple(row.vote_id for row in votes))

    def erased(self, campaign: str) -> list[ErasedRows]:
        """Return the rows of counts that remain of erased workers."""
        with self._database.read() as connection:
            self._campaigns.find(connection, campaign)
            rows = connection.execute(
                ERASED.select().where(ERASED.c.campaign == campaign).order_by(ERASED.c.number)
            )
            return [
                ErasedRows(campaign, row.at, row.votes, row.assignments, row.events, row.decisions)
                for row in rows
            ]

    def _check_known(self, connection: Connection, campaign: str, worker: str) -> None:
        name = plain_text(worker, len(worker))
        for table in (WORKERS, VOTES, DECISIONS):
            which: tuple[ColumnElement[bool], ...] = (table.c.campaign == campaign, table.c.worker == name)
            if connection.execute(select(table.c.worker).where(*which).limit(1)).first():
                return
        raise UserInputError(f"there is no worker {worker!r:.100} in campaign {campaign}")


def _counts_by(campaign: Campaign) -> tuple[bool, bool, int]:
    """Return the settings on which the numbers of counted and wanted votes depend."""
    return campaign.drops_excluded, campaign.weighs, campaign.workers_per_pair


def _check_given(campaign: Campaign, given: list[AnyTask]) -> None:
    count = Counter(task.id for task in given)
    twice = [pair for pair, times in count.items() if times > 1]
    if twice:
        raise UserInputError(f"pair {twice[0]} appears {count[twice[0]]} times among the tasks")
    missing = [pair for pair in campaign.gold_pairs if pair not in count]
    if missing:
        raise UserInputError(f"gold_pairs: {missing[0]} is not among the tasks of {campaign.name}")
    gold = set(campaign.gold_pairs)
    controls = [task.id for task in given if isinstance(task, PairTask) and task.control and task.id in gold]
    if controls:
        raise UserInputError(f"gold_pairs: {controls[0]} is a control, in which no side is better")
