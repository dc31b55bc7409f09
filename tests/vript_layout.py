"""A small data set in the layout of Vript, made from a film and captions that may be passed on.

Vript's licence forbids passing its files on, so what reads its layout is tried on this one instead.
The layout's variants are options: unpacked or as zip archives, boundaries from the cut metadata or from
the transcript, empty clip archives.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

#: The key under which a scene's caption and transcript are filed; scenes count from 1.
SCENE_ID = "{video_id}-Scene-{number:03d}"

_SHOT = re.compile(
    r"extreme close-up|close-up|wide|medium|aerial|top-down|low angle|from above", re.IGNORECASE
)


def write_vript_layout(
    video: Path,
    captions: Path,
    target: Path,
    *,
    video_id: str,
    boundaries: Literal["cut_meta", "transcript", "none"] = "cut_meta",
    times: Literal["seconds", "timecode"] = "seconds",
    zipped: bool = False,
) -> None:
    """Write one long video with its captions and scene boundaries below `target`, as Vript lays them out.

    Parameters
    ----------
    video
        The film; hard-linked where the file system allows it, else copied.
    captions
        Its captions as JSON Lines: `start_s`, `end_s` (seconds), `caption`.
    target
        The data set's folder. Called again with another `video_id` it adds that video.
    video_id
        The data set's id of the video.
    boundaries
        Where the scene boundaries stand: ``cut_meta`` (``<id>_cut_meta.json``), ``transcript``
        (``<id>_asr.jsonl``: the duration of each scene, last scene first; scenes then touch, so the first
        starts at 0 and each lasts until the next one starts) or ``none`` (the video's folder is empty,
        as in some of the data set's archives).
    times
        How the cut metadata writes a time: ``12.5`` or ``00:00:12.500``.
    zipped
        Write captions, video and clips inside zip archives, as the data set is downloaded.
    """
    scenes = [json.loads(line) for line in captions.read_text(encoding="utf-8").splitlines() if line.strip()]
    _add_meta(target / "vript_meta" / "vript_long_videos_meta.json", video_id, scenes)
    caption_file = _json(_caption_file(scenes, video_id))
    clip_files = _clip_files(scenes, video_id, boundaries, times)
    name = f"{video_id}_caption.json"
    if zipped:
        part = _next_part(target / "vript_long_videos")
        _add_to_zip(target / "vript_captions" / "vript_long_videos_captions.zip", {name: caption_file})
        _add_to_zip(
            target / "vript_long_videos_clips" / f"clips_{part}_of_1095.zip",
            {f"{video_id}/{file}": text for file, text in clip_files.items()} or {f"{video_id}/": ""},
        )
        archive = _open_new_zip(target / "vript_long_videos" / f"video_{part}_of_1095.zip")
        with archive:
            archive.write(video, f"{video_id}{video.suffix}")
        return
    _write(target / "vript_captions" / "vript_long_videos_captions" / name, caption_file)
    folder = target / "vript_long_videos_clips" / video_id
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in clip_files.items():
        _write(folder / file, text)
    _link(video, target / "vript_long_videos" / f"{video_id}{video.suffix}")


def _caption_file(scenes: list[dict[str, Any]], video_id: str) -> dict[str, Any]:
    data = {}
    for number, scene in enumerate(scenes, start=1):
        scene_id = SCENE_ID.format(video_id=video_id, number=number)
        data[scene_id] = {
            "video_id": video_id,
            "clip_id": scene_id,
            "video_title": video_id,
            "caption": _caption(scene["caption"]),
            "voiceover": [],
        }
    meta = {"video_id": video_id, "video_title": video_id, "num_clips": len(scenes), "integrity": True}
    return {"meta": meta, "data": data}


def _caption(text: str) -> dict[str, str]:
    shot = _SHOT.search(text)
    camera = re.search(r"[^.]*\bcamera\b[^.]*\.", text)
    return {
        "shot_type": f"{shot.group().capitalize()} shot." if shot else "",
        "camera_movement": camera.group().strip() if camera else "",
        "content": text,
        "scene_title": " ".join(text.split()[:6]).rstrip(".,"),
    }


def _clip_files(scenes: list[dict[str, Any]], video_id: str, boundaries: str, times: str) -> dict[str, str]:
    """Return the text of the files in the video's folder of clips, by name."""
    ids = [SCENE_ID.format(video_id=video_id, number=number) for number in range(1, len(scenes) + 1)]
    if boundaries == "cut_meta":
        shown = _timecode if times == "timecode" else float
        clips = [
            # here the data set names the clip's file, not the scene
            {"clip_id": f"{scene_id}.mp4", "start": shown(s["start_s"]), "end": shown(s["end_s"])}
            for scene_id, s in zip(ids, scenes, strict=True)
        ]
        return {f"{video_id}_cut_meta.json": _json({"clips": clips})}
    if boundaries == "transcript":
        starts = [0.0, *(scene["start_s"] for scene in scenes[1:]), scenes[-1]["end_s"]]
        lines = [
            {"clip_id": scene_id, "duration": end - start, "lang": "en", "scene_text": [], "full_text": ""}
            for scene_id, start, end in zip(ids, starts, starts[1:], strict=False)
        ]
        return {f"{video_id}_asr.jsonl": "".join(json.dumps(line) + "\n" for line in reversed(lines))}
    return {}


def _timecode(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def _add_meta(path: Path, video_id: str, scenes: Iterable[dict[str, Any]]) -> None:
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    known[video_id] = {
        "video_id": video_id,
        "video_title": video_id,
        "num_clips": len(list(scenes)),
        "category": "Film & Animation",
    }
    _write(path, _json(known))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        # another file system, or one without hard links
        shutil.copyfile(source, target)


def _next_part(folder: Path) -> int:
    return 1 + len(list(folder.glob("video_*_of_1095.zip")))


def _open_new_zip(path: Path) -> zipfile.ZipFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    return zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)


def _add_to_zip(path: Path, texts: dict[str, str]) -> None:
    """Add or replace members; an archive is rewritten, since zip files cannot replace a member."""
    path.parent.mkdir(parents=True, exist_ok=True)
    members: dict[str, bytes] = {}
    if path.is_file():
        with zipfile.ZipFile(path) as old:
            members = {name: old.read(name) for name in old.namelist()}
    members |= {name: text.encode() for name, text in texts.items()}
    with tempfile.TemporaryDirectory(dir=path.parent) as draft_folder:
        draft = Path(draft_folder) / path.name
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as new:
            for name, data in members.items():
                new.writestr(name, data)
        draft.replace(path)
