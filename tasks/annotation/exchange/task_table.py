"""Tasks of a campaign as a table for another platform (CSV or JSON Lines), and links for workers.

With links, a row leads to our pages, and answers arrive at the desk directly. Without links, a row contains
everything that a platform needs to show the task itself, and answers return as a file: see
:mod:`tasks.annotation.exchange.answers`.

A row is a *slot*: one of the votes that a pair needs. A slot's id and the order of its two videos are keyed
hashes, so nothing need be stored for reading answers, and an id reveals nothing.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote, urlencode, urlsplit

from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.votes import SideWord
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.organiser import TaskProgress
from tasks.annotation.exchange.mapping import Encoding
from tasks.annotation.installation import derived_key
from tasks.annotation.pair_task import PairTask

#: Minimum number of slots per pair that are recognised in answers.
_KNOWN = 50


@dataclass(frozen=True)
class Slot:
    """One needed vote on one pair: its id, its number within the pair (from 1), and the side shown left."""

    id: str
    pair_id: str
    number: int
    first: SideWord


class Slots:
    """The slots of a campaign.

    Parameters
    ----------
    key
        The installation's key.
    campaign
        The campaign's name.
    """

    def __init__(self, key: bytes, campaign: str) -> None:
        self._key = derived_key(key, "slots")
        self._campaign = campaign

    def slot(self, pair_id: str, number: int) -> Slot:
        """Return one slot of a pair."""
        text = f"{self._campaign}\n{pair_id}\n{number}"
        mark = hmac.new(self._key, text.encode(), hashlib.sha256).digest()
        return Slot(mark.hex()[:24], pair_id, number, "high" if mark[-1] & 1 else "low")

    def by_id(self, pair_ids: Iterable[str], wanted: int) -> dict[str, Slot]:
        """Return all slots of the given pairs by their ids, at least `wanted` of each."""
        slots = (
            self.slot(pair_id, number) for pair_id in pair_ids for number in range(1, max(_KNOWN, wanted) + 1)
        )
        return {slot.id: slot for slot in slots}


#: ``token``: a link for any one worker. ``worker``: a link into which the platform inserts its id of the
#: worker. ``none``: the platform shows the task itself.
Links = Literal["token", "worker", "none"]
LINKS: tuple[Links, ...] = get_args(Links)
#: Placeholder for the worker's id in a link of the kind ``worker``.
PLACEHOLDER = "WORKER_ID"


@dataclass(frozen=True)
class TableOptions:
    """What the table contains.

    Parameters
    ----------
    links
        How a row leads to its task.
    url
        Public address of our pages; needed for links.
    placeholder
        Text that the platform replaces with the worker's id.
    media_url
        Address at which the platform hosts the files of the media folder; without it, only names are
        written.
    every
        Whether to include tasks that already have their votes.
    """

    links: Links = "token"
    url: str = ""
    placeholder: str = PLACEHOLDER
    media_url: str = ""
    every: bool = False

    def check(self) -> None:
        """Raise `UserInputError` if links have no address."""
        parts = urlsplit(self.url)
        if self.links != "none" and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise UserInputError(
                "links need the address of our pages: --public-url https://HOST; "
                "or use --links none for a platform that shows the tasks itself"
            )


def task_rows(
    desk: Desk,
    key: bytes,
    campaign: str,
    options: TableOptions,
    may_show: Callable[[PairTask], bool] = lambda _task: True,
    wording: Callable[[PairTask], Mapping[str, str]] = lambda _task: {},
) -> list[dict[str, Any]]:
    """Return a row for each vote that is still needed.

    With links of the kind ``token``, each call creates new ones; earlier ones remain valid.

    Parameters
    ----------
    may_show
        Whether a task's videos and captions may leave the store; without links, other tasks are left out.
    wording
        Additional columns of a task, such as its question.

    Raises
    ------
    UserInputError
        If there is no such campaign, or links have no address.
    """
    options.check()
    settings = desk.campaigns.get(campaign)
    tasks = {task.pair_id: task for task in desk.campaigns.tasks(campaign)}
    slots = Slots(key, campaign)
    open_slots = [
        slots.slot(one.pair_id, number)
        for one in desk.organiser.progress(campaign)
        # check tasks are made for our own pages
        if one.pair_id in tasks and (options.links != "none" or may_show(tasks[one.pair_id]))
        for number in _numbers(one, options.every)
    ]
    tokens = (
        desk.organiser.invite(campaign, len(open_slots), "exported")
        if options.links == "token" and open_slots
        else []
    )
    rows = []
    for index, slot in enumerate(open_slots):
        task = tasks[slot.pair_id]
        row: dict[str, Any] = {
            "task": slot.id,
            "campaign": campaign,
            "pair": slot.pair_id,
            "number": slot.number,
            "aspect": task.aspect,
            "seconds": round(task.videos_s, 3),
            "pay": settings.pay_for(task.watch_s(settings.look_first)),
            "currency": settings.currency,
        }
        if options.links == "none":
            row |= {**wording(task), **_content(task, slot, options)}
        else:
            row["link"] = _link(settings, slot, options, tokens[index] if tokens else "")
        rows.append(row)
    return rows


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], encoding: Encoding = "utf-8") -> None:
    """Write rows as CSV or JSON Lines, depending on the file's extension.

    Raises
    ------
    UserInputError
        If the file exists, has another extension, or a text cannot be written in the encoding.
    """
    check_target(path)
    try:
        write_atomic(path, _text(path, rows).encode(encoding))
    except UnicodeEncodeError as problem:
        raise UserInputError(
            f"{problem.object[problem.start : problem.end]!r} cannot be encoded in {encoding}: use utf-8"
        ) from problem


def check_target(path: Path) -> None:
    """Raise `UserInputError` if a table cannot be written, before links are created for it."""
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise UserInputError(f"{path}: name it .csv or .jsonl")
    if path.exists():
        raise UserInputError(
            f"{path} already exists and may contain links that were sent: choose another name, or remove it"
        )


def _text(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    if path.suffix.lower() == ".jsonl":
        return "".join(_line(row) + "\n" for row in rows)
    text = io.StringIO(newline="")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = csv.writer(text, lineterminator="\r\n")
    lines.writerow(columns)
    for row in rows:
        lines.writerow([_cell(row.get(name, "")) for name in columns])
    return text.getvalue()


def _line(row: Mapping[str, Any]) -> str:
    line = json.dumps(dict(row), ensure_ascii=False)
    # some programs treat these as line ends
    for mark in "\x85\u2028\u2029":
        line = line.replace(mark, f"\\u{ord(mark):04x}")
    return line


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _numbers(one: TaskProgress, every: bool) -> Iterable[int]:
    return range(1 if every else one.votes + 1, one.wanted + 1)


def _link(campaign: Campaign, slot: Slot, options: TableOptions, token: str) -> str:
    begin = f"{options.url.rstrip('/')}/c/{quote(campaign.name)}/enter"
    if options.links == "token":
        return f"{begin}?{urlencode({'token': token})}"
    rest = urlencode({"assignmentId": slot.id, "hitId": campaign.name})
    # not quoted: the platform searches for exactly these characters
    return f"{begin}?workerId={options.placeholder}&{rest}"


def _content(task: PairTask, slot: Slot, options: TableOptions) -> dict[str, Any]:
    """Return what a platform shows: the videos and the prompt first, the rest after the first answer."""
    second: SideWord = "low" if slot.first == "high" else "high"
    at = f"{options.media_url.rstrip('/')}/" if options.media_url else ""
    return {
        "left_video": at + task.file_of(slot.first),
        "right_video": at + task.file_of(second),
        "left_seconds": round(task.seconds(slot.first), 3),
        "right_seconds": round(task.seconds(second), 3),
        "prompt": [
            {
                "start_s": clip.start_s,
                "end_s": clip.end_s,
                "caption": clip.caption,
                **({"translation": clip.translation} if clip.translation else {}),
            }
            for clip in task.prompt_clips
        ],
        # for the second step only
        "degraded": "left" if slot.first == "low" else "right",
        "must_see": [
            {
                "video": "left" if stretch.video == slot.first else "right",
                "start_s": stretch.start_s,
                "end_s": stretch.end_s,
                "kind": stretch.kind,
            }
            for stretch in task.must_see
        ],
    }


LINK_COLUMNS = ("number", "link", "note")


def invitation_link(address: str, campaign: str, token: str) -> str:
    """Return the link of one worker."""
    return f"{address}/c/{campaign}/enter?{urlencode({'token': token})}"


def link_table(address: str, campaign: str, tokens: Sequence[str], note: str) -> bytes:
    """Return a CSV file with one link per line, in UTF-8; a note cannot be interpreted as a formula."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(LINK_COLUMNS)
    harmless = f"'{note}" if note[:1] in tuple("=+-@\t\r") and note else note
    for number, token in enumerate(tokens, 1):
        table.writerow((number, invitation_link(address, campaign, token), harmless))
    return out.getvalue().encode("utf-8", "replace")
