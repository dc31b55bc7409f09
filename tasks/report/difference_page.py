"""The page of the videos on which a suite and people differ most (Video-Bench, figure 13)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.errors import SetAside
from tasks.media.playable import write_playable
from tasks.report.formats import csv_text, render
from tasks.report.owned_folder import OwnedFolder
from tasks.report.table import Column, Table
from tasks.scoring.suites.base import Dimension, SuitePrompt
from tasks.scoring.suites.differences import VideoDifference, conversation_of, reason_of
from tasks.scoring.suites.human_ratings import VideoKey
from tasks.scoring.suites.manifest import VideoEntry

#: The page, its table, and the folder of its videos.
PAGE, TABLE, VIDEOS = "differences.html", "differences.csv", "videos"


def write_differences(
    owned: OwnedFolder,
    title: str,
    dimensions: Sequence[Dimension],
    differences: Mapping[str, Sequence[VideoDifference]],
    videos: Mapping[VideoKey, VideoEntry],
    prompts: Mapping[str, SuitePrompt],
) -> dict[str, str]:
    """Write the page with its table and videos; return the videos that cannot be shown, and why.

    Parameters
    ----------
    title
        Title of the suite.
    differences
        By dimension, the widest first.
    videos
        The files of the generated videos, if known. One whose content is no longer what was scored is not
        shown.
    prompts
        The prompts by id, if known.
    """
    missing: dict[str, str] = {}
    shown = {one.video: one for some in differences.values() for one in some}
    files = {video: _file(owned, one, videos, missing) for video, one in shown.items()} if videos else {}
    parts = [
        {"dimension": one, "rows": [_row(difference, files, prompts) for difference in differences[one.name]]}
        for one in dimensions
        if differences.get(one.name)
    ]
    data = {
        "title": "Where the suite and people differ most",
        "suite": title,
        "parts": parts,
        "missing": missing,
        "with_videos": bool(videos),
    }
    owned.write(PAGE, render("differences.html.j2", data))
    owned.write(TABLE, csv_text(difference_table(differences)).encode())
    return missing


def difference_table(differences: Mapping[str, Sequence[VideoDifference]]) -> Table:
    """Return the videos with both scores and the model's reason."""
    columns = (
        Column("dimension", "dimension"),
        Column("model", "model"),
        Column("prompt_id", "prompt_id"),
        Column("sample", "sample", "count"),
        Column("score", "score", "number"),
        Column("people", "people", "number"),
        Column("ratings", "ratings"),
        Column("difference", "difference", "number"),
        Column("reason", "reason"),
    )
    rows = tuple(
        {
            "dimension": one.dimension,
            "model": one.video.model,
            "prompt_id": one.video.prompt_id,
            "sample": one.video.sample,
            "score": one.score,
            "people": one.people,
            "ratings": " ".join(map(str, one.ratings)),
            "difference": one.difference,
            "reason": reason_of(one.rows[0]),
        }
        for some in differences.values()
        for one in some
    )
    return Table("differences", "Where the suite and people differ most", columns, rows)


def _row(
    one: VideoDifference, files: Mapping[VideoKey, str], prompts: Mapping[str, SuitePrompt]
) -> dict[str, Any]:
    prompt = prompts.get(one.video.prompt_id)
    return {
        "difference": one,
        "counts": sorted(Counter(one.ratings).items()),
        "prompt": "" if prompt is None else prompt.text,
        "file": files.get(one.video, ""),
        "reason": reason_of(one.rows[0]),
        "conversation": conversation_of(one.rows[0]),
    }


def _file(
    owned: OwnedFolder,
    one: VideoDifference,
    videos: Mapping[VideoKey, VideoEntry],
    missing: dict[str, str],
) -> str:
    """Return the name of a video's copy that browsers play, empty with a reason in `missing`."""
    entry, digest = videos.get(one.video), one.rows[0].video
    if entry is None:
        missing[str(one.video)] = "the manifest does not name it"
        return ""
    if entry.unreadable or (digest and entry.digest != digest):
        missing[str(one.video)] = entry.unreadable or "the file is no longer the one that was scored"
        return ""
    name = f"{VIDEOS}/{entry.digest[:32]}.mp4"
    target = owned.path / name
    owned.announce([name])
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{uuid.uuid4().hex}.mp4")
        try:
            write_playable(Path(entry.path), draft)
            draft.replace(target)
        except SetAside as problem:
            missing[str(one.video)] = problem.message
            return ""
        finally:
            draft.unlink(missing_ok=True)
    owned.keep([name])
    return name
