"""Cost of an hour of film in CPU and bytes, by aspect: ``python -m bench.recipe_costs``.

Each aspect of the recipe `cpu-approx` is built alone, by the command that users run, into a store that
already has the frames and the analysis. The cost of an aspect is the CPU of that command minus that of the
command for a pair without new pixels. The costs of a release of the paper's size follow from these. Writes
``docs/results/costs.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from bench.films import Films
from bench.measuring import ROOT, ProcessUsage, run
from slvmeval.demo.fetch import read_captions
from storage_schemas.commit import write_atomic
from storage_schemas.release import Release
from storage_schemas.store import ANALYSIS, DEGRADED_CLIP, FRAMES, PAIR, Store
from tasks.aspects.registry import BUILT_IN as ASPECTS
from tasks.recipe import load_recipe

FILM_S = 596.458

#: The paper: initial samples per aspect, videos, their mean seconds; frames of five clips of ten seconds.
PAPER_PAIRS = {
    "aesthetics": 446,
    "technical_quality": 446,
    "appearance_style": 446,
    "background_consistency": 446,
    "temporal_flow": 444,
    "comprehensiveness": 430,
    "object_integrity": 375,
    "spatial_relationship": 435,
    "dynamics_degree": 444,
    "color": 327,
}
#: Two aspects without new pixels: one is built with the film, one when the film exists. The second measures
#: starting the program, and drawing, writing and verifying a pair.
WITH_FILM, WITHOUT_PIXELS = "comprehensiveness", "temporal_flow"
PAPER_SOURCES, PAPER_SECONDS, PAPER_FRAMES = 1461, 1141, 50


@dataclass(frozen=True)
class AspectCost:
    """Cost of one pair of an aspect: CPU seconds, changed frames, and bytes of its artifacts."""

    cpu_s: float
    frames: int
    bytes: int


@dataclass(frozen=True)
class Costs:
    """Measured costs: of the film itself (frames and analysis), and of a pair of each aspect."""

    times: int
    seconds: float
    film_cpu_s: float
    film_bytes: int
    start_cpu_s: float
    aspects: dict[str, AspectCost]


def hour_folder(films: Films, times: int) -> Path:
    """Return a folder of sources with the film several times in a row, without re-encoding."""
    folder = films.folder("hour")
    shutil.copyfile(films.repeated(times), folder / "hour.mp4")
    lines = [json.loads(line) for line in read_captions("big_buck_bunny.jsonl").splitlines()]
    text = ""
    for turn in range(times):
        for line in lines:
            moved = {key: round(line[key] + turn * FILM_S, 3) for key in ("start_s", "end_s")}
            text += json.dumps({**line, **moved}) + "\n"
    (folder / "hour.jsonl").write_text(text, encoding="utf-8")
    return folder


def build(films: Films, sources: Path, store: Path, aspect: str) -> ProcessUsage:
    """Build one aspect as a separate release."""
    recipe = store.parent / f"{aspect}.json"
    chosen = load_recipe("cpu-approx").aspects[aspect].model_dump(mode="json")
    fields = {"base": "cpu-approx", "name": aspect, "aspects": {aspect: chosen}}
    recipe.write_text(json.dumps(fields), encoding="utf-8")
    site = ["--store", store, "--model-folder", films.model_folder, "--workers", "1", "--direct", "--quiet"]
    words = ["build", aspect, "-s", sources, "--recipe", recipe, *site]
    return run([sys.executable, "-m", "slvmeval", *words])


def measure(films: Films, work: Path, times: int) -> Costs:
    """Build the hour, first an aspect without new pixels, then the others."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    sources, store_path = hour_folder(films, times), work / "store"
    first = build(films, sources, store_path, WITH_FILM)
    start = build(films, sources, store_path, WITHOUT_PIXELS).cpu_s
    store = Store.open(store_path)
    aspects = {}
    for aspect in ASPECTS:
        print(f"{aspect} …", file=sys.stderr, flush=True)
        built_already = aspect in (WITH_FILM, WITHOUT_PIXELS)
        cpu_s = 0.0 if built_already else build(films, sources, store_path, aspect).cpu_s - start
        release = Release.open(store, aspect)
        (record,) = release.pairs()
        changed = [segment for segment in record.segments if segment.kind == "degraded"]
        sizes = _bytes(store.artifact_path(PAIR, record.pair_id))
        sizes += sum(
            _bytes(store.artifact_path(DEGRADED_CLIP, one.degraded_clip))
            for one in changed
            if one.degraded_clip is not None
        )
        frames = sum(one.frame_count for one in changed)
        aspects[aspect] = AspectCost(max(0.0, cpu_s), frames, sizes)
    film_bytes = sum(_bytes(store_path / "artifacts" / kind) for kind in (FRAMES, ANALYSIS))
    return Costs(times, times * FILM_S, first.cpu_s - start, film_bytes, start, aspects)


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


PAGE = """# What a recipe costs

`python -m bench.recipe_costs --times {given}` measured this on {machine}, with *Big Buck Bunny*, {times}
(596 s, 1280×720, 24 fps, H.264). CPU is user and system time of `slvmeval build --direct` with one aspect,
less {start:.1f} s for a pair without new pixels (starting, drawing, writing, verifying); aspects without new
pixels therefore show 0. Each command ran once: differences of tenths of a second are noise.

| once for the film | CPU | bytes |
|---|---|---|
| frames (1 fps, 512 px), captions by rules | {film_cpu:.0f} s, {film_share:.3f} × film | {film_mb:.0f} MB |
| an hour of film, in proportion | {hour_cpu:.0f} s | {hour_mb:.0f} MB |

A pair has five degraded clips, so its cost does not depend on the film's length:

| aspect (recipe `cpu-approx`) | changed frames | CPU s a pair | CPU ms a frame | MB a pair |
|---|---|---|---|---|
{aspects}
## A release of the paper's size

The paper drew {pairs:,} pairs from {sources:,} videos of {mean:,} s on average. Five clips are taken as
{frames} frames at 1 fps (10 s a clip, as here; Vript's were not measured).

- Film: {sources:,} × {mean:,} s × {film_share:.3f} = **{all_film:.0f} CPU hours** and {film_tb:.2f} TB of
  frames, which can be evicted and rebuilt; plus {start:.1f} s a pair if each is its own command.
- Pairs of `cpu-approx`, of {frames} frames each: **{all_pairs:.0f} CPU hours**, most for {largest};
  {all_gb:.0f} GB.

`object_integrity` and `color` are the classical operations. The paper's models would take an estimated 2 to
4 and 70 to 115 GPU hours on an H100: computed from the models' operations, never measured.
`background_consistency` has the small U²-Net; the large one takes about 2.6 times as long.
"""


def page(costs: Costs) -> str:
    """Return the page."""
    film_share, rows = costs.film_cpu_s / costs.seconds, ""
    by_hours: list[tuple[float, str]] = []
    all_pairs = all_gb = 0.0
    for name, one in costs.aspects.items():
        ms = 1000 * one.cpu_s / one.frames if one.frames else 0.0
        kb = one.bytes / 1000 / one.frames if one.frames else 0.0
        rows += f"| {name} | {one.frames} | {one.cpu_s:.1f} | {ms:.0f} | {one.bytes / 1e6:.2f} |\n"
        count = PAPER_PAIRS[name]
        hours, gb = count * PAPER_FRAMES * ms / 3.6e6, count * PAPER_FRAMES * kb / 1e6
        # a pair without new frames is an edit list
        gb = gb if one.frames else count * one.bytes / 1e9
        all_pairs, all_gb = all_pairs + hours, all_gb + gb
        by_hours.append((hours, name))
    whole = PAPER_SOURCES * PAPER_SECONDS
    return PAGE.format(
        machine=f"{os.cpu_count()} cores of {platform.machine()}, with other work running",
        seconds=costs.seconds,
        times="once" if costs.times == 1 else f"{costs.times} times in a row",
        given=costs.times,
        start=costs.start_cpu_s,
        film_cpu=costs.film_cpu_s,
        film_share=film_share,
        hour_cpu=3600 * film_share,
        hour_mb=3600 * costs.film_bytes / costs.seconds / 1e6,
        film_mb=costs.film_bytes / 1e6,
        aspects=rows,
        pairs=sum(PAPER_PAIRS.values()),
        sources=PAPER_SOURCES,
        mean=PAPER_SECONDS,
        frames=PAPER_FRAMES,
        all_film=whole * film_share / 3600,
        film_tb=whole * costs.film_bytes / costs.seconds / 1e12,
        largest=" and ".join(f"`{name}` ({hours:.2f})" for hours, name in sorted(by_hours, reverse=True)[:2]),
        all_pairs=all_pairs,
        all_gb=all_gb,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.recipe_costs", description=__doc__)
    parser.add_argument("--films", type=Path, help="folder with the films and u2netp.onnx")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "costs", help="working folder")
    parser.add_argument("--times", type=int, default=6, help="repetitions of the film; 6 make an hour")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument(
        "--written", action="store_true", help="only write the page, from existing measurements"
    )
    chosen = parser.parse_args(arguments)
    folder = chosen.folder.resolve()
    chosen.out.mkdir(parents=True, exist_ok=True)
    measured = folder / "costs.json"
    if not chosen.written:
        films = Films.find(chosen.films, folder / "films", ROOT / "build" / "demo")
        costs = measure(films, folder / "work", chosen.times)
        write_atomic(measured, json.dumps(asdict(costs), indent=1).encode())
    costs = TypeAdapter(Costs).validate_json(measured.read_bytes())
    write_atomic(chosen.out / "costs.md", page(costs).encode())
    print(chosen.out / "costs.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
