"""Votes and decisions go from the desk's database into the store, where filter and report read them."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from storage_schemas.commit import write_atomic
from storage_schemas.ids import digest_text
from storage_schemas.model import Frozen
from storage_schemas.store import Store
from storage_schemas.votes import Vote, VotesStore
from tasks.annotation.desk import Desk
from tasks.annotation.places import annotation_folder


class _Seen(Frozen):
    """Up to which vote of a database a store has all; `mark` is a checksum of that vote's id."""

    database: str
    after: int
    mark: str


@dataclass(frozen=True)
class Collected:
    """What was collected, and how far the campaign is.

    Parameters
    ----------
    votes, decisions
        New ones.
    tasks, done
        Pairs that are shown, and those of them that have all the votes they want.
    """

    campaign: str
    votes: int
    decisions: int
    tasks: int
    done: int

    @property
    def complete(self) -> bool:
        """Whether every pair has all the votes that it wants."""
        return self.tasks > 0 and self.done == self.tasks

    def in_words(self) -> str:
        """Return what was collected, for a person."""
        return (
            f"{self.votes} votes and {self.decisions} decisions of campaign {self.campaign} are new; "
            f"{self.done} of {self.tasks} pairs have all their votes."
        )


def collect(store: Store, desk: Desk, campaign: str) -> Collected:
    """Take over what is new at the desk; what was taken over before is not read again.

    After a crash the same is taken over once more, and counts once.

    Raises
    ------
    UserInputError
        If there is no such campaign.
    IntegrityError
        If the store has a vote of the same id with another answer.
    """
    desk.campaign(campaign)
    kept = VotesStore(store)
    place = annotation_folder(store.root) / "collected" / f"{campaign}.json"
    # numbers of votes are a database's own
    database = digest_text(desk.shown_url)
    try:
        seen = _Seen.model_validate_json(place.read_bytes())
    except (FileNotFoundError, ValidationError):
        # reading all again costs time only
        seen = _Seen(database=database, after=0, mark="")
    there = seen.database == database and seen.after > 0 and kept.votes([campaign])
    rows = desk.votes(campaign, seen.after - 1 if there else 0)
    if there and [_mark(vote) for number, vote in rows[:1] if number == seen.after] != [seen.mark]:
        # a database that was made anew or brought back from a copy counts votes from elsewhere; where only
        # the vote was erased, reading all again costs time
        rows = desk.votes(campaign)
    votes = kept.add([vote for _, vote in rows]).new
    decisions = kept.add_decisions(desk.decisions(campaign)).new
    if rows:
        number, last = rows[-1]
        newest = _Seen(database=database, after=number, mark=_mark(last))
        write_atomic(place, newest.model_dump_json().encode())
    progress = [one for one in desk.progress(campaign) if not one.gold]
    return Collected(campaign, votes, decisions, len(progress), sum(one.done for one in progress))


def _mark(vote: Vote) -> str:
    """Return what of a vote is kept here: nothing of a worker who is erased later."""
    return digest_text(vote.vote_id)
