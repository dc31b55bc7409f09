"""Answers of a platform of the user's own come in from files; what cannot be used is said by file and line.

Workers' ids are hashed on the way in and stored nowhere. The files are only read, so what is left out is
still there, and after mending it the same file can be given again: what is known is not counted twice.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from storage_schemas.commit import write_atomic
from storage_schemas.votes import Vote
from tasks.annotation.answer_rows import AnswerRow, read_answers
from tasks.annotation.answer_votes import LeftOutReason, Unusable, VoteReader
from tasks.annotation.desk import Desk
from tasks.annotation.mapping import AnswerMapping
from tasks.annotation.slots import Slots

_OTHER = "the campaign has another answer of this worker on this pair"


@dataclass(frozen=True)
class LeftOut:
    """One row that is left out: where it stands, and why; nothing in it names a worker."""

    file: str
    line: int
    last_line: int
    reason: LeftOutReason
    message: str


@dataclass(frozen=True)
class ImportResult:
    """What became of some files.

    Parameters
    ----------
    rows
        Rows that there were; each is in exactly one of the others.
    accepted, known
        Votes that are new, and those that the campaign had.
    left_out
        Rows that are no votes, in the order of the files.
    """

    rows: int
    accepted: int
    known: int
    left_out: tuple[LeftOut, ...] = ()
    dry_run: bool = False

    def in_words(self) -> str:
        """Return what became of them, for a person."""
        would = "would be" if self.dry_run else "are"
        words = f"{self.rows} rows: {self.accepted} votes {would} taken, {self.known} were known"
        counts = Counter(row.reason.value for row in self.left_out)
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()))
        return f"{words}, {len(self.left_out)} left out ({reasons})." if reasons else f"{words}."


def import_answers(
    desk: Desk,
    key: bytes,
    campaign: str,
    files: Sequence[Path],
    mapping: AnswerMapping,
    dry_run: bool = False,
) -> ImportResult:
    """Take the answers of some files as votes of a campaign.

    Of two answers of one worker on one pair the first counts: of the campaign, then of the files as they are
    given. All votes that can be used are stored in one step, or none.

    Parameters
    ----------
    key
        The installation's key, with which task slots are known.
    dry_run
        Only say what would become of them.

    Raises
    ------
    UserInputError
        If the campaign or a file is not there, or the mapping does not fit a file's columns; nothing was
        taken then.
    """
    settings = desk.campaign(campaign)
    tasks = {task.pair_id: task for task in desk.tasks(campaign)}
    slots = Slots(key, campaign).by_id(tasks, settings.workers_per_pair)
    reader = VoteReader(desk.worker_of, settings, tasks, mapping, slots)
    there = {(vote.worker, vote.pair_id): vote for _, vote in desk.votes(campaign)}
    read = [(path, read_answers(path, mapping.file)) for path in files]
    columns = [
        mapping.places(found.columns, str(path)) if found.columns and found.rows else {}
        for path, found in read
    ]
    taken: dict[tuple[str, str], _Taken] = {}
    left_out: list[LeftOut] = []
    known = 0
    for (path, found), places in zip(read, columns, strict=True):
        for row in found.rows:
            try:
                vote = reader.vote(row, places)
                where = (vote.worker, vote.pair_id)
                if where in taken:
                    taken[where].refuse(vote)
                if where in there and not _same(there[where], vote):
                    raise Unusable(LeftOutReason.OTHER_ANSWER, _OTHER)
                known += where in there
                taken[where] = _Taken(vote, path, row)
            except Unusable as problem:
                left_out.append(LeftOut(str(path), row.line, row.last_line, problem.reason, problem.message))
    new = {one.vote.vote_id: one for where, one in taken.items() if where not in there}
    if new and not dry_run:
        added = desk.add_votes(campaign, [one.vote for one in new.values()])
        # somebody else imported, or published anew, since we looked
        late = {
            **dict.fromkeys(added.refused, (LeftOutReason.OTHER_ANSWER, _OTHER)),
            **dict.fromkeys(added.unknown_pairs, (LeftOutReason.UNKNOWN_PAIR, "the pair is shown no more")),
        }
        for vote_id, (reason, message) in late.items():
            one = new.pop(vote_id)
            left_out.append(LeftOut(str(one.path), one.row.line, one.row.last_line, reason, message))
    rows = sum(len(found.rows) for _, found in read)
    return ImportResult(rows, len(new), known, tuple(left_out), dry_run)


def write_report(path: Path, left_out: Sequence[LeftOut]) -> None:
    """Write which rows were left out as CSV, also where there are none."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("file", "line", "last_line", "reason", "message"))
    for row in left_out:
        lines.writerow((row.file, row.line, row.last_line, row.reason.value, row.message))
    # with a byte order mark, so that a spreadsheet reads it as what it is
    write_atomic(path, text.getvalue().encode("utf-8-sig", "replace"))


def _same(known: Vote, given: Vote) -> bool:
    return (known.preferred, known.rating) == (given.preferred, given.rating)


@dataclass(frozen=True)
class _Taken:
    """A vote, and the row that it comes from."""

    vote: Vote
    path: Path
    row: AnswerRow

    def refuse(self, vote: Vote) -> NoReturn:
        """Say of another vote of this worker on this pair why it does not count."""
        where = f"line {self.row.line} of {self.path.name}"
        if _same(self.vote, vote):
            raise Unusable(LeftOutReason.DUPLICATE, f"it says the same as {where}")
        raise Unusable(
            LeftOutReason.OTHER_ANSWER, f"this worker answered on this pair in {where} already, and otherwise"
        )
