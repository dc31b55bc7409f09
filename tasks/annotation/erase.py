"""Taking a worker's data out: of the database behind the pages, and of the files of the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage_schemas.errors import UserInputError
from storage_schemas.votes import VotesStore
from tasks.annotation.desk import Desk


@dataclass(frozen=True)
class ErasedWorker:
    """What was taken out of one campaign for one worker.

    Parameters
    ----------
    desk_votes, assignments, events, decisions
        Rows of the database.
    file_votes, file_decisions
        Rows of the store's files.
    vote_ids
        Ids of the votes, given once: with them files that were made earlier can be gone through.
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
    """Return the campaigns that hold something of a worker.

    Parameters
    ----------
    among
        Only these; all of the database and of the store where there are none.
    """
    on_desk = [one.name for one in desk.campaigns()]
    names = among or sorted({*on_desk, *files.campaigns()})
    return [name for name in names if _is_in(desk if name in on_desk else None, files, name, worker)]


def workers_like(desk: Desk, files: VotesStore, beginning: str, among: Sequence[str] = ()) -> list[str]:
    """Return the workers whose ids begin so, in order; see `campaigns_of` for `among`."""
    on_desk = [one.name for one in desk.campaigns() if not among or one.name in among]
    known = {one.worker for name in on_desk for one in desk.workers(name)}
    in_files = [name for name in files.campaigns() if not among or name in among]
    known |= {vote.worker for vote in files.votes(in_files)} if in_files else set()
    return sorted(worker for worker in known if worker.startswith(beginning))


def erase_worker(desk: Desk, files: VotesStore, campaign: str, worker: str, by: str) -> ErasedWorker:
    """Take out all that a campaign has of a worker; doing it again after a crash takes out the rest.

    Parameters
    ----------
    campaign
        One of the database, or one of which there are only files.
    by
        Who did it; stands with the row of counts that stays.

    Raises
    ------
    UserInputError
        If the campaign has nothing of this worker.
    """
    on_desk = any(one.name == campaign for one in desk.campaigns())
    if not _is_in(desk if on_desk else None, files, campaign, worker):
        raise UserInputError(
            f"campaign {campaign} has nothing of worker {worker}: a worker is named by the 32 digits that "
            "`slvmeval annotate quality` and the organiser's pages show"
        )
    votes = [vote.vote_id for vote in files.votes([campaign]) if vote.worker == worker]
    # the files first: what is collected from the database until it is erased there stays out of them
    kept = files.erase(campaign, worker)
    here = on_desk and any(one.worker == worker for one in desk.workers(campaign))
    gone = desk.erase(campaign, worker, by) if here else None
    return ErasedWorker(
        campaign=campaign,
        worker=worker,
        desk_votes=gone.votes if gone else 0,
        assignments=gone.assignments if gone else 0,
        events=gone.events if gone else 0,
        decisions=gone.decisions if gone else 0,
        file_votes=kept.votes,
        file_decisions=kept.decisions,
        vote_ids=tuple(sorted({*votes, *(gone.vote_ids if gone else ())})),
    )


def _is_in(desk: Desk | None, files: VotesStore, campaign: str, worker: str) -> bool:
    return (
        (desk is not None and any(one.worker == worker for one in desk.workers(campaign)))
        or any(vote.worker == worker for vote in files.votes([campaign]))
        or any(one.worker == worker for one in files.decisions([campaign]))
    )
