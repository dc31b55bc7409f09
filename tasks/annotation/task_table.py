"""The tasks of a campaign as a table for a platform of the user's own: CSV, or JSON Lines.

With links, a row leads to our pages, and the answers are at the desk at once. Without, a row has all that a
platform needs to show the task itself, and the answers come back as a file: see `tasks.annotation.exchange`.
"""

from __future__ import annotations

import csv
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
from tasks.annotation.desk import Desk, TaskProgress
from tasks.annotation.mapping import Encoding
from tasks.annotation.slots import Slot, Slots
from tasks.annotation.tasks import PairTask

#: ``token``: a link for one worker, whoever that is. ``worker``: a link in which the platform writes its own
#: id of the worker. ``none``: the platform shows the task itself.
Links = Literal["token", "worker", "none"]
LINKS: tuple[Links, ...] = get_args(Links)
#: What stands in a link of the kind ``worker`` until the platform writes the worker's id there.
PLACEHOLDER = "WORKER_ID"


@dataclass(frozen=True)
class TableWishes:
    """What the table is to hold.

    Parameters
    ----------
    links
        How a row leads to its task.
    url
        Address of our pages, as workers reach them; needed for links.
    placeholder
        What the platform replaces by the worker's id.
    media_url
        Address at which the platform has the files of the media folder; without one, names alone.
    every
        Also tasks that have their votes already.
    """

    links: Links = "token"
    url: str = ""
    placeholder: str = PLACEHOLDER
    media_url: str = ""
    every: bool = False

    def check(self) -> None:
        """Raise UserInputError where links have no address."""
        parts = urlsplit(self.url)
        if self.links != "none" and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise UserInputError(
                "links need the address at which workers reach our pages: --public-url https://HOST; "
                "or say --links none for a platform that shows the tasks itself"
            )


def task_rows(
    desk: Desk,
    key: bytes,
    campaign: str,
    wishes: TableWishes,
    may_show: Callable[[PairTask], bool] = lambda _task: True,
    wording: Callable[[PairTask], Mapping[str, str]] = lambda _task: {},
) -> list[dict[str, Any]]:
    """Return a row for each vote that is still wanted.

    With links of the kind ``token``, each call makes new ones; those that were given out before stay good.

    Parameters
    ----------
    may_show
        Whether a task's videos and captions may leave the store; without links, others are left out.
    wording
        Further columns of a task, such as its question.

    Raises
    ------
    UserInputError
        If there is no such campaign, or links have no address.
    """
    wishes.check()
    settings = desk.campaign(campaign)
    tasks = {task.pair_id: task for task in desk.tasks(campaign)}
    slots = Slots(key, campaign)
    open_slots = [
        slots.slot(one.pair_id, number)
        for one in desk.progress(campaign)
        if wishes.links != "none" or may_show(tasks[one.pair_id])
        for number in _numbers(one, wishes.every)
    ]
    tokens = (
        desk.invite(campaign, len(open_slots), "exported") if wishes.links == "token" and open_slots else []
    )
    rows = []
    for place, slot in enumerate(open_slots):
        task = tasks[slot.pair_id]
        row: dict[str, Any] = {
            "task": slot.id,
            "campaign": campaign,
            "pair": slot.pair_id,
            "number": slot.number,
            "aspect": task.aspect,
            "seconds": round(task.high_s + task.low_s, 3),
            "pay": settings.pay_per_task,
            "currency": settings.currency,
        }
        if wishes.links == "none":
            row |= {**wording(task), **_shown(task, slot, wishes)}
        else:
            row["link"] = _link(settings, slot, wishes, tokens[place] if tokens else "")
        rows.append(row)
    return rows


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], encoding: Encoding = "utf-8") -> None:
    """Write rows as CSV or as JSON Lines, as the file's name says.

    Raises
    ------
    UserInputError
        If the file is there, its name ends otherwise, or a text does not fit into the encoding.
    """
    check_target(path)
    try:
        write_atomic(path, _text(path, rows).encode(encoding))
    except UnicodeEncodeError as problem:
        raise UserInputError(
            f"{problem.object[problem.start : problem.end]!r} does not fit into {encoding}: write utf-8"
        ) from problem


def check_target(path: Path) -> None:
    """Raise UserInputError where a table cannot be written, before links are made for it."""
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise UserInputError(f"{path}: name it .csv or .jsonl")
    if path.exists():
        raise UserInputError(
            f"{path} is there, and may hold links that were given out: choose another name, or remove it"
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
    # some programs take these for the end of a line
    for mark in "\x85\u2028\u2029":
        line = line.replace(mark, f"\\u{ord(mark):04x}")
    return line


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _numbers(one: TaskProgress, every: bool) -> Iterable[int]:
    return range(1 if every else one.votes + 1, one.wanted + 1)


def _link(campaign: Campaign, slot: Slot, wishes: TableWishes, token: str) -> str:
    begin = f"{wishes.url.rstrip('/')}/c/{quote(campaign.name)}/enter"
    if wishes.links == "token":
        return f"{begin}?{urlencode({'token': token})}"
    rest = urlencode({"assignmentId": slot.id, "hitId": campaign.name})
    # as it is: the platform looks for exactly these characters
    return f"{begin}?workerId={wishes.placeholder}&{rest}"


def _shown(task: PairTask, slot: Slot, wishes: TableWishes) -> dict[str, Any]:
    """Return what a platform shows: first two videos and the prompt, after the first answer the rest."""
    second: SideWord = "low" if slot.first == "high" else "high"
    at = f"{wishes.media_url.rstrip('/')}/" if wishes.media_url else ""
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
