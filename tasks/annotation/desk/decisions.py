"""Decisions about workers: excluded or cleared."""

from __future__ import annotations

from sqlalchemy import Connection, select

from storage_schemas.votes import Decision, Standing
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.desk.tables import DECISIONS


class Decisions:
    """The append-only decisions of all campaigns; the latest about a worker counts."""

    def __init__(self, database: Database, campaigns: Campaigns) -> None:
        self._database, self._campaigns = database, campaigns

    def read(self, campaign: str) -> list[Decision]:
        """Return all decisions in order."""
        with self._database.read() as connection:
            self._campaigns.find(connection, campaign)
            return self._all(connection, campaign)

    def add(self, connection: Connection, decision: Decision) -> None:
        """Store a decision."""
        number = self._database.numbers(connection, decision.campaign, "decisions")
        row = {"campaign": decision.campaign, "number": number, "worker": decision.worker}
        connection.execute(DECISIONS.insert().values(**row, body=decision.model_dump_json()))

    def standings(self, connection: Connection, campaign: str) -> dict[str, Standing]:
        """Return the latest decision about each worker."""
        return {row.worker: row.decision for row in self._all(connection, campaign)}

    def latest(self, connection: Connection, campaign: str, worker: str) -> Decision | None:
        """Return the latest decision about a worker."""
        body = connection.execute(
            select(DECISIONS.c.body)
            .where(DECISIONS.c.campaign == campaign, DECISIONS.c.worker == worker)
            .order_by(DECISIONS.c.number.desc())
            .limit(1)
        ).scalar()
        return None if body is None else Decision.model_validate_json(body)

    def refuse_excluded(self, connection: Connection, campaign: str, worker: str) -> None:
        """Refuse the request of an excluded worker."""
        latest = self.latest(connection, campaign, worker)
        if latest is not None and latest.decision is Standing.EXCLUDED:
            refuse(RefusalReason.EXCLUDED, "you get no more tasks; thank you for your work")

    def _all(self, connection: Connection, campaign: str) -> list[Decision]:
        query = select(DECISIONS.c.body).where(DECISIONS.c.campaign == campaign).order_by(DECISIONS.c.number)
        return [Decision.model_validate_json(body) for body in connection.execute(query).scalars()]
