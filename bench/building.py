"""Figures of the build: CPU compared with ingest and with a plain script, bytes, and repeated builds."""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from bench.measuring import ProcessUsage, child, compare, run
from bench.media import ingested
from bench.report import BenchFigure
from bench.settings import Settings
from storage_schemas.pair import PairRecord
from storage_schemas.release import CLIP_FILE, Release
from storage_schemas.store import DEGRADED_CLIP, Store
from tasks.aspects.base import PixelOperation
from tasks.aspects.registry import aspect as find_aspect
from tasks.pairs.view import open_record
from tests.frame_arrays import write_frames

SEVEN = "the seven aspects that need neither network nor diffusion"


def _built(settings: Settings, folder: Path) -> ProcessUsage:
    with settings.scratch() as scratch:
        return child("build", scratch / "store", folder)


def seven_release(settings: Settings) -> Release:
    """Return the release of the film's seven aspects, building it if necessary."""
    store = settings.work / "seven-store"
    child("build", store, settings.films.whole())
    return Release.open(Store.open(store))


def pixel_pairs(release: Release) -> list[PairRecord]:
    """Return the pairs with new frames."""
    return [
        record
        for record in release.pairs()
        if isinstance(find_aspect(record.aspect).operation(record.operation), PixelOperation)
    ]


def build7_over_ingest(settings: Settings) -> BenchFigure:
    """CPU of the whole build of seven aspects, divided by that of ingest alone."""
    folder = settings.films.whole()
    compared = compare(
        lambda: _built(settings, folder),
        lambda: ingested(settings, settings.films.bunny),
        settings.times(3),
    )
    output = compared.runs[0]["numerator"]["output"]
    inner = [
        run["numerator"]["output"]["cpu_s"] / run["denominator"]["output"]["cpu_s"] for run in compared.runs
    ]
    return BenchFigure(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "CPU s",
        f"a process that builds a release of {SEVEN} into a new store over one that only ingests the film",
        [settings.films.bunny.name],
        {"pairs": output["pairs"], "ratio_without_start": round(statistics.median(inner), 4)},
        compared.runs,
    )


def _edits(release: Release) -> dict[str, Any]:
    """Return the pairs' edit lists in the plain script's format."""
    aspects = {}
    for record in release.pairs():
        aspects[record.aspect] = {
            "segments": [[s.first_frame, s.frame_count, s.kind == "degraded"] for s in record.segments],
            "style": next((choice["style"] for choice in record.choices.values() if "style" in choice), ""),
        }
    source = release.sources()[0]
    return {"size": [source.width, source.height], "aspects": aspects}


def build7_over_script(settings: Settings) -> BenchFigure:
    """CPU of the build of seven aspects, divided by that of a plain script that makes the same videos."""
    release = seven_release(settings)
    folder = settings.films.whole()
    edits = settings.work / "edits.json"
    edits.write_text(json.dumps(_edits(release)), encoding="utf-8")

    def scripted() -> ProcessUsage:
        script = [sys.executable, "-m", "bench.plain_script"]
        with settings.scratch() as scratch:
            return run([*script, settings.films.bunny, edits, scratch])

    compared = compare(lambda: _built(settings, folder), scripted, settings.times(1))
    videos_cpu_s = 0.0
    for record in release.pairs():
        with settings.scratch() as scratch:
            videos_cpu_s += child("materialise", release.store.root, record.pair_id, scratch).output["cpu_s"]
    return BenchFigure(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "CPU s",
        f"a process that builds a release of {SEVEN} over bench/plain_script.py, which makes the same "
        "seven videos one by one with ffmpeg and OpenCV",
        [settings.films.bunny.name],
        {
            "aspects": len(release.pairs()),
            "materialising_the_seven_cpu_s": round(videos_cpu_s, 3),
            "ratio_with_materialising": round((compared.numerator + videos_cpu_s) / compared.denominator, 4),
        },
        compared.runs,
    )


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def degraded_bytes(settings: Settings) -> BenchFigure:
    """Bytes of degraded clips relative to full copies, divided by the share of changed frames."""
    release = seven_release(settings)
    store = release.store
    details: dict[str, Any] = {}
    stored = copies = changed = frames = 0
    for record in pixel_pairs(release):
        low = open_record(store, record, "").low
        with settings.scratch() as scratch:
            write_frames(scratch / "copy", low, [float(time) for time in low.times_s], low.color)
            copy = _bytes(scratch / "copy")
        clips = [segment for segment in record.segments if segment.degraded_clip is not None]
        paths = [store.artifact_path(DEGRADED_CLIP, str(clip.degraded_clip)) for clip in clips]
        own = sum((path / CLIP_FILE).stat().st_size for path in paths)
        new = sum(clip.frame_count for clip in clips)
        details[record.aspect] = {
            "bytes": own,
            "bytes_with_manifests": sum(map(_bytes, paths)),
            "full_copy_bytes": copy,
            "frames_changed": new,
            "frames": record.low_frames,
            "ratio": round(own / copy / (new / record.low_frames), 4),
        }
        stored, copies = stored + own, copies + copy
        changed, frames = changed + new, frames + record.low_frames
    return BenchFigure(
        stored / copies / (changed / frames),
        stored / 1e6,
        copies / 1e6,
        "MB",
        "bytes of the degraded clips over those of full copies of the low-quality videos in the same coding, "
        "divided by the share of frames that changed; the pairs that have pixels of their own",
        [settings.films.bunny.name],
        {"share_changed": round(changed / frames, 5), **details},
    )


def _command_line_build(store: Path, folder: Path, model_folder: Path) -> ProcessUsage:
    command = [sys.executable, "-m", "slvmeval", "build", "--direct", "--quiet", "--sources", folder]
    return run([*command, "--store", store, "--model-folder", model_folder, "--workers", "2"])


def rebuild_over_build(settings: Settings) -> BenchFigure:
    """CPU of a second build with nothing new, divided by that of the first; all ten aspects, command line."""
    folder = settings.films.whole()
    model_folder = settings.films.model_folder
    ratios, walls, runs = [], [], []
    for _ in range(settings.times(1)):
        with settings.scratch() as scratch:
            first = _command_line_build(scratch / "store", folder, model_folder)
            again = [_command_line_build(scratch / "store", folder, model_folder) for _ in range(3)]
        ratios.append(statistics.median(usage.cpu_s for usage in again) / first.cpu_s)
        walls.append(statistics.median(usage.wall_s for usage in again) / first.wall_s)
        runs.append({"first": vars(first), "again": [vars(usage) for usage in again]})
    return BenchFigure(
        statistics.median(ratios),
        statistics.median(usage["cpu_s"] for usage in runs[0]["again"]),
        runs[0]["first"]["cpu_s"],
        "CPU s",
        "`slvmeval build --direct --sources FOLDER --store STORE` (recipe cpu-approx, all ten aspects) run "
        "again over its first run; the median of three",
        [settings.films.bunny.name],
        {"ratio_of_wall_times": round(statistics.median(walls), 4)},
        runs,
    )


def one_new_over_alone(settings: Settings) -> BenchFigure:
    """CPU of a build with one new source among four, divided by that of building it alone."""
    films = settings.films
    starts = (0.0, 130.0, 260.0)
    seconds = 190.0

    def among() -> ProcessUsage:
        with settings.scratch() as scratch:
            folder = films.parts("among", starts, seconds)
            child("build", scratch / "store", folder)
            new = films.parts("new", (390.0,), seconds)
            for file in new.iterdir():
                os.link(file, folder / file.name)
            usage = child("build", scratch / "store", folder)
        if usage.output["version"] != 2:
            raise RuntimeError("the new source made no new version")
        return usage

    def alone() -> ProcessUsage:
        return _built(settings, films.parts("alone", (390.0,), seconds))

    compared = compare(among, alone, settings.times(3))
    return BenchFigure(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "CPU s",
        f"a build ({SEVEN}) into a store that has three sources and gets a fourth, over a build of "
        "the fourth alone into a new store",
        [f"parts of {films.bunny.name}, {seconds:g} s each"],
        {
            "pairs_among": compared.runs[0]["numerator"]["output"]["pairs"],
            "pairs_alone": compared.runs[0]["denominator"]["output"]["pairs"],
        },
        compared.runs,
    )
