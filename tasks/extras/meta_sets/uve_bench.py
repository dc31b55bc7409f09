"""UVE-Bench: pairs of generated videos, fifteen aspects, four-way answers (Liu et al., 2025).

Form of ``annotations.json``, as its repository (bytedance/UVE) publishes it: one object, id → ``{video_a,
video_b, prompt, preference, aspect, subaspects, dataset}``, sometimes with ``difficulty`` and
``attribution``. Its own evaluation asks for each of the `subaspects`, and takes a video from
``<videos>/<dataset>/<video_a>``; `prompt` is null where the aspect needs none. ``annotations_balanced.json``
has the same form: its pairwise evaluation takes that one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from storage_schemas.errors import SetAside, UserInputError
from tasks.extras.meta_sets.base import NO_GOLD, LoadedSet, MetaPair, MetaSet, unique
from tasks.pairs.file_pairs import Gold
from tasks.scoring.user_files import MALFORMED, UnusedLine, first_there, read_text
from tasks.scoring.video_folder import VideoFolder

_GOLD: Mapping[str, Gold] = {
    "a is better": "a",
    "b is better": "b",
    "same good": "tie",
    "same bad": "tie",
}
_NUMBER = re.compile(r"_(\d+)\.[^.]*$")


class UveBench(MetaSet):
    """The reader of UVE-Bench."""

    name = "uve"
    title = "UVE-Bench"
    files: ClassVar[tuple[str, ...]] = ("annotations/annotations.json", "annotations.json")
    folders: ClassVar[tuple[str, ...]] = ("uve_bench_videos", "videos")

    def load(self, path: Path, videos: Path | None) -> LoadedSet:
        """Read the set; `path` is the repository's folder, or one of its files with annotations."""
        folder = path
        if path.is_dir():
            file = first_there(path, self.files, "annotations")
        else:
            file, folder = path, path.parent
            folder = folder.parent if folder.name == "annotations" else folder
        rows = _rows(file)
        files = VideoFolder(
            videos or first_there(folder, self.folders, "folder of videos, so name it: videos=DIR")
        )
        pairs: list[MetaPair] = []
        left_out: list[UnusedLine] = []
        for id_, row in rows.items():
            try:
                pairs += _pairs(id_, row, files)
            except SetAside as problem:
                left_out.append(UnusedLine(id_, problem.reason.value, problem.message))
            except _UnusableRow as problem:
                left_out.append(UnusedLine(id_, problem.reason, str(problem)))
        return unique(pairs, left_out)


class _UnusableRow(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def _rows(file: Path) -> dict[str, Any]:
    try:
        rows = json.loads(read_text(file))
    except (json.JSONDecodeError, RecursionError) as problem:
        at = f" in line {problem.lineno}" if isinstance(problem, json.JSONDecodeError) else ""
        raise UserInputError(f"{file} is not JSON{at}") from problem
    if not isinstance(rows, dict) or not any(isinstance(row, dict) for row in rows.values()):
        raise UserInputError(f"{file} must be an object of annotations by id, as published by UVE-Bench")
    return rows


def _pairs(id_: str, row: Any, videos: VideoFolder) -> Iterator[MetaPair]:
    """Yield a comparison for each aspect of the annotation."""
    if not isinstance(row, dict):
        raise _UnusableRow(MALFORMED, f"{id_} is not an object")
    for name in ("video_a", "video_b", "preference"):
        if not isinstance(row.get(name), str):
            raise _UnusableRow(MALFORMED, f"{id_} has no {name}")
    aspects = row.get("subaspects") or [row.get("aspect")]
    if not isinstance(aspects, list) or not all(isinstance(name, str) and name for name in aspects):
        raise _UnusableRow(MALFORMED, f"{id_} names no aspect")
    prompt, dataset = row.get("prompt") or "", row.get("dataset") or ""
    if not isinstance(prompt, str) or not isinstance(dataset, str):
        raise _UnusableRow(MALFORMED, f"the prompt or data set of {id_} is not text")
    preference = " ".join(row["preference"].lower().split())
    if preference not in _GOLD:
        raise _UnusableRow(NO_GOLD, f"{id_} has the preference {row['preference'][:100]!r}")
    paths = [
        videos.find(f"{dataset}/{row[name]}" if dataset else row[name]) for name in ("video_a", "video_b")
    ]
    numbers = {match.group(1) for match in map(_NUMBER.search, (row["video_a"], row["video_b"])) if match}
    # videos of one prompt share its number; others are independent
    group = f"{dataset}-{min(numbers)}" if len(numbers) == 1 else id_
    details = {
        "id": id_,
        "preference": row["preference"],
        **{name: row[name] for name in ("aspect", "dataset", "difficulty", "attribution") if row.get(name)},
    }
    for aspect in dict.fromkeys(aspects):
        yield MetaPair(
            key=f"{id_}-{aspect}",
            group=group,
            video_a=paths[0],
            video_b=paths[1],
            prompt=prompt,
            aspect=aspect,
            gold=_GOLD[preference],
            details=details,
        )
