"""Compare a campaign's workers with a platform's own export: who is unknown, whom to approve, what to add."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from storage_schemas.errors import UserInputError
from storage_schemas.regular_files import read_regular_text
from tasks.annotation.desk.organiser import WorkerProgress

#: Columns of a platform's export, in lower case: of the submission, the participant and the status.
_COLUMNS = {
    "prolific": ("submission id", "participant id", "status"),
    "mturk": ("assignmentid", "workerid", "assignmentstatus"),
}
_SCREENED_OUT = "screened out"
#: Statuses in which nothing is left to approve.
_SETTLED = frozenset({"approved", "rejected", "returned", "timed-out", "timed out", _SCREENED_OUT})


@dataclass(frozen=True)
class Submission:
    """A row of the export."""

    id: str
    participant: str
    status: str


@dataclass(frozen=True)
class Reconciled:
    """What follows from an export.

    Parameters
    ----------
    unknown
        Workers whose session the platform does not know: they came with invented ids.
    approve
        Unsettled submissions of workers with enough tasks.
    bonuses
        Amounts due beyond the reward, or the total if it is less than a submission's.
    unanswered
        Submissions without paid work here.
    """

    unknown: tuple[WorkerProgress, ...]
    approve: tuple[Submission, ...]
    bonuses: tuple[tuple[str, Decimal], ...]
    unanswered: tuple[Submission, ...]


def read_export(path: Path) -> tuple[str, list[Submission]]:
    """Return the platform and the submissions of an export.

    Raises
    ------
    UserInputError
        If it is not an export of a known platform, or has no rows.
    """
    try:
        rows = csv.DictReader(io.StringIO(read_regular_text(path).removeprefix("\ufeff")), strict=True)
        names = {name.strip().lower(): name for name in rows.fieldnames or () if name}
        every = list(rows)
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise UserInputError(f"{path} cannot be read as a table (CSV, UTF-8): {problem}") from problem
    for platform, columns in _COLUMNS.items():
        if all(column in names for column in columns):
            given = [tuple((row[names[column]] or "").strip() for column in columns) for row in every]
            submissions = [Submission(one, who, status.lower()) for one, who, status in given if one]
            if not submissions:
                raise UserInputError(f"{path} has no submissions: export the study again")
            return platform, submissions
    wanted = " or ".join(", ".join(columns) for columns in _COLUMNS.values())
    raise UserInputError(f"{path} is not an export of Prolific or MTurk: it needs the columns {wanted}")


def reconciled(
    workers: Iterable[WorkerProgress],
    platform: str,
    submissions: Sequence[Submission],
    pay: Mapping[str, float],
    tasks: int,
    reward: float,
    before: str,
    name_of: Callable[[str], str],
) -> Reconciled:
    """Return what follows from an export.

    A worker is known whose session the export has for the same participant: a session's id alone may be used
    again with invented participants.

    Parameters
    ----------
    name_of
        Return the worker's name of a participant of the platform.
    pay
        Earnings of each worker.
    tasks
        Number of tasks of a submission.
    reward
        Amount that the platform pays for an approved submission.
    before
        Time of the export, UTC in ISO 8601; sessions that began later are not in it.

    Raises
    ------
    UserInputError
        If the export has none of the workers' sessions: it is of another study.
    """
    by_id = {one.id: one for one in submissions}
    own = [one for one in workers if one.platform == platform]
    matched = [
        one for one in own if one.session in by_id and one.worker == name_of(by_id[one.session].participant)
    ]
    if own and not matched:
        raise UserInputError(
            f"none of the {len(own)} workers from {platform} is in this export: is it of another study?"
        )
    approve, bonuses = [], []
    for worker in matched:
        submission = by_id[worker.session]
        enough = worker.votes >= tasks
        if enough and submission.status not in _SETTLED:
            approve.append(submission)
        owed = Decimal(str(round(pay.get(worker.worker, 0.0), 6)))
        # the platform pays the reward for what it has approved, or will
        rewarded = submission.status == "approved" or (enough and submission.status not in _SETTLED)
        owed -= Decimal(str(reward)) if rewarded else 0
        # who was screened out is paid by the platform
        if owed > 0 and (worker.votes or submission.status != _SCREENED_OUT):
            bonuses.append((submission.participant, owed))
    answered = {one.session for one in matched if one.votes or one.extras}
    return Reconciled(
        unknown=tuple(one for one in own if one not in matched and one.entered_at <= before),
        approve=tuple(sorted(approve, key=lambda one: one.id)),
        bonuses=tuple(sorted(bonuses)),
        unanswered=tuple(one for one in submissions if one.id not in answered),
    )
