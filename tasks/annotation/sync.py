"""Keep the store's votes in sync with the desk: collect votes, decide about workers, erase workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.model import Frozen
from storage_schemas.store import Store
from storage_schemas.user import user_name
from storage_schemas.votes import Decision, Standing, Vote, VotesStore
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import annotation_folder, database_url, installation_key, sqlite_file


class _LastCollected(Frozen):
    """The last vote of a database that was collected; `mark` is a checksum of that vote's id."""

    database: str
    after: int
    mark: str


@dataclass(frozen=True)
class Collected:
    """What was collected, and the campaign's progress.

    Parameters
    ----------
    votes, decisions
        Numbers of new votes and decisions.
    tasks, done
        Numbers of pairs that are shown, and of those that have all their votes.
    """

    campaign: str
    votes: int
    decisions: int
    tasks: int
    done: int

    @property
    def complete(self) -> bool:
        """Whether every pair has all its votes."""
        return self.tasks > 0 and self.done == self.tasks

    def in_words(self) -> str:
        """Describe what was collected in a sentence."""
        return (
            f"{self.votes} votes and {self.decisions} decisions of campaign {self.campaign} are new; "
            f"{self.done} of {self.tasks} pairs have all their votes."
        )


def collect(store: Store, desk: Desk, campaign: str) -> Collected:
    """Copy new votes and decisions from the desk into the store, where filter and report read them.

    Votes that were copied before are not read again. After a crash some are copied twice, but count once.

    Raises
    ------
    UserInputError
        If there is no such campaign.
    IntegrityError
        If the store has a vote with the same id and a different answer.
    """
    settings = desk.campaigns.get(campaign)
    files = VotesStore(store)
    path = annotation_folder(store.root) / "collected" / f"{campaign}.json"
    # vote numbers are only meaningful within their database
    database = digest_text(desk.database.shown_url)
    try:
        last = _LastCollected.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        # reading everything again only takes time
        last = _LastCollected(database=database, after=0, mark="")
    unchanged = last.database == database and last.after > 0 and files.votes([campaign])
    rows = desk.votes.read(campaign, last.after - 1 if unchanged else 0)
    if unchanged and [_mark(vote) for number, vote in rows[:1] if number == last.after] != [last.mark]:
        # a new or restored database has assigned the number to another vote; if the vote was only erased,
        # reading everything again only takes time
        rows = desk.votes.read(campaign)
    votes = files.add([vote for _, vote in rows]).new
    decisions = files.add_decisions(desk.decisions.read(campaign)).new
    if rows:
        number, vote = rows[-1]
        newest = _LastCollected(database=database, after=number, mark=_mark(vote))
        write_atomic(path, newest.model_dump_json().encode())
    desk.votes.weigh(campaign)
    progress = [one for one in desk.organiser.progress(campaign) if not one.gold]
    unanswered = [one.pair_id for one in progress if not one.votes]
    files.keep_rules(campaign, settings.filter_rule, settings.rule, unanswered, settings.gold_pairs)
    return Collected(campaign, votes, decisions, len(progress), sum(one.done for one in progress))


def _mark(vote: Vote) -> str:
    """Return the stored mark of a vote, which does not identify a worker who may be erased later."""
    return digest_text(vote.vote_id)


@dataclass(frozen=True)
class ErasedWorker:
    """What was erased about one worker in one campaign.

    Parameters
    ----------
    desk_votes, assignments, events, decisions
        Rows of the database.
    file_votes, file_decisions
        Rows of the store's files.
    vote_ids
        Ids of the votes, reported once, for cleaning files that were written earlier.
    """

    campaign: str
    worker: str
    desk_votes: int
    assignments: int
    events: int
    decisions: int
    file_votes: int
    file_decisions: int
    vote_ids: tuple[str, ...]


def campaigns_of(desk: Desk, files: VotesStore, worker: str, among: Sequence[str] = ()) -> list[str]:
    """Return the campaigns that hold data about a worker.

    Parameters
    ----------
    among
        Campaigns to consider; by default all of the database and of the store.
    """
    on_desk = [one.name for one in desk.campaigns.all()]
    names = among or sorted({*on_desk, *files.campaigns()})
    return [name for name in names if _is_in(desk if name in on_desk else None, files, name, worker)]


def workers_like(desk: Desk, files: VotesStore, prefix: str, among: Sequence[str] = ()) -> list[str]:
    """Return the workers whose ids begin with `prefix`, in order; see `campaigns_of` for `among`."""
    on_desk = [one.name for one in desk.campaigns.all() if not among or one.name in among]
    workers = {one.worker for name in on_desk for one in desk.organiser.workers(name)}
    in_files = [name for name in files.campaigns() if not among or name in among]
    workers |= {vote.worker for vote in files.votes(in_files)} if in_files else set()
    return sorted(worker for worker in workers if worker.startswith(prefix))


def erase_worker(desk: Desk, files: VotesStore, campaign: str, worker: str, by: str) -> ErasedWorker:
    """Erase everything a campaign stores about a worker; after a crash, a repeated call erases the rest.

    Parameters
    ----------
    campaign
        A campaign of the database, or one that exists only as files.
    by
        Who erases; recorded in the row of counts that remains.

    Raises
    ------
    UserInputError
        If the campaign has no data of this worker.
    """
    on_desk = any(one.name == campaign for one in desk.campaigns.all())
    if not _is_in(desk if on_desk else None, files, campaign, worker):
        raise UserInputError(
            f"campaign {campaign} has no data of worker {worker}: give the id of 32 digits that "
            "`slvmeval annotate workers` and the organiser's pages show"
        )
    votes = [vote.vote_id for vote in files.votes([campaign]) if vote.worker == worker]
    # files first: they reject what is collected from the database before it is erased there as well
    from_files = files.erase(campaign, worker)
    is_worker = on_desk and any(one.worker == worker for one in desk.organiser.workers(campaign))
    from_desk = desk.organiser.erase(campaign, worker, by) if is_worker else None
    return ErasedWorker(
        campaign=campaign,
        worker=worker,
        desk_votes=from_desk.votes if from_desk else 0,
        assignments=from_desk.assignments if from_desk else 0,
        events=from_desk.events if from_desk else 0,
        decisions=from_desk.decisions if from_desk else 0,
        file_votes=from_files.votes,
        file_decisions=from_files.decisions,
        vote_ids=tuple(sorted({*votes, *(from_desk.vote_ids if from_desk else ())})),
    )


def _is_in(desk: Desk | None, files: VotesStore, campaign: str, worker: str) -> bool:
    return (
        (desk is not None and any(one.worker == worker for one in desk.organiser.workers(campaign)))
        or any(vote.worker == worker for vote in files.votes([campaign]))
        or any(one.worker == worker for one in files.decisions([campaign]))
    )


def decide(
    store: Store,
    database: str | None,
    campaign: str,
    worker: str,
    decision: Standing,
    note: str,
    by: str = "",
) -> Decision:
    """Exclude or clear a worker, at the desk if there is one, and in the store.

    Parameters
    ----------
    database
        Address of the desk's database; by default SQLite in the store. A campaign whose votes were added to
        the store as files has no desk.
    worker
        The worker's id, or a prefix of it that is unique in the campaign.
    by
        Who decides; by default the logged-in user.

    Raises
    ------
    UserInputError
        If there is no such campaign or worker, the id is ambiguous, or the note is empty.
    """
    if not note.strip():
        raise UserInputError("give the reason with --note: the worker may ask for it")
    collected = VotesStore(store)
    files = campaign in collected.campaigns()
    workers = {vote.worker for vote in collected.votes([campaign])} if files else set()
    by = by or user_name()
    if database is not None or sqlite_file(store.root).exists():
        with Desk.open(database_url(store.root, database), installation_key(store.root)) as desk:
            if campaign in [one.name for one in desk.campaigns.all()]:
                workers |= {one.worker for one in desk.organiser.workers(campaign)}
                stored = desk.organiser.decide(campaign, _one(workers, campaign, worker), decision, note, by)
                collected.add_decisions([stored])
                return stored
    if not files:
        raise UserInputError(
            f"there is no campaign {campaign!r} (campaigns with votes in the store: "
            f"{', '.join(collected.campaigns()) or 'none'})"
        )
    return collected.decide(campaign, _one(workers, campaign, worker), decision, note.strip(), by)


def _one(workers: set[str], campaign: str, worker: str) -> str:
    matching = sorted(id_ for id_ in workers if id_.startswith(worker)) if worker else []
    if worker in matching:
        return worker
    if len(matching) != 1:
        raise UserInputError(
            f"{len(matching)} of {len(workers)} workers of campaign {campaign} have an id with the prefix "
            f"{worker!r}: "
            "`slvmeval annotate workers --all` lists them"
        )
    return matching[0]
