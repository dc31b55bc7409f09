"""The organiser's side of the desk: publish, invite, read votes and events, decide, erase."""

from __future__ import annotations

from collections.abc import Iterable

from storage_schemas.vote import Decision, Standing, Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk_types import Added, Erased, Event, Published, TaskProgress, WorkerProgress
from tasks.annotation.tasks import PairTask


class OrganiserDesk:
    """What an organiser does. A campaign that is not there raises `UserInputError`."""

    def publish(self, campaign: Campaign, tasks: Iterable[PairTask], by: str = "") -> Published:
        """Put a campaign's tasks before people, or publish it again with new settings and more tasks.

        Tasks that are known stay, with their votes; those that are no longer among `tasks` are shown to
        nobody any more. Gold is what `campaign.gold_pairs` names or the task itself says.

        Raises
        ------
        UserInputError
            If the name belongs to a campaign of another release or version, or a gold pair is not among
            the tasks.
        """
        raise NotImplementedError

    def campaigns(self) -> list[Campaign]:
        """Return all campaigns by name."""
        raise NotImplementedError

    def campaign(self, name: str) -> Campaign:
        """Return a campaign."""
        raise NotImplementedError

    def task(self, campaign: str, pair_id: str) -> PairTask:
        """Return a published task."""
        raise NotImplementedError

    def tasks(self, campaign: str) -> list[PairTask]:
        """Return the tasks that are shown, by pair id."""
        raise NotImplementedError

    def invite(self, campaign: str, count: int, note: str = "") -> list[str]:
        """Return `count` new tokens for links of one worker each; only their hashes are stored."""
        raise NotImplementedError

    def votes(self, campaign: str, after: int = 0) -> list[tuple[int, Vote]]:
        """Return votes with their numbers above `after`, in order.

        No vote appears later with a number at or below one that was read before.
        """
        raise NotImplementedError

    def add_votes(self, campaign: str, votes: Iterable[Vote]) -> Added:
        """Store votes that came from files, all or none; the same vote again is known, not counted twice."""
        raise NotImplementedError

    def decide(self, campaign: str, worker: str, decision: Standing, note: str, by: str) -> Decision:
        """Exclude or clear a worker; the latest decision counts, earlier ones stay on record.

        An excluded worker's open task goes back into the queue at once, and with `drop_excluded` the pairs
        that the worker voted on want a vote again.

        Raises
        ------
        UserInputError
            If the campaign never saw the worker, neither on our pages nor in a vote, or the note is empty.
        """
        raise NotImplementedError

    def decisions(self, campaign: str) -> list[Decision]:
        """Return all decisions in order."""
        raise NotImplementedError

    def erase(self, campaign: str, worker: str, by: str = "") -> Erased:
        """Take out all that is stored of a worker, votes too; a row of counts without a name stays.

        Raises
        ------
        UserInputError
            If the campaign has nothing of this worker.
        """
        raise NotImplementedError

    def erased(self, campaign: str) -> list[Erased]:
        """Return the rows of counts that erased workers left."""
        raise NotImplementedError

    def progress(self, campaign: str) -> list[TaskProgress]:
        """Return how far each task is that is shown, by aspect and pair id."""
        raise NotImplementedError

    def workers(self, campaign: str) -> list[WorkerProgress]:
        """Return what each worker did, by when they entered; workers known from files only come last."""
        raise NotImplementedError

    def events(self, campaign: str, after: int = 0, most: int | None = None) -> list[Event]:
        """Return what happened, with numbers above `after`, in order; at most `most`."""
        raise NotImplementedError
