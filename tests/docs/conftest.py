"""A small store with one film, and two films that a user brings, in one folder."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from flows.declaration import FlowDeclaration
from flows.release.options import BuildOptions, SourceRoot
from infra.executor import InlineExecutor
from tasks.recipe import recipe_from
from tests.inline import build_inline

CLIPS, CLIP_S = 12, 3
CAPTION = "A red ball rolls across the floor on the left, number {n}."


def make_film(ffmpeg: str, path: Path, seconds: int, hue: int) -> None:
    source = f"testsrc2=size=160x90:rate=5:duration={seconds},hue=h={hue}"
    command = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "libx264", "-g", "25"]
    subprocess.run([*command, "-threads", "1", "-pix_fmt", "yuv420p", str(path)], check=True)


@pytest.fixture
def quick_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `--direct` work in this process: processes of its own, which take seconds, have their own tests."""
    monkeypatch.setattr(FlowDeclaration, "processes", lambda *_: InlineExecutor())


@pytest.fixture(scope="session")
def example_folder(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with what the examples speak of: ``store``, ``pairs.jsonl``, ``a.mp4``, ``b.mp4``."""
    folder = tmp_path_factory.mktemp("examples")
    videos = folder / "videos"
    videos.mkdir()
    make_film(ffmpeg, videos / "film.mp4", CLIPS * CLIP_S, 0)
    lines = [
        {"start_s": n * CLIP_S, "end_s": (n + 1) * CLIP_S, "caption": CAPTION.format(n=n)}
        for n in range(CLIPS)
    ]
    (videos / "film.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    aspects = {
        "aesthetics": {"operation": "ffmpeg-eq"},
        "technical_quality": {"operation": "lanczos-down-up", "parameters": {"long_side": 80}},
        "comprehensiveness": {"operation": "remove-clips"},
    }
    recipe = recipe_from({"name": "tiny", "long_side": 160, "aspects": aspects})
    options = BuildOptions(
        store=str(folder / "store"), sources=(SourceRoot(path=str(videos)),), recipe=recipe
    )
    assert build_inline(options).exit_code == 0
    make_film(ffmpeg, folder / "a.mp4", 3, 90)
    make_film(ffmpeg, folder / "b.mp4", 3, 180)
    pair = {"id": "p1", "video_a": "a.mp4", "video_b": "b.mp4", "prompt": "A ball.", "gold": "b"}
    (folder / "pairs.jsonl").write_text(json.dumps({**pair, "aspect": "aesthetics"}) + "\n")
    return folder
