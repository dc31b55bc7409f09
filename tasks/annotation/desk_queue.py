"""Which task a worker gets. The choice is a plain function; the rest reads what it chooses from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, Table, func, select

from tasks.annotation.tables import ASSIGNMENTS, TASKS, VOTES

#: Assignments that somebody may still answer.
OPEN_STATES = ("opened", "preferred")


class Waiting(NamedTuple):
    """One pair in the queue: the votes that count, and the leases of other workers."""

    pair_id: str
    aspect: str
    votes: int
    leases: int

    @property
    def taken(self) -> int:
        """Places that are filled or kept."""
        return self.votes + self.leases


def aspect_shares(queue: Iterable[Waiting], wanted: int) -> dict[str, float]:
    """Return which share of its places each aspect has filled or kept."""
    filled: dict[str, int] = defaultdict(int)
    places: dict[str, int] = defaultdict(int)
    for pair in queue:
        filled[pair.aspect] += min(pair.taken, wanted)
        places[pair.aspect] += wanted
    return {aspect: filled[aspect] / places[aspect] for aspect in places}


def chosen(
    queue: Iterable[Waiting], mine: set[str], wanted: int, chance: Callable[[str], float]
) -> Waiting | None:
    """Return the pair that comes next for a worker, None if none is free.

    First the aspect with the least share of its places taken, then the pair that has most of its places
    taken: pairs get finished one after the other, and aspects side by side. `chance` decides among equals.

    Parameters
    ----------
    queue
        All pairs of the campaign.
    mine
        Pairs that this worker had already.
    wanted
        Votes wanted on a pair.
    """
    pairs = list(queue)
    shares = aspect_shares(pairs, wanted)
    free = [pair for pair in pairs if pair.taken < wanted and pair.pair_id not in mine]
    if not free:
        return None
    aspect = min({pair.aspect for pair in free}, key=lambda name: (shares[name], chance(name)))
    of_aspect = [pair for pair in free if pair.aspect == aspect]
    most = max(pair.taken for pair in of_aspect)
    return min((pair for pair in of_aspect if pair.taken == most), key=lambda pair: chance(pair.pair_id))


def leases(connection: Connection, campaign: str, now: str, but: str = "") -> Mapping[str, int]:
    """Return how many leases run on each pair, those of the worker `but` left out."""
    rows = connection.execute(
        select(ASSIGNMENTS.c.pair_id, func.count())
        .where(
            ASSIGNMENTS.c.campaign == campaign,
            ASSIGNMENTS.c.state.in_(OPEN_STATES),
            ASSIGNMENTS.c.lapsed.is_(False),
            ASSIGNMENTS.c.lease_until > now,
            ASSIGNMENTS.c.worker != but,
        )
        .group_by(ASSIGNMENTS.c.pair_id)
    )
    return {row[0]: row[1] for row in rows}


def waiting(connection: Connection, campaign: str, now: str, gold: bool = False) -> list[Waiting]:
    """Return all pairs that are shown, gold ones or the others."""
    running = leases(connection, campaign, now)
    rows = connection.execute(
        select(TASKS.c.pair_id, TASKS.c.aspect, TASKS.c.votes).where(
            TASKS.c.campaign == campaign, TASKS.c.gold.is_(gold), TASKS.c.shown.is_(True)
        )
    ).all()
    return [Waiting(id_, aspect, votes, running.get(id_, 0)) for id_, aspect, votes in rows]


def voted(connection: Connection, campaign: str, worker: str) -> set[str]:
    """Return the pairs that a worker voted on, here or in a file."""
    return _pairs_of(VOTES, connection, campaign, worker)


def had(connection: Connection, campaign: str, worker: str) -> set[str]:
    """Return the pairs that a worker was given, or voted on in a file."""
    return _pairs_of(ASSIGNMENTS, connection, campaign, worker) | voted(connection, campaign, worker)


def _pairs_of(table: Table, connection: Connection, campaign: str, worker: str) -> set[str]:
    said = select(table.c.pair_id).where(table.c.campaign == campaign, table.c.worker == worker)
    return set(connection.execute(said).scalars())
