"""Raters' answers as the file that ``slvmeval suite alignment`` reads, and what is left out of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storage_schemas.commit import write_atomic
from storage_schemas.store import Store
from storage_schemas.votes import Standing
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.ratings import Check, CheckedRating, Verdict
from tasks.annotation.installation import annotation_folder
from tasks.annotation.rating_task import VideoRating

#: The rating is not confirmed yet.
NOT_CHECKED = "not_checked"
#: A checker sent the rating back, and its rater has not rated again.
SENT_BACK = "sent_back"
#: The rater was excluded, and the campaign drops the ratings of excluded raters.
RATER_EXCLUDED = "rater_excluded"

_COLUMNS = ("model", "prompt_id", "sample", "dimension", "rater", "rating")


@dataclass(frozen=True)
class LeftOutRating:
    """A rating that is not in the file, with the reason."""

    rating: VideoRating
    reason: str
    message: str


@dataclass(frozen=True)
class CollectedRatings:
    """What was written.

    Parameters
    ----------
    path, left_out_path
        The ratings, and those left out.
    ratings, left_out
        Their numbers.
    waiting
        How many of those left out may still be used or replaced. One that was sent back stays left out where
        its task has all its ratings from others.
    tasks, done
        Videos in a dimension, and those that have all their ratings.
    """

    campaign: str
    path: Path
    left_out_path: Path
    ratings: int
    left_out: int
    waiting: int
    tasks: int
    done: int

    @property
    def complete(self) -> bool:
        """Whether every video has all its ratings, and none of them waits for a check or a replacement."""
        return self.tasks > 0 and self.done == self.tasks and not self.waiting

    def in_words(self) -> str:
        """Describe what was written in a sentence."""
        words = f"{self.ratings} ratings of campaign {self.campaign}: {self.path}"
        if self.left_out:
            words += f"; {self.left_out} are left out, with reasons: {self.left_out_path}"
        return f"{words}; {self.done} of {self.tasks} tasks have all their ratings."


def ratings_folder(root: Path) -> Path:
    """Return the folder of the collected ratings."""
    return annotation_folder(root) / "ratings"


def sort_out(
    ratings: Sequence[CheckedRating], checks: Sequence[Check], check: bool, excluded: frozenset[str]
) -> tuple[list[VideoRating], list[LeftOutRating]]:
    """Return the ratings to be used, and those to be left out.

    Parameters
    ----------
    ratings
        The ratings that count, with their checks.
    checks
        All checks of the campaign.
    check
        Whether only confirmed ratings are used.
    excluded
        Raters whose ratings are dropped.
    """
    used: list[VideoRating] = []
    left_out: list[LeftOutRating] = []
    for one in ratings:
        if one.given.worker in excluded:
            left_out.append(LeftOutRating(one.given, RATER_EXCLUDED, "the rater was excluded"))
        elif check and not one.confirmed:
            left_out.append(LeftOutRating(one.given, NOT_CHECKED, "not confirmed yet"))
        else:
            used.append(one.given)
    known = {one.given.vote_id for one in ratings}
    # of a rating that was sent back several times, the last counts
    back = {
        one.given.vote_id: one
        for one in checks
        if one.verdict is Verdict.SENT_BACK and one.given.vote_id not in known
    }
    left_out += [
        LeftOutRating(one.given, SENT_BACK, f"{one.by} sent it back: {one.note}") for one in back.values()
    ]
    return used, left_out


def collect_ratings(store: Store, desk: Desk, campaign: str) -> CollectedRatings:
    """Write the ratings of a campaign as CSV for ``slvmeval suite alignment``, and those left out beside it.

    Raters are numbered in the order of their first rating; nothing in the files identifies them.

    Raises
    ------
    UserInputError
        If there is no such campaign.
    """
    settings = desk.campaigns.get(campaign)
    ratings, checks = desk.ratings.read(campaign), desk.ratings.checks(campaign)
    decided = {one.worker: one.decision for one in desk.decisions.read(campaign)}
    excluded = {worker for worker, standing in decided.items() if standing is Standing.EXCLUDED}
    dropped = frozenset(excluded if settings.drop_excluded else ())
    used, left_out = sort_out(ratings, checks, settings.check_ratings, dropped)
    everything = [*used, *(one.rating for one in left_out)]
    first = {rating.worker: rating.at for rating in sorted(everything, key=lambda one: one.at, reverse=True)}
    raters = {
        worker: f"rater-{number}"
        for number, worker in enumerate(sorted(first, key=lambda w: (first[w], w)), 1)
    }
    folder = ratings_folder(store.root)
    path, beside = folder / f"{campaign}.csv", folder / f"{campaign}-left-out.csv"
    used.sort(key=_order)
    left_out.sort(key=lambda one: _order(one.rating))
    write_atomic(path, _table(_COLUMNS, [_row(one, raters) for one in used]))
    rows = [(*_row(one.rating, raters), one.reason, one.message) for one in left_out]
    write_atomic(beside, _table((*_COLUMNS, "reason", "message"), rows))
    progress = desk.organiser.progress(campaign)
    full = {one.pair_id for one in progress if one.done}
    waiting = [one for one in left_out if one.reason != SENT_BACK or one.rating.pair_id not in full]
    return CollectedRatings(
        campaign, path, beside, len(used), len(left_out), len(waiting), len(progress), len(full)
    )


def _order(rating: VideoRating) -> tuple[str, str, str, int, str]:
    return rating.aspect, rating.prompt_id, rating.model, rating.sample, rating.at


def _row(rating: VideoRating, raters: dict[str, str]) -> tuple[object, ...]:
    video = rating.model, rating.prompt_id, rating.sample
    return (*video, rating.aspect, raters[rating.worker], rating.rating)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue().encode("utf-8", "replace")
