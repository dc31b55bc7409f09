"""Campaigns and their tasks as published."""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import ColumnElement, Connection, select

from storage_schemas.errors import UserInputError
from storage_schemas.names import is_campaign_name
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.desk.tables import CAMPAIGNS, TASKS, plain_text
from tasks.annotation.pair_task import PairTask
from tasks.annotation.rating_task import AnyTask, RatingTask, read_task


@lru_cache(maxsize=64)
def read_campaign(settings: str) -> Campaign:
    """Return stored settings; they are read in each transaction."""
    return Campaign.model_validate_json(settings)


class Campaigns:
    """The campaigns of a desk. An unknown name raises `UserInputError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Campaign]:
        """Return all campaigns by name."""
        with self._database.read() as connection:
            rows = connection.execute(select(CAMPAIGNS.c.settings).order_by(CAMPAIGNS.c.campaign)).scalars()
            return [Campaign.model_validate_json(settings) for settings in rows]

    def get(self, name: str) -> Campaign:
        """Return a campaign's settings."""
        with self._database.read() as connection:
            return self.find(connection, name)

    def tasks(self, name: str) -> list[PairTask]:
        """Return the pairs that are shown, without check tasks made of them, by pair id.

        A campaign of ratings has none.
        """
        tasks = self._tasks(name, TASKS.c.shown.is_(True))
        return [task for task in tasks if isinstance(task, PairTask) and task.check is None]

    def watch_s(self, name: str, shown: bool = False) -> dict[str, float]:
        """Return by task how many seconds of its videos have to be watched.

        Parameters
        ----------
        shown
            Only tasks that are shown.
        """
        which = [TASKS.c.campaign == name, *([TASKS.c.shown.is_(True)] if shown else [])]
        with self._database.read() as connection:
            rows = connection.execute(select(TASKS.c.pair_id, TASKS.c.watch_s).where(*which))
            return {pair_id: seconds for pair_id, seconds in rows}

    def task(self, name: str, pair_id: str) -> PairTask:
        """Return a published pair, even if it is no longer shown.

        Raises
        ------
        UserInputError
            If the campaign has no such pair.
        """
        task = self._task(name, pair_id)
        if not isinstance(task, PairTask):
            raise UserInputError(f"campaign {name} has no pair {pair_id!r:.100}")
        return task

    def rating_tasks(self, name: str) -> list[RatingTask]:
        """Return the videos to be rated, in each dimension, even those no longer shown, by task id."""
        return [task for task in self._tasks(name) if isinstance(task, RatingTask)]

    def rating_task(self, name: str, task_id: str) -> RatingTask:
        """Return a video to be rated, even if it is no longer shown.

        Raises
        ------
        UserInputError
            If the campaign has no such task.
        """
        task = self._task(name, task_id)
        if not isinstance(task, RatingTask):
            raise UserInputError(f"campaign {name} has no video {task_id!r:.100} to rate")
        return task

    def _task(self, name: str, task_id: str) -> AnyTask | None:
        found = self._tasks(name, TASKS.c.pair_id == plain_text(task_id, len(task_id)))
        return found[0] if found else None

    def find(self, connection: Connection, name: str, lock: bool = False) -> Campaign:
        """Return a campaign's settings inside a transaction.

        Parameters
        ----------
        lock
            Whether to lock the campaign's queue until the transaction ends.
        """
        # a string that cannot be a campaign's name is not sent to the database: it may not be valid text
        possible = is_campaign_name(name)
        query = CAMPAIGNS.select().where(CAMPAIGNS.c.campaign == name)
        row = connection.execute(query.with_for_update() if lock else query).first() if possible else None
        if row is None:
            names = connection.execute(select(CAMPAIGNS.c.campaign).order_by(CAMPAIGNS.c.campaign)).scalars()
            raise UserInputError(
                f"there is no campaign {name!r:.100} (campaigns: {', '.join(names) or 'none'})"
            )
        return read_campaign(row.settings)

    def find_for_worker(self, connection: Connection, name: str, lock: bool = False) -> Campaign:
        """Return a campaign's settings, or refuse without naming the existing campaigns."""
        try:
            return self.find(connection, name, lock)
        except UserInputError:
            refuse(
                RefusalReason.UNKNOWN_CAMPAIGN,
                "there is no such campaign: ask the person who gave you the link",
            )

    def _tasks(self, name: str, *which: ColumnElement[bool]) -> list[AnyTask]:
        with self._database.read() as connection:
            self.find(connection, name)
            query = select(TASKS.c.body).where(TASKS.c.campaign == name, *which).order_by(TASKS.c.pair_id)
            return [read_task(body) for body in connection.execute(query).scalars()]
