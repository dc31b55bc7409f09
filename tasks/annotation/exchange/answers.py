"""Import answers from a platform's files as votes; each unusable row is reported with its file and line.

Workers' ids are hashed on import and not stored. Files are only read: correct a row and import the same file
again; known votes are not counted twice.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NoReturn
from zoneinfo import ZoneInfo

from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.votes import SideWord, Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.exchange.mapping import CHOICES, DEFAULT_PLATFORM, AnswerField, AnswerMapping
from tasks.annotation.exchange.rows import AnswerRow, read_answers
from tasks.annotation.exchange.task_table import Slot, Slots
from tasks.annotation.pair_task import MAX_COMMENT_LENGTH, PairTask

_MAX_IDENTITY_LENGTH = 200
#: Replaces bytes that could not be decoded: the encoding is wrong, or the file is damaged.
_DAMAGED = "\ufffd"


class LeftOutReason(StrEnum):
    """Why a row is left out. Written into reports: never rename a value."""

    UNREADABLE = "unreadable"
    HALF_ROW = "half_row"
    UNKNOWN_TASK = "unknown_task"
    UNKNOWN_PAIR = "unknown_pair"
    UNKNOWN_VALUE = "unknown_value"
    #: the same answer of a worker on a pair, repeated in these files
    DUPLICATE = "duplicate"
    #: a different answer of the worker on this pair already exists
    OTHER_ANSWER = "other_answer"


class UnusableRow(Exception):
    """A row that cannot become a vote, and why."""

    def __init__(self, reason: LeftOutReason, message: str) -> None:
        super().__init__(reason, message)
        self.reason, self.message = reason, message


@dataclass(frozen=True)
class VoteReader:
    """Turns rows into votes.

    Parameters
    ----------
    worker_of
        Returns the name of a platform's worker in this installation; `Workers.name_of`.
    campaign, tasks
        The campaign, and its tasks by pair.
    mapping
        The meaning of the platform's values.
    slots
        The campaign's task slots by id.
    """

    worker_of: Callable[[str, str], str]
    campaign: Campaign
    tasks: Mapping[str, PairTask]
    mapping: AnswerMapping
    slots: Mapping[str, Slot]

    def vote(self, row: AnswerRow, field_columns: Mapping[AnswerField, str]) -> Vote:
        """Return the vote of a row.

        Parameters
        ----------
        field_columns
            The column of each field.

        Raises
        ------
        UnusableRow
            If the row cannot become a vote.
        """
        if row.problem:
            raise UnusableRow(LeftOutReason.UNREADABLE, row.problem)
        fields = self._fields(row, field_columns)
        pair_id, first = self._pair(fields)
        task = self.tasks[pair_id]
        platform = fields.get("platform") or DEFAULT_PLATFORM
        if len(fields["worker"]) > _MAX_IDENTITY_LENGTH:
            raise UnusableRow(
                LeftOutReason.UNKNOWN_VALUE, f"the worker's id has over {_MAX_IDENTITY_LENGTH} characters"
            )
        try:
            worker = self.worker_of(platform, fields["worker"])
        except UserInputError as problem:
            raise UnusableRow(LeftOutReason.UNKNOWN_VALUE, str(problem)) from problem
        preferred, rating = _side(fields["preferred"], first), fields["rating"]
        answer = [self.campaign.name, pair_id, worker, preferred, rating]
        return Vote.model_validate(
            {
                "vote_id": digest_value(answer)[:32],
                "campaign": self.campaign.name,
                "release": self.campaign.release,
                "version": self.campaign.version,
                "pair_id": pair_id,
                "source_id": task.source_id,
                "aspect": task.aspect,
                "worker": worker,
                "platform": platform,
                "origin": "file",
                "language": fields.get("language") or self.campaign.languages[0],
                "gold": task.gold,
                "control": task.control,
                "first": first,
                "preferred": preferred,
                "rating": rating,
                **{
                    name: _seconds(name, fields.get(name, ""))
                    for name in ("preference_s", "total_s", "watched_s")
                },
                "pair_duration_s": task.videos_s,
                "comment": fields.get("comment", "")[:MAX_COMMENT_LENGTH],
                **{name: self._time(name, fields.get(name, "")) for name in ("opened_at", "at")},
            }
        )

    def _fields(self, row: AnswerRow, field_columns: Mapping[AnswerField, str]) -> dict[AnswerField, str]:
        """Return the fields of a row, converted to our values."""
        fields: dict[AnswerField, str] = dict(self.mapping.constants)
        for name, column in field_columns.items():
            text = _clean(row.cells.get(column, ""))
            if not text and name in ("worker", "preferred", "rating"):
                raise UnusableRow(LeftOutReason.HALF_ROW, f"the {name} is missing (column {column!r})")
            if _DAMAGED in text:
                raise UnusableRow(
                    LeftOutReason.UNREADABLE,
                    f"column {column!r} is not valid {self.mapping.file.encoding}: set the "
                    "encoding in [file] "
                    "of the mapping, or correct the row",
                )
            if name in ("worker", "task", "pair") and (what := _spreadsheet_damage(text)):
                raise UnusableRow(
                    LeftOutReason.UNKNOWN_VALUE,
                    f"column {column!r}: a spreadsheet {what} ({text!r:.40}): take the file as the platform "
                    "wrote it, or import the column as text",
                )
            meaning = self.mapping.meaning(name, text) if text else text
            if name == "language" and meaning and meaning not in self.campaign.languages:
                meaning = None
            if meaning is None:
                choices = ", ".join(self.campaign.languages if name == "language" else CHOICES.get(name, ()))
                raise UnusableRow(
                    LeftOutReason.UNKNOWN_VALUE,
                    f"column {column!r}: {text!r:.80} is not a known {name} ({choices}): define its "
                    f"meaning in [values.{name}]",
                )
            fields[name] = meaning
        return fields

    def _pair(self, fields: Mapping[AnswerField, str]) -> tuple[str, SideWord]:
        """Return the pair that was answered, and the side that was shown on the left."""
        if task := fields.get("task", ""):
            slot = self.slots.get(task)
            if slot is None:
                raise UnusableRow(
                    LeftOutReason.UNKNOWN_TASK, f"campaign {self.campaign.name} has no task {task!r:.60}"
                )
            if fields.get("pair", slot.pair_id) not in (slot.pair_id, ""):
                raise UnusableRow(
                    LeftOutReason.UNKNOWN_PAIR,
                    f"task {task} is of pair {slot.pair_id}, but the row names another pair",
                )
            return slot.pair_id, slot.first
        pair, first = fields.get("pair", ""), fields.get("first", "")
        if not pair or not first:
            missing = "pair" if not pair else "first"
            raise UnusableRow(LeftOutReason.HALF_ROW, f"neither a task nor a {missing} is given")
        if pair not in self.tasks:
            raise UnusableRow(
                LeftOutReason.UNKNOWN_PAIR, f"campaign {self.campaign.name} has no pair {pair!r:.80}"
            )
        return pair, "high" if first == "high" else "low"

    def _time(self, name: str, text: str) -> str:
        if not text:
            return ""
        try:
            time = datetime.fromisoformat(text.replace("/", "-"))
            aware = time if time.tzinfo else time.replace(tzinfo=ZoneInfo(self.mapping.file.timezone))
            return aware.astimezone(UTC).isoformat()
        except (ValueError, OverflowError) as problem:
            raise UnusableRow(
                LeftOutReason.UNKNOWN_VALUE,
                f"{name}: {text!r:.60} is not a time such as 2026-04-01T09:30:00+09:00",
            ) from problem


def _side(preferred: str, first: SideWord) -> SideWord:
    if preferred in ("high", "low"):
        return "high" if preferred == "high" else "low"
    return first if preferred == "left" else ("low" if first == "high" else "high")


def _seconds(name: str, text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise UnusableRow(LeftOutReason.UNKNOWN_VALUE, f"{name}: {text!r:.60} is not a number of seconds")
    return seconds


def _clean(text: str) -> str:
    """Return a text without what no database can store: lone surrogates and zero bytes."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8").strip()


def _spreadsheet_damage(identity: str) -> str:
    """Return what a spreadsheet did to an id, so that several people may be one, or one several."""
    if re.fullmatch(r"[+-]?\d([.,]\d+)?E[+-]?\d+", identity, re.IGNORECASE):
        return "rounded this number"
    if re.fullmatch(r"\d+[.,]0+", identity):
        return "made this id a number"
    if re.match(r"'|=\"|=\d", identity):
        return "put signs of its own before this id"
    return ""


_OTHER = "the campaign has a different answer of this worker on this pair"


@dataclass(frozen=True)
class LeftOutRow:
    """One row that is left out: its position in the file, and why; it does not identify a worker."""

    file: str
    line: int
    last_line: int
    reason: LeftOutReason
    message: str


@dataclass(frozen=True)
class ImportResult:
    """The result of an import.

    Parameters
    ----------
    rows
        Number of rows; each is counted in exactly one of the others.
    accepted, known
        Numbers of new votes, and of those that the campaign already had.
    left_out
        Rows that gave no vote, in the order of the files.
    """

    rows: int
    accepted: int
    known: int
    left_out: tuple[LeftOutRow, ...] = ()
    dry_run: bool = False

    def in_words(self) -> str:
        """Describe the result in a sentence."""
        would = "would be" if self.dry_run else "are"
        words = f"{self.rows} rows: {self.accepted} votes {would} imported, {self.known} were known"
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
    """Import the answers in files as votes of a campaign.

    If a worker answered a pair twice, the first answer counts: the campaign's, then the files' in the given
    order. All usable votes are stored in one transaction, or none.

    Parameters
    ----------
    key
        The installation's key, by which task slots are recognised.
    dry_run
        Only report the result.

    Raises
    ------
    UserInputError
        If the campaign or a file does not exist, or the mapping does not match a file's columns; nothing is
        imported in that case.
    """
    settings = desk.campaigns.get(campaign)
    tasks = {task.pair_id: task for task in desk.campaigns.tasks(campaign)}
    slots = Slots(key, campaign).by_id(tasks, settings.votes_at_most)
    reader = VoteReader(desk.workers.name_of, settings, tasks, mapping, slots)
    existing = {(vote.worker, vote.pair_id): vote for _, vote in desk.votes.read(campaign)}
    answer_files = [(path, read_answers(path, mapping.file)) for path in files]
    columns = [
        mapping.field_columns(file.columns, str(path)) if file.columns and file.rows else {}
        for path, file in answer_files
    ]
    imported: dict[tuple[str, str], _NewVote] = {}
    left_out: list[LeftOutRow] = []
    known = 0
    for (path, file), field_columns in zip(answer_files, columns, strict=True):
        for row in file.rows:
            try:
                vote = reader.vote(row, field_columns)
                where = (vote.worker, vote.pair_id)
                if where in imported:
                    imported[where].refuse(vote)
                if where in existing and not _same(existing[where], vote):
                    raise UnusableRow(LeftOutReason.OTHER_ANSWER, _OTHER)
                known += where in existing
                imported[where] = _NewVote(vote, path, row)
            except UnusableRow as problem:
                left_out.append(
                    LeftOutRow(str(path), row.line, row.last_line, problem.reason, problem.message)
                )
    new = {one.vote.vote_id: one for where, one in imported.items() if where not in existing}
    if new and not dry_run:
        added = desk.votes.add(campaign, [one.vote for one in new.values()])
        desk.votes.weigh(campaign)
        # another process imported or published after we read the votes
        rejected = {
            **dict.fromkeys(added.refused, (LeftOutReason.OTHER_ANSWER, _OTHER)),
            **dict.fromkeys(added.unknown_pairs, (LeftOutReason.UNKNOWN_PAIR, "the pair is no longer shown")),
        }
        for vote_id, (reason, message) in rejected.items():
            one = new.pop(vote_id)
            left_out.append(LeftOutRow(str(one.path), one.row.line, one.row.last_line, reason, message))
    rows = sum(len(file.rows) for _, file in answer_files)
    return ImportResult(rows, len(new), known, tuple(left_out), dry_run)


def write_report(path: Path, left_out: Sequence[LeftOutRow]) -> None:
    """Write the rows that were left out as CSV, even if there are none."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("file", "line", "last_line", "reason", "message"))
    for row in left_out:
        lines.writerow((row.file, row.line, row.last_line, row.reason.value, row.message))
    # with a byte order mark, by which spreadsheets recognise UTF-8
    write_atomic(path, text.getvalue().encode("utf-8-sig", "replace"))


def _same(stored: Vote, given: Vote) -> bool:
    return (stored.preferred, stored.rating) == (given.preferred, given.rating)


@dataclass(frozen=True)
class _NewVote:
    """A vote and its row."""

    vote: Vote
    path: Path
    row: AnswerRow

    def refuse(self, vote: Vote) -> NoReturn:
        """Raise `UnusableRow` with the reason why another vote of this worker on this pair does not count."""
        where = f"line {self.row.line} of {self.path.name}"
        if _same(self.vote, vote):
            raise UnusableRow(LeftOutReason.DUPLICATE, f"it repeats {where}")
        raise UnusableRow(
            LeftOutReason.OTHER_ANSWER, f"this worker gave a different answer on this pair in {where}"
        )
