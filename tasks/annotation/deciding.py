"""Writing down what was decided about a worker: at the desk, where there is one, and in the store."""

from __future__ import annotations

import getpass

from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from storage_schemas.votes import Decision, Standing, VotesStore
from tasks.annotation.desk import Desk
from tasks.annotation.places import database_url, installation_key, sqlite_file


def decide(
    store: Store,
    database: str | None,
    campaign: str,
    worker: str,
    decision: Standing,
    note: str,
    by: str = "",
) -> Decision:
    """Exclude or clear a worker.

    Parameters
    ----------
    database
        Address of the desk's database; SQLite in the store by default. A campaign whose votes came as
        files into the store has no desk.
    worker
        The worker's id, or a beginning of it that no other worker of the campaign has.
    by
        Who decides; the name of who is logged in by default.

    Raises
    ------
    UserInputError
        If there is no such campaign or worker, several workers' ids begin so, or the note is empty.
    """
    if not note.strip():
        raise UserInputError("say why with --note: the worker may ask, and so may others")
    kept = VotesStore(store)
    files = campaign in kept.campaigns()
    seen = {vote.worker for vote in kept.votes([campaign])} if files else set()
    by = by or getpass.getuser()
    if database is not None or sqlite_file(store.root).exists():
        with Desk.open(database_url(store.root, database), installation_key(store.root)) as desk:
            if campaign in [one.name for one in desk.campaigns()]:
                seen |= {one.worker for one in desk.workers(campaign)}
                made = desk.decide(campaign, _one(seen, campaign, worker), decision, note, by)
                kept.add_decisions([made])
                return made
    if not files:
        raise UserInputError(
            f"there is no campaign {campaign!r}: "
            f"the store has votes of {', '.join(kept.campaigns()) or 'none'}"
        )
    return kept.decide(campaign, _one(seen, campaign, worker), decision, note.strip(), by)


def _one(known: set[str], campaign: str, worker: str) -> str:
    found = sorted(id_ for id_ in known if id_.startswith(worker)) if worker else []
    if worker in found:
        return worker
    if len(found) != 1:
        raise UserInputError(
            f"{len(found)} of {len(known)} workers of campaign {campaign} have an id like {worker!r}: "
            "`slvmeval annotate quality --all` lists them"
        )
    return found[0]
