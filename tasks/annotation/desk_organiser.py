"""The organiser's side of the desk: publish, invite, see how far it is; `VoteDesk` has votes and people."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable

from sqlalchemy import Connection, func, select

from storage_schemas.errors import UserInputError
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk_core import change_tasks
from tasks.annotation.desk_queue import OPEN_STATES, leases
from tasks.annotation.desk_types import Event, EventKind, Published, TaskProgress, WorkerProgress
from tasks.annotation.desk_votes import VoteDesk
from tasks.annotation.tables import (
    ASSIGNMENTS,
    CAMPAIGNS,
    EVENTS,
    INVITATIONS,
    META,
    TASKS,
    VOTES,
    WORKERS,
    plain_text,
)
from tasks.annotation.tasks import PairTask

#: Bytes of a token: nobody guesses one.
_TOKEN_BYTES = 18
MOST_INVITATIONS = 100_000


class OrganiserDesk(VoteDesk):
    """What an organiser does. A campaign that is not there raises `UserInputError`."""

    def publish(self, campaign: Campaign, tasks: Iterable[PairTask], by: str = "") -> Published:
        """Put a campaign's tasks before people, or publish it again with new settings and more tasks.

        Tasks that are known stay, with their votes; those that are no longer among `tasks` are shown to
        nobody any more. Gold is what `campaign.gold_pairs` names or the task itself says.

        Raises
        ------
        UserInputError
            If the name belongs to a campaign of another release or version, if a gold pair is not among the
            tasks, if a pair comes twice, or if a known pair has other stretches to see now.
        """
        given = list(tasks)
        _check_given(campaign, given)
        gold = set(campaign.gold_pairs)
        with self._database.write() as connection:
            before = self._begun(connection, campaign)
            stored = TASKS.select().where(TASKS.c.campaign == campaign.name)
            known = {row.pair_id: row for row in connection.execute(stored)}
            shown = {task.pair_id for task in given}
            new, changed = [], []
            for said in given:
                task = said.model_copy(update={"gold": said.gold or said.pair_id in gold})
                values = {"gold": task.gold, "shown": True, "body": task.model_dump_json()}
                old = known.get(task.pair_id)
                if old is None:
                    row = {"campaign": campaign.name, "pair_id": task.pair_id, "aspect": task.aspect}
                    new.append({**row, "votes": 0, **values})
                    continue
                if (old.gold, old.shown, old.body) == tuple(values.values()):
                    continue
                if PairTask.model_validate_json(old.body).must_see != task.must_see:
                    raise UserInputError(
                        f"pair {task.pair_id} of campaign {campaign.name} has other stretches to see than "
                        "when it was published: publish under another name"
                    )
                changed.append({"pair_id": task.pair_id, **values})
            change_tasks(connection, campaign.name, changed)
            retired = [{"pair_id": pair, "shown": False} for pair in known if pair not in shown]
            change_tasks(connection, campaign.name, retired)
            if new:
                connection.execute(TASKS.insert(), new)
            if before is None or before.drop_excluded != campaign.drop_excluded:
                self._recount(connection, campaign)
            done = Published(new=len(new), known=len(shown & set(known)), retired=len(set(known) - shown))
            self._event(
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

    def _begun(self, connection: Connection, campaign: Campaign) -> Campaign | None:
        """Store a campaign's settings, hold its queue, and return the settings before, if there were any."""
        values = {"settings": campaign.model_dump_json(), "published_at": self._now()}
        # one publication at a time: there is no row of a new campaign to hold yet
        connection.execute(META.select().where(META.c.name == "tables_version").with_for_update())
        said = CAMPAIGNS.select().where(CAMPAIGNS.c.campaign == campaign.name)
        row = connection.execute(said.with_for_update()).first()
        if row is None:
            connection.execute(CAMPAIGNS.insert().values(campaign=campaign.name, **values))
            self._database.begin_numbers(connection, campaign.name)
            return None
        before = Campaign.model_validate_json(row.settings)
        if (before.release, before.version) != (campaign.release, campaign.version):
            raise UserInputError(
                f"the campaign {campaign.name} shows release {before.release} version {before.version}, not "
                f"{campaign.release} version {campaign.version}: choose another name"
            )
        connection.execute(CAMPAIGNS.update().where(CAMPAIGNS.c.campaign == campaign.name).values(**values))
        return before

    def campaigns(self) -> list[Campaign]:
        """Return all campaigns by name."""
        with self._database.read() as connection:
            rows = connection.execute(select(CAMPAIGNS.c.settings).order_by(CAMPAIGNS.c.campaign)).scalars()
            return [Campaign.model_validate_json(settings) for settings in rows]

    def campaign(self, name: str) -> Campaign:
        """Return a campaign."""
        with self._database.read() as connection:
            return self._campaign(connection, name)

    def task(self, campaign: str, pair_id: str) -> PairTask:
        """Return a published task.

        Raises
        ------
        UserInputError
            If the campaign has no such pair.
        """
        for task in self._tasks(campaign, TASKS.c.pair_id == plain_text(pair_id, len(pair_id))):
            return task
        raise UserInputError(f"the campaign {campaign} has no pair {pair_id!r:.100}")

    def tasks(self, campaign: str) -> list[PairTask]:
        """Return the tasks that are shown, by pair id."""
        return self._tasks(campaign, TASKS.c.shown.is_(True))

    def _tasks(self, campaign: str, *which: object) -> list[PairTask]:
        with self._database.read() as connection:
            self._campaign(connection, campaign)
            rows = connection.execute(
                select(TASKS.c.body).where(TASKS.c.campaign == campaign, *which).order_by(TASKS.c.pair_id)  # type: ignore[arg-type]
            ).scalars()
            return [PairTask.model_validate_json(body) for body in rows]

    def invite(self, campaign: str, count: int, note: str = "") -> list[str]:
        """Return `count` new tokens for links of one worker each; only their hashes are stored."""
        if not 0 < count <= MOST_INVITATIONS:
            raise UserInputError(f"{count} links cannot be made: ask for 1 to {MOST_INVITATIONS}")
        tokens = [secrets.token_urlsafe(_TOKEN_BYTES) for _ in range(count)]
        words = plain_text(note, 200)
        with self._database.write() as connection:
            self._campaign(connection, campaign, lock=True)
            now = self._now()
            rows = [
                {
                    "campaign": campaign,
                    "token_hash": self._token_hash(token),
                    "note": words,
                    "made_at": now,
                    "worker": "",
                    "withdrawn": False,
                }
                for token in tokens
            ]
            connection.execute(INVITATIONS.insert(), rows)
            self._event(connection, campaign, EventKind.INVITED, count=count, note=words)
        return tokens

    def progress(self, campaign: str) -> list[TaskProgress]:
        """Return how far each task is that is shown, by aspect and pair id."""
        with self._database.read() as connection:
            wanted = self._campaign(connection, campaign).workers_per_pair
            running = leases(connection, campaign, self._now())
            columns = (TASKS.c.pair_id, TASKS.c.aspect, TASKS.c.gold, TASKS.c.votes)
            rows = connection.execute(
                select(*columns)
                .where(TASKS.c.campaign == campaign, TASKS.c.shown.is_(True))
                .order_by(TASKS.c.aspect, TASKS.c.pair_id)
            )
            return [
                TaskProgress(pair_id, aspect, gold, votes, running.get(pair_id, 0), wanted)
                for pair_id, aspect, gold, votes in rows
            ]

    def workers(self, campaign: str) -> list[WorkerProgress]:
        """Return what each worker did, by when they entered; workers known from files only come last."""
        with self._database.read() as connection:
            settings = self._campaign(connection, campaign)
            standings = self._standings(connection, campaign)
            voted = select(VOTES.c.worker, func.count()).where(VOTES.c.campaign == campaign)
            votes = {row[0]: row[1] for row in connection.execute(voted.group_by(VOTES.c.worker))}
            busy = select(ASSIGNMENTS.c.worker).where(
                ASSIGNMENTS.c.campaign == campaign, ASSIGNMENTS.c.state.in_(OPEN_STATES)
            )
            opened = Counter(connection.execute(busy).scalars())
            rows = connection.execute(
                WORKERS.select()
                .where(WORKERS.c.campaign == campaign)
                .order_by(WORKERS.c.entered_at, WORKERS.c.worker)
            ).all()
            here = [
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
                    code=self._code(settings, row.worker) if row.worker in votes else "",
                )
                for row in rows
            ]
            entered = {row.worker for row in rows}
            return here + [
                WorkerProgress(worker, "", "", "", "", "", count, 0, 0, str(standings.get(worker, "")))
                for worker, count in sorted(votes.items())
                if worker not in entered
            ]

    def events(self, campaign: str, after: int = 0, most: int | None = None) -> list[Event]:
        """Return what happened, with numbers above `after`, in order; at most `most`."""
        with self._database.read() as connection:
            self._campaign(connection, campaign)
            said = EVENTS.select().where(EVENTS.c.campaign == campaign, EVENTS.c.number > after)
            rows = connection.execute(said.order_by(EVENTS.c.number).limit(most))
            return [
                Event(
                    number=row.number,
                    campaign=row.campaign,
                    kind=EventKind(row.kind),
                    at=row.at,
                    worker=row.worker,
                    assignment=row.assignment,
                    pair_id=row.pair_id,
                    detail=json.loads(row.detail),
                )
                for row in rows
            ]


def _check_given(campaign: Campaign, given: list[PairTask]) -> None:
    count = Counter(task.pair_id for task in given)
    twice = [pair for pair, times in count.items() if times > 1]
    if twice:
        raise UserInputError(f"pair {twice[0]} comes {count[twice[0]]} times among the tasks")
    missing = [pair for pair in campaign.gold_pairs if pair not in count]
    if missing:
        raise UserInputError(f"gold_pairs: {missing[0]} is not among the tasks of {campaign.name}")
