"""Builds of few aspects in this process, and what they leave in a store."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from flows.release.options import BuildOptions
from flows.release.result import BuildResult
from flows.release.run import Build
from infra.executor import Executor
from infra.progress import BuildProgress
from storage_schemas.store import FRAMES, Store
from tests.tasks.sources.vript_layout import Layout

AddFilm = Callable[[Path, int], Path]


def changed(options: BuildOptions, **fields: object) -> BuildOptions:
    return options.model_copy(update=fields)


def with_recipe(options: BuildOptions, **fields: object) -> BuildOptions:
    return changed(options, recipe=options.recipe.model_copy(update=fields))


def only(options: BuildOptions, *aspects: str, **fields: object) -> BuildOptions:
    """Return options with these aspects alone, and other fields of the recipe changed."""
    return with_recipe(options, aspects={name: options.recipe.aspects[name] for name in aspects}, **fields)


def build_with(
    options: BuildOptions, executor: Callable[[], Executor], progress: BuildProgress | None = None
) -> BuildResult:
    with progress or BuildProgress(quiet=True) as shown:
        build = Build(options, shown)
        build.prepare()
        return build.run(executor)


def committed(store: Path) -> dict[str, int]:
    """Every committed artifact and version, and when its manifest was written."""
    result = [*store.glob("artifacts/*/*/*/manifest.json"), *store.glob("releases/**/manifest.json")]
    return {str(path.relative_to(store)): path.stat().st_mtime_ns for path in result}


def evict_frames(store: Store) -> None:
    for manifest in list(store.manifests(FRAMES)):
        store.remove(FRAMES, manifest.id)


def with_captions(video: Path) -> tuple[Path, Path]:
    return video, video.with_suffix(".jsonl")


def add_to_vript(layout: Layout, video_id: str, video: Path) -> None:
    """Add a film and its captions to a data set in Vript's layout."""
    lines = [json.loads(line) for line in video.with_suffix(".jsonl").read_text().splitlines()]
    times = [{"start": line["start_s"], "end": line["end_s"]} for line in lines]
    layout.add(video_id, [line["caption"] for line in lines], times)
    layout.write(f"vript_long_videos/{video_id}.mp4", video.read_bytes())


def make_video(ffmpeg: str, path: Path, *arguments: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([ffmpeg, "-v", "error", "-y", *arguments, "-threads", "1", str(path)], check=True)
