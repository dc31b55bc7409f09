"""The cost of each command, and its growth with the number of sources.

``python -m bench.growth`` builds releases of small videos, one store for each size, runs every command on
them, and prints a table. ``--sizes 100 1000 4000`` sets the sizes, ``--folder DIR`` the folder of videos,
stores and measurements. A measured step is stored there as JSON and not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench.films import run_ffmpeg
from bench.measuring import ROOT, ProcessUsage, run
from storage_schemas.commit import write_atomic
from tasks.recipe import BUILT_IN, Recipe

SIZES = (100, 1000)
CLIPS = 14
CAPTION = (
    "A red ball rolls quickly across the floor on the left of the frame, number {n} of film {film}. A blue "
    "box stands on the right. In the background there is a green meadow."
)
#: One aspect with new pixels, one with fewer clips, one with moved clips.
ASPECTS = ("aesthetics", "comprehensiveness", "temporal_flow")

#: Commands run on a store, in this order.
STEPS = (
    "scan",
    "plan",
    "build",
    "nothing new",
    "nothing new, direct",
    "one new source",
    "status",
    "pairs",
    "verify",
    "gallery",
    "export",
)


def growth_recipe() -> Recipe:
    """Return a recipe of three aspects without models, which accepts every source."""
    base = BUILT_IN["cpu-approx"]
    return base.model_copy(
        update={
            "name": "growth",
            "long_side": 64,
            "clips_per_pair": 2,
            "least_duration_s": 1.0,
            "pairs_per_bin": 1_000_000,
            "aspects": {name: base.aspects[name] for name in ASPECTS},
        }
    )


def add_film(base: bytes, folder: Path, number: int) -> None:
    """Write a film with captions: the same frames as all others, but a different file and captions."""
    # a box that players ignore
    text = f"film {number}".encode()
    box = struct.pack(">I4s", 8 + len(text), b"free") + text
    (folder / f"film{number:05}.mp4").write_bytes(base + box)
    lines = [
        {"start_s": n, "end_s": n + 1, "caption": CAPTION.format(n=n, film=number)} for n in range(CLIPS)
    ]
    captions = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / f"film{number:05}.jsonl").write_text(captions, encoding="utf-8")


def base_film(folder: Path) -> bytes:
    """Return a film of 14 s and 64×36 pixels, created once."""
    path = folder / "film.mp4"
    if not path.is_file():
        picture = f"testsrc2=size=64x36:rate=5:duration={CLIPS}"
        run_ffmpeg("-f", "lavfi", "-i", picture, "-c:v", "libx264", "-g", "5", "-pix_fmt", "yuv420p", path)
    return path.read_bytes()


def measure(sources: int, folder: Path, keep: bool = False) -> dict[str, Any]:
    """Run every step with a number of sources; return the usage of each, and the files of the store."""
    root, kept = folder / str(sources), folder / f"{sources}.json"
    measured = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {"sources": sources}
    steps = measured.setdefault("steps", {})
    if len(steps) == len(STEPS):
        return measured
    videos, store = root / "videos", root / "store"
    base = base_film(folder)
    if not steps:
        _lay_out(root, videos, base, sources)
    recipe = root / "recipe.json"

    def slvmeval(*words: str | Path) -> ProcessUsage:
        return run([sys.executable, "-m", "slvmeval", *words], {"PREFECT_HOME": str(root / "prefect")})

    to_build = ["--sources", videos, "--store", store, "--recipe", recipe]
    of_store = ["main", "--store", store]

    def one_new() -> ProcessUsage:
        add_film(base, videos, sources)
        return slvmeval("build", "--direct", "--quiet", "--workers", "1", *to_build)

    works: dict[str, Callable[[], ProcessUsage]] = {
        "scan": lambda: slvmeval("sources", "scan", "--format", "json", videos),
        "plan": lambda: slvmeval("build", "--dry-run", "--format", "json", *to_build),
        "build": lambda: slvmeval("build", "--direct", "--quiet", "--workers", "2", *to_build),
        "nothing new": lambda: slvmeval("build", "--quiet", *to_build),
        "nothing new, direct": lambda: slvmeval("build", "--direct", "--quiet", "--workers", "1", *to_build),
        "one new source": one_new,
        "status": lambda: slvmeval("status", "--format", "json", "--store", store),
        "pairs": lambda: slvmeval("pairs", "--format", "json", *of_store),
        "verify": lambda: slvmeval("verify", "--quiet", *of_store),
        "gallery": lambda: slvmeval("gallery", "--quiet", "--out", root / "gallery", *of_store),
        "export": lambda: slvmeval("export", "--private", "--quiet", "--out", root / "export", *of_store),
    }
    for name in STEPS:
        if name in steps:
            continue
        usage = works[name]()
        steps[name] = asdict(usage) | {"output": {}}
        if name == "build":
            sizes = [
                os.lstat(Path(root) / file).st_size for root, _, files in os.walk(store) for file in files
            ]
            measured |= {"files": len(sizes), "bytes": sum(sizes)}
        write_atomic(kept, json.dumps(measured, indent=1).encode())
        print(f"{sources} {name}: {usage.cpu_s:.2f} CPU s, {usage.peak_mb:.0f} MB", file=sys.stderr)
    if not keep:
        shutil.rmtree(root)
    return measured


def _lay_out(folder: Path, videos: Path, base: bytes, sources: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    videos.mkdir(parents=True)
    for number in range(sources):
        add_film(base, videos, number)
    for film in videos.glob("*.mp4"):
        # checksums of files that have just changed are not cached
        os.utime(film, (1_700_000_000, 1_700_000_000))
    (folder / "recipe.json").write_text(growth_recipe().model_dump_json(), encoding="utf-8")


def _used(size: dict[str, Any], step: str, key: str) -> float:
    return float(size["steps"][step][key])


def _exponent(sizes: Sequence[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> str:
    """Return the exponent k of growth ~ n^k between the last two sizes."""
    few, many = sizes[-2:]
    return f"{math.log(value(many) / value(few)) / math.log(many['sources'] / few['sources']):.2f}"


def table(sizes: Sequence[dict[str, Any]]) -> str:
    """Return the table in Markdown: CPU and wall seconds and memory by size, and the growth of both."""
    numbers = [f"{size['sources']:,}" for size in sizes]
    rows = [["step", *(f"{n} sources" for n in numbers), "exponent: CPU", "memory"]]
    rows.append(["---"] * len(rows[0]))
    for step in STEPS:
        cells = [
            f"{used['cpu_s']:.1f} s, {used['wall_s']:.1f} s, {used['peak_mb']:.0f} MB"
            for used in (size["steps"][step] for size in sizes)
        ]
        growth = ["–", "–"]
        if len(sizes) > 1:
            growth = [_exponent(sizes, partial(_used, step=step, key=key)) for key in ("cpu_s", "peak_mb")]
        rows.append([step, *cells, *growth])
    cells = [f"{size['files']:,}, {size['bytes'] / 1e6:.0f} MB" for size in sizes]
    growth = [_exponent(sizes, lambda size: size["files"]) if len(sizes) > 1 else "–"]
    rows.append(["files in the store", *cells, *growth, ""])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    """Measure the missing sizes, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench" / "growth")
    parser.add_argument("--keep", action="store_true", help="keep videos and stores, to profile")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    folder = given.folder.resolve()
    print(table([measure(sources, folder, given.keep) for sources in sorted(given.sizes)]))


if __name__ == "__main__":
    main()
