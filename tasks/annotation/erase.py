"""Taking a worker's data out: of the database behind the pages, and of the files of the store."""

from __future__ import annotations

from dataclasses import dataclass

from storage_schemas.errors import UserInputError
from storage_schemas.votes_store import VotesStore
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


def erase_worker(desk: Desk, files: VotesStore, campaign: str, worker: str, by: str) -> ErasedWorker:
    """Take out all that a campaign has of a worker; doing it again after a crash takes out the rest.

    Parameters
    ----------
    by
        Who did it; stands with the row of counts that stays.

    Raises
    ------
    UserInputError
        If there is no such campaign, or nothing of this worker in it.
    """
    desk.campaign(campaign)
    on_desk = any(one.worker == worker for one in desk.workers(campaign))
    votes = [vote.vote_id for vote in files.votes([campaign]) if vote.worker == worker]
    in_files = bool(votes) or any(one.worker == worker for one in files.decisions([campaign]))
    if not on_desk and not in_files:
        raise UserInputError(
            f"campaign {campaign} has nothing of worker {worker}: a worker is named by the 32 digits that "
            "`slvmeval annotate quality` and the organiser's pages show"
        )
    # the files first: what is collected from the database until it is erased there stays out of them
    kept = files.erase(campaign, worker)
    gone = desk.erase(campaign, worker, by) if on_desk else None
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
