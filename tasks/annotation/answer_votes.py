"""One row of a platform's answers as a vote, or why it is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.votes import SideWord, Vote
from tasks.annotation.answer_rows import AnswerRow
from tasks.annotation.campaign import Campaign
from tasks.annotation.mapping import CHOICES, DEFAULT_PLATFORM, AnswerField, AnswerMapping
from tasks.annotation.slots import Slot
from tasks.annotation.tasks import PairTask

_MOST_COMMENT = 4000
_MOST_IDENTITY = 200
#: A character that no character was; the encoding is another one, or the file is damaged.
_DAMAGED = "\ufffd"


class LeftOutReason(StrEnum):
    """Why a row is left out. Written into reports: never rename a value."""

    UNREADABLE = "unreadable"
    HALF_ROW = "half_row"
    UNKNOWN_TASK = "unknown_task"
    UNKNOWN_PAIR = "unknown_pair"
    UNKNOWN_VALUE = "unknown_value"
    #: the same worker's same answer on the same pair, a second time in these files
    DUPLICATE = "duplicate"
    #: the worker's answer on this pair is there already, and it is another one
    OTHER_ANSWER = "other_answer"


class Unusable(Exception):
    """A row that is no vote, and why."""

    def __init__(self, reason: LeftOutReason, message: str) -> None:
        super().__init__(reason, message)
        self.reason, self.message = reason, message


@dataclass(frozen=True)
class VoteReader:
    """Makes votes of rows.

    Parameters
    ----------
    worker_of
        Gives the name by which a worker of a platform is known here; `Desk.worker_of`.
    campaign, tasks
        The campaign, and its tasks by pair.
    mapping
        What the platform's values mean.
    slots
        The campaign's task slots by id.
    """

    worker_of: Callable[[str, str], str]
    campaign: Campaign
    tasks: Mapping[str, PairTask]
    mapping: AnswerMapping
    slots: Mapping[str, Slot]

    def vote(self, row: AnswerRow, places: Mapping[AnswerField, str]) -> Vote:
        """Return the vote of a row.

        Parameters
        ----------
        places
            In which column each field is.

        Raises
        ------
        Unusable
            If it is none.
        """
        if row.problem:
            raise Unusable(LeftOutReason.UNREADABLE, row.problem)
        said = self._said(row, places)
        pair_id, first = self._pair(said)
        task = self.tasks[pair_id]
        platform = said.get("platform") or DEFAULT_PLATFORM
        if len(said["worker"]) > _MOST_IDENTITY:
            raise Unusable(
                LeftOutReason.UNKNOWN_VALUE, f"the worker's id has over {_MOST_IDENTITY} characters"
            )
        try:
            worker = self.worker_of(platform, said["worker"])
        except UserInputError as problem:
            raise Unusable(LeftOutReason.UNKNOWN_VALUE, str(problem)) from problem
        preferred, rating = _side(said["preferred"], first), said["rating"]
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
                "language": said.get("language") or self.campaign.languages[0],
                "gold": task.gold,
                "first": first,
                "preferred": preferred,
                "rating": rating,
                **{
                    name: _seconds(name, said.get(name, ""))
                    for name in ("preference_s", "total_s", "watched_s")
                },
                "pair_duration_s": task.high_s + task.low_s,
                "comment": said.get("comment", "")[:_MOST_COMMENT],
                **{name: self._time(name, said.get(name, "")) for name in ("opened_at", "at")},
            }
        )

    def _said(self, row: AnswerRow, places: Mapping[AnswerField, str]) -> dict[AnswerField, str]:
        """Return what a row says, in our words."""
        said: dict[AnswerField, str] = dict(self.mapping.constants)
        for name, column in places.items():
            text = _clean(row.cells.get(column, ""))
            if not text and name in ("worker", "preferred", "rating"):
                raise Unusable(LeftOutReason.HALF_ROW, f"the {name} is missing (column {column!r})")
            if _DAMAGED in text:
                raise Unusable(
                    LeftOutReason.UNREADABLE,
                    f"column {column!r} is no {self.mapping.file.encoding}: say the encoding in [file] of "
                    "the mapping, or mend the row",
                )
            meant = self.mapping.meaning(name, text) if text else text
            if meant is None:
                choices = ", ".join(CHOICES.get(name, ()))
                raise Unusable(
                    LeftOutReason.UNKNOWN_VALUE,
                    f"column {column!r}: {text!r:.80} is not known as a {name} ({choices}): say in "
                    f"[values.{name}] what it means",
                )
            said[name] = meant
        return said

    def _pair(self, said: Mapping[AnswerField, str]) -> tuple[str, SideWord]:
        """Return which pair was answered, and which side was shown left."""
        if task := said.get("task", ""):
            slot = self.slots.get(task)
            if slot is None:
                raise Unusable(
                    LeftOutReason.UNKNOWN_TASK, f"campaign {self.campaign.name} has no task {task!r:.60}"
                )
            if said.get("pair", slot.pair_id) not in (slot.pair_id, ""):
                raise Unusable(
                    LeftOutReason.UNKNOWN_PAIR, f"task {task} is of pair {slot.pair_id}, the row says another"
                )
            return slot.pair_id, slot.first
        pair, first = said.get("pair", ""), said.get("first", "")
        if not pair or not first:
            missing = "pair" if not pair else "first"
            raise Unusable(LeftOutReason.HALF_ROW, f"neither a task nor a {missing} is said")
        if pair not in self.tasks:
            raise Unusable(
                LeftOutReason.UNKNOWN_PAIR, f"campaign {self.campaign.name} has no pair {pair!r:.80}"
            )
        return pair, "high" if first == "high" else "low"

    def _time(self, name: str, text: str) -> str:
        if not text:
            return ""
        try:
            found = datetime.fromisoformat(text.replace("/", "-"))
            aware = found if found.tzinfo else found.replace(tzinfo=ZoneInfo(self.mapping.file.timezone))
            return aware.astimezone(UTC).isoformat()
        except (ValueError, OverflowError) as problem:
            raise Unusable(
                LeftOutReason.UNKNOWN_VALUE, f"{name}: {text!r:.60} is no time as 2026-04-01T09:30:00+09:00"
            ) from problem


def _side(preferred: str, first: SideWord) -> SideWord:
    if preferred in ("high", "low"):
        return "high" if preferred == "high" else "low"
    return first if preferred == "left" else ("low" if first == "high" else "high")


def _seconds(name: str, text: str) -> float | None:
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e9:
        raise Unusable(LeftOutReason.UNKNOWN_VALUE, f"{name}: {text!r:.60} is no number of seconds")
    return found


def _clean(text: str) -> str:
    """Return a text without what no database takes: halves of characters, and zero bytes."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8").strip()
