"""Stored votes and ratings, and the number of those that count on each pair."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from storage_schemas.errors import UserInputError
from storage_schemas.votes import Standing, Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.assignments import Assignments
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.decisions import Decisions
from tasks.annotation.desk.events import EventKind, EventLog
from tasks.annotation.desk.extras import Extras
from tasks.annotation.desk.tables import MODELS, TASKS, VOTES, as_json
from tasks.annotation.rating_task import AnyAnswer, VideoRating
from tasks.votes.worker_model import WorkerModel, worker_model

#: Rows per statement, well below the limits of both databases.
_AT_ONCE = 500
#: How clear a pair's damage is of which nothing is known.
UNKNOWN = 0.5


@dataclass(frozen=True)
class ImportedVotes:
    """The result of importing votes from files.

    `unknown_pairs` and `refused` are vote ids: votes on pairs that the campaign does not have, and a worker's
    second, different answers on a pair.
    """

    accepted: int
    known: int
    unknown_pairs: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class Votes:
    """The votes and ratings of all campaigns."""

    def __init__(
        self,
        database: Database,
        campaigns: Campaigns,
        events: EventLog,
        decisions: Decisions,
        assignments: Assignments,
        extras: Extras,
    ) -> None:
        self._database, self._campaigns, self._events = database, campaigns, events
        self._decisions, self._assignments, self._extras = decisions, assignments, extras

    def read(self, campaign: str, after: int = 0) -> list[tuple[int, Vote]]:
        """Return votes on pairs with numbers above `after`, in order, each with its number.

        A campaign of ratings has none. No vote appears later with a number at or below one that was already
        read.
        """
        with self._database.read() as connection:
            settings = self._campaigns.find(connection, campaign)
            if settings.kind != "pairs":
                return []
            newer = self.stored(connection, settings, VOTES.c.number > after)
            return [(number, one) for number, one in newer if isinstance(one, Vote)]

    def answers(self, campaign: str) -> list[AnyAnswer]:
        """Return all votes or ratings of a campaign, in order."""
        with self._database.read() as connection:
            return [one for _, one in self.stored(connection, self._campaigns.find(connection, campaign))]

    def stored(
        self, connection: Connection, settings: Campaign, *which: ColumnElement[bool]
    ) -> list[tuple[int, AnyAnswer]]:
        """Return some of a campaign's answers, in order, each with its number."""
        kind: type[Vote] | type[VideoRating] = VideoRating if settings.kind == "ratings" else Vote
        query = select(VOTES.c.number, VOTES.c.body).where(VOTES.c.campaign == settings.name, *which)
        rows = connection.execute(query.order_by(VOTES.c.number))
        return [(number, kind.model_validate_json(body)) for number, body in rows]

    def add(self, campaign: str, votes: Iterable[Vote]) -> ImportedVotes:
        """Store votes from files, all or none; a known vote is not counted twice.

        If a file answers a pair that the same worker has open, the open task is closed.

        Raises
        ------
        UserInputError
            If a vote belongs to another campaign or release.
        """
        given = list(votes)
        with self._database.write() as connection:
            settings = self._campaigns.find(connection, campaign, lock=True)
            _check_campaign(settings, given)
            new, imported = self._sorted_out(connection, campaign, given)
            if new:
                closed = self._assignments.close(connection, campaign, new)
                self.store(connection, settings, new)
                # a late task that the file answers is paid as a vote instead
                self._extras.withdraw(connection, campaign, closed)
            counts = {
                name: value if isinstance(value, int) else len(value)
                for name, value in asdict(imported).items()
            }
            self._events.add(connection, campaign, EventKind.IMPORTED, "", "", "", **counts)
        return imported

    def _sorted_out(
        self, connection: Connection, campaign: str, given: Sequence[Vote]
    ) -> tuple[list[Vote], ImportedVotes]:
        """Return the new votes, and the result for all."""
        query = select(TASKS.c.pair_id).where(TASKS.c.campaign == campaign)
        pairs = set(connection.execute(query).scalars())
        bodies = connection.execute(select(VOTES.c.body).where(VOTES.c.campaign == campaign)).scalars()
        stored = [Vote.model_validate_json(body) for body in bodies]
        by_id = {vote.vote_id: vote for vote in stored}
        by_worker = {(vote.worker, vote.pair_id): vote for vote in stored}
        new: list[Vote] = []
        unknown: list[str] = []
        refused: list[str] = []
        known = 0
        for vote in given:
            earlier = by_id.get(vote.vote_id) or by_worker.get((vote.worker, vote.pair_id))
            if vote.pair_id not in pairs:
                unknown.append(vote.vote_id)
            elif earlier is None:
                new.append(vote)
                by_id[vote.vote_id] = by_worker[vote.worker, vote.pair_id] = vote
            elif _answer(earlier) == _answer(vote):
                known += 1
            else:
                refused.append(vote.vote_id)
        return new, ImportedVotes(len(new), known, tuple(unknown), tuple(refused))

    def store(self, connection: Connection, settings: Campaign, answers: Sequence[AnyAnswer]) -> None:
        """Store new answers and count them."""
        self._lock(connection, settings.name, {one.pair_id for one in answers})
        first = self._database.numbers(connection, settings.name, "votes", len(answers))
        values = [
            {
                "campaign": settings.name,
                "number": number,
                "vote_id": one.vote_id,
                "worker": one.worker,
                "pair_id": one.pair_id,
                "body": json.dumps(one.model_dump(mode="json"), ensure_ascii=False),
            }
            for number, one in enumerate(answers, first)
        ]
        connection.execute(VOTES.insert(), values)
        self._extras.withdraw(connection, settings.name, [one.vote_id for one in answers])
        self.recount(connection, settings, [one.pair_id for one in answers])

    def find(
        self, connection: Connection, settings: Campaign, *which: ColumnElement[bool]
    ) -> AnyAnswer | None:
        """Return the only such answer, if there is one."""
        return next((one for _, one in self.stored(connection, settings, *which)), None)

    def pairs_of(self, connection: Connection, campaign: str, worker: str) -> set[str]:
        """Return the pairs that a worker voted on, on our pages or in a file."""
        query = select(VOTES.c.pair_id).where(VOTES.c.campaign == campaign, VOTES.c.worker == worker)
        return set(connection.execute(query).scalars())

    def recount(self, connection: Connection, settings: Campaign, pairs: Iterable[str] | None = None) -> None:
        """Recount the votes on some pairs, or on all, and see how many they should have.

        Votes are counted nowhere else.
        """
        steps = None if pairs is None else _in_steps(pairs)
        self._lock(connection, settings.name, pairs)
        # published again while another's count was waited for
        settings = self._campaigns.find(connection, settings.name)
        model = self._model(connection, settings.name) if settings.weighs else None
        for step in [None] if steps is None else steps:
            votes = [VOTES.c.campaign == settings.name]
            tasks = [TASKS.c.campaign == settings.name]
            if step is not None:
                votes.append(VOTES.c.pair_id.in_(step))
                tasks.append(TASKS.c.pair_id.in_(step))
            if settings.drops_excluded:
                standings = self._decisions.standings(connection, settings.name)
                excluded = [worker for worker, one in standings.items() if one is Standing.EXCLUDED]
                votes.append(VOTES.c.worker.not_in(excluded))
            numbers, clear = _counted(connection, votes, model)
            changed = []
            query = select(TASKS.c.pair_id, TASKS.c.votes, TASKS.c.wanted).where(*tasks)
            for pair_id, before, wanted in connection.execute(query).all():
                number = numbers.get(pair_id, 0)
                now = settings.votes_wanted(number, clear.get(pair_id, UNKNOWN))
                if (before, wanted) != (number, now):
                    changed.append({"pair_id": pair_id, "votes": number, "wanted": now})
            change_tasks(connection, settings.name, changed)

    def _lock(self, connection: Connection, campaign: str, pairs: Iterable[str] | None) -> None:
        """Lock tasks, in order, or all: no other transaction counts their votes until this one ends."""
        query = select(TASKS.c.pair_id).where(TASKS.c.campaign == campaign).order_by(TASKS.c.pair_id)
        for step in [None] if pairs is None else _in_steps(pairs):
            some = query if step is None else query.where(TASKS.c.pair_id.in_(step))
            connection.execute(some.with_for_update()).all()

    def weigh(self, campaign: str) -> None:
        """Estimate the workers again if there are new votes, and see which pairs need more votes.

        Until the next estimate, a new worker's votes have the usual weight of new workers. No lock is held
        during the estimate.
        """
        with self._database.read() as connection:
            if not self._campaigns.find(connection, campaign).weighs:
                return
            here = VOTES.c.campaign == campaign
            newest = connection.execute(select(func.max(VOTES.c.number)).where(here)).scalar() or 0
            if newest <= self._weighed(connection, campaign):
                return
            bodies = connection.execute(select(VOTES.c.body).where(here)).scalars().all()
        model = worker_model(map(Vote.model_validate_json, bodies))
        with self._database.write() as connection:
            settings = self._campaigns.find(connection, campaign, lock=True)
            if self._weighed(connection, campaign) >= newest:
                return
            # a worker may just have been erased
            left = set(connection.execute(select(VOTES.c.worker).where(here).distinct()).scalars())
            model = model.without_workers(left)
            connection.execute(MODELS.delete().where(MODELS.c.campaign == campaign))
            body = as_json(model.without_pairs())
            connection.execute(MODELS.insert().values(campaign=campaign, votes=newest, body=body))
            self.recount(connection, settings)

    def model(self, connection: Connection, settings: Campaign) -> WorkerModel:
        """Return the model of a campaign's workers; empty if votes are not weighed."""
        return self._model(connection, settings.name) if settings.weighs else worker_model([])

    def forget(self, connection: Connection, campaign: str) -> None:
        """Remove what was estimated of the workers, until they are estimated again."""
        connection.execute(MODELS.delete().where(MODELS.c.campaign == campaign))

    def _weighed(self, connection: Connection, campaign: str) -> int:
        query = select(MODELS.c.votes).where(MODELS.c.campaign == campaign)
        return connection.execute(query).scalar() or 0

    def _model(self, connection: Connection, campaign: str) -> WorkerModel:
        body = connection.execute(select(MODELS.c.body).where(MODELS.c.campaign == campaign)).scalar()
        return worker_model([]) if body is None else _read_model(body)


def _in_steps(pairs: Iterable[str]) -> list[list[str]]:
    ids = sorted(set(pairs))
    return [ids[at : at + _AT_ONCE] for at in range(0, len(ids), _AT_ONCE)]


@lru_cache(maxsize=16)
def _read_model(body: str) -> WorkerModel:
    return WorkerModel.from_plain(json.loads(body))


def _counted(
    connection: Connection, which: Sequence[ColumnElement[bool]], model: WorkerModel | None
) -> tuple[dict[str, int], dict[str, float]]:
    """Return the number of votes on each pair and, where votes are weighed, how clear its damage is."""
    if model is None:
        query = select(VOTES.c.pair_id, func.count()).where(*which).group_by(VOTES.c.pair_id)
        return {pair_id: number for pair_id, number in connection.execute(query)}, {}
    votes: dict[str, list[Vote]] = defaultdict(list)
    for pair_id, body in connection.execute(select(VOTES.c.pair_id, VOTES.c.body).where(*which)):
        votes[pair_id].append(Vote.model_validate_json(body))
    return (
        {pair_id: len(some) for pair_id, some in votes.items()},
        {pair_id: model.clear_by(some) for pair_id, some in votes.items()},
    )


def change_tasks(connection: Connection, campaign: str, rows: Sequence[dict[str, Any]]) -> None:
    """Change values of tasks, the same columns for all; `pair_id` identifies the task.

    It is one statement, because workers wait while a campaign of thousands of pairs is changed.
    """
    if not rows:
        return
    names = [name for name in rows[0] if name != "pair_id"]
    which = (TASKS.c.campaign == campaign, TASKS.c.pair_id == bindparam("the_pair"))
    update = TASKS.update().where(*which).values({name: bindparam(f"new_{name}") for name in names})
    connection.execute(
        update,
        [{"the_pair": row["pair_id"], **{f"new_{name}": row[name] for name in names}} for row in rows],
    )


def _answer(vote: Vote) -> tuple[str, str, str, str]:
    """Return what identifies a vote, wherever it came from."""
    return vote.pair_id, vote.worker, vote.preferred, vote.rating


def _check_campaign(settings: Campaign, votes: Iterable[Vote]) -> None:
    if settings.kind == "ratings":
        raise UserInputError(
            f"campaign {settings.name} rates single videos, and takes no votes on pairs: a file of ratings "
            "goes straight into `slvmeval suite alignment --ratings FILE`"
        )
    for vote in votes:
        if (vote.campaign, vote.release, vote.version) != (settings.name, settings.release, settings.version):
            raise UserInputError(
                f"vote {vote.vote_id} belongs to campaign {vote.campaign}, release {vote.release} version "
                f"{vote.version}, not to {settings.name}, {settings.release} version {settings.version}"
            )
