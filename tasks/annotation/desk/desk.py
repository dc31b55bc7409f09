"""The desk as a whole: one database and the objects that work on it."""

from __future__ import annotations

from typing import Self

from tasks.annotation.desk.answers import Answers
from tasks.annotation.desk.assignments import Assignments
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import PATIENCE_S, Clock, Database, utc
from tasks.annotation.desk.decisions import Decisions
from tasks.annotation.desk.events import EventLog
from tasks.annotation.desk.extras import Extras
from tasks.annotation.desk.keys import DeskKey
from tasks.annotation.desk.organiser import Organiser
from tasks.annotation.desk.queue import Queue
from tasks.annotation.desk.ratings import Ratings
from tasks.annotation.desk.viewing import Viewing
from tasks.annotation.desk.votes import Votes
from tasks.annotation.desk.workers import Workers


class Desk:
    """Tasks, assignments and votes of all campaigns in one database.

    The code for SQLite and PostgreSQL is the same. A desk may be used by many threads, and several processes
    may open the same database.

    Attributes
    ----------
    campaigns, events, decisions, votes
        The stored data.
    workers, queue, viewing, answers
        Workers' actions: enter, get a task, watch the videos, answer.
    ratings
        Ratings of single videos with their checks by a second person.
    organiser
        The organiser's actions.
    """

    def __init__(self, database: Database, key: bytes) -> None:
        secret = DeskKey(key)
        self.database = database
        self.campaigns = campaigns = Campaigns(database)
        extras = Extras(database)
        self.events = events = EventLog(database, campaigns, extras)
        self.decisions = decisions = Decisions(database, campaigns)
        assignments = Assignments(database, campaigns, decisions)
        self.votes = votes = Votes(database, campaigns, events, decisions, assignments, extras)
        self.workers = workers = Workers(database, secret, campaigns, events, votes, extras)
        self.queue = Queue(
            database, secret, campaigns, events, decisions, assignments, votes, workers, extras
        )
        self.viewing = Viewing(database, events, assignments)
        self.answers = Answers(database, events, assignments, votes, extras)
        self.ratings = Ratings(database, campaigns, events, assignments, votes)
        self.organiser = Organiser(database, secret, campaigns, events, decisions, assignments, votes, extras)

    @classmethod
    def open(cls, url: str, key: bytes, clock: Clock = utc, patience_s: float = PATIENCE_S) -> Self:
        """Open a database, and create its tables if there are none.

        Parameters
        ----------
        url
            ``sqlite:////path/desk.sqlite`` or ``postgresql+psycopg://user:password@host/name``.
        key
            The installation's key, with which workers' identities are hashed; at least 16 bytes.
        patience_s
            Seconds to wait for other writers.

        Raises
        ------
        UserInputError
            If the address is not supported, or the key is too short.
        PrerequisiteError
            If the database cannot be reached.
        StoreError
            If its tables have another version, or were created with another key.
        """
        database = Database(url, clock, patience_s)
        try:
            database.prepare(key)
        except BaseException:
            database.close()
            raise
        return cls(database, key)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
