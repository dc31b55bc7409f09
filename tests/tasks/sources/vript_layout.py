"""Data sets in Vript's layout."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import Source
from tasks.sources.registry import open_sources

VID = "-_MRAAhEKio"


def captions(vid: str, texts: list[Any], **meta: Any) -> dict[str, Any]:
    """Content of a caption file; a text of None is a scene without caption."""
    data = {
        f"{vid}-Scene-{number:03d}": {
            "video_id": vid,
            "caption": {"shot_type": "Close-up", "content": text, "scene_title": "T"},
            "voiceover": [""],
        }
        for number, text in enumerate(texts, start=1)
    }
    return {"meta": {"video_id": vid, "video_title": "A film", "integrity": True, **meta}, "data": data}


def cut_meta(vid: str, *times: dict[str, Any]) -> dict[str, Any]:
    clips = [{"clip_id": f"{vid}-Scene-{n:03d}.mp4", **time} for n, time in enumerate(times, start=1)]
    return {"clips": clips}


def asr(vid: str, *durations: float) -> bytes:
    rows = [
        {"clip_id": f"{vid}-Scene-{n:03d}", "duration": duration, "lang": "en"}
        for n, duration in enumerate(durations, start=1)
    ]
    return "\n".join(json.dumps(row) for row in reversed(rows)).encode()


class Layout:
    """A data set in Vript's layout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("vript_captions", "vript_long_videos", "vript_long_videos_clips"):
            (root / folder).mkdir(parents=True)

    def write(self, path: str, content: Any) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())

    def pack(self, path: str, members: dict[str, Any]) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(self.root / path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content if isinstance(content, bytes) else json.dumps(content))

    def add(
        self, vid: str, texts: list[Any] | None = None, times: Any = None, video: bool = True, **meta: Any
    ) -> None:
        """Write one whole video of two scenes."""
        self.captions(vid, captions(vid, texts or ["A cat.", "A dog."], **meta))
        if video:
            self.video(vid)
        edges = times or [{"start": 0.0, "end": 4.0}, {"start": 4.0, "end": 9.0}]
        self.times(vid, cut_meta(vid, *edges))

    def captions(self, vid: str, content: Any) -> None:
        self.write(f"vript_captions/vript_long_videos_captions/{vid}_caption.json", content)

    def video(self, vid: str) -> None:
        self.write(f"vript_long_videos/{vid}.mp4", f"video {vid}".encode())

    def times(self, vid: str, content: Any) -> None:
        self.write(f"vript_long_videos_clips/{vid}/{vid}_cut_meta.json", content)

    def scan(self, **options: Any) -> tuple[list[Source], list[SetAsideRow]]:
        adapter = open_sources("vript", self.root, **options)
        items = list(adapter.scan())
        if not options.get("only_present"):
            assert adapter.count() == len(items)
        sources = [item for item in items if isinstance(item, Source)]
        return sources, [item for item in items if isinstance(item, SetAsideRow)]


def edges(source: Source) -> list[tuple[float, float, str]]:
    return [(clip.start_s, clip.end_s, clip.caption) for clip in source.clips]
