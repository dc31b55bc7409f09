"""Build while calls on the store fail with ESTALE or EIO at random: ``python -m bench.faults.stale``.

Each build is restarted until it ends without a row that the next build would retry, then compared with an
undisturbed one: nothing may be lost, different or damaged, or have other pixels.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from bench.faults.outcome import checksums
from bench.films import FFMPEG
from storage_schemas.away import is_away
from storage_schemas.errors import SlvmevalError
from storage_schemas.release import Release
from storage_schemas.store import Store
from storage_schemas.store_check import check_path, checked_paths
from tests.small_films import caption_lines, make_film, recipe_without_weights, write_captions

LIBRARY = Path(__file__).with_name("stale.c")
#: Maximum number of starts of a build.
MAX_STARTS = 30
#: Outcomes of a build's process: done, to be restarted, or an error that is not one of our messages.
DONE, AGAIN, BROKEN = 0, 3, 4


def compile_library(folder: Path) -> Path:
    """Compile the library that makes calls fail; return its path.

    Raises
    ------
    subprocess.CalledProcessError
        If the compiler fails.
    """
    library = folder / "stale.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(LIBRARY), "-ldl"], check=True)
    return library


def variables(library: Path, below: Path, one_in: int, switch: Path, count: Path) -> dict[str, str]:
    """Return the environment in which calls on files below a folder fail while the file `switch` exists."""
    return {
        "LD_PRELOAD": str(library),
        "STALE_BELOW": str(below),
        "STALE_ONE_IN": str(one_in),
        "STALE_WHILE": str(switch),
        "STALE_COUNT": str(count),
    }


def _build_once(videos: Path, store: Path, log: Path) -> int:
    """Build in a separate process, so that it shares nothing with others; return the outcome."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = BROKEN
    try:
        with log.open("a") as file, redirect_stderr(file):
            code = _built(videos, store)
    finally:
        os._exit(code)


def _built(videos: Path, store: Path) -> int:
    from flows.release.options import BuildOptions, SourceRoot
    from tests.inline import build_inline

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    options = BuildOptions(
        store=str(store),
        sources=(SourceRoot(path=str(videos)),),
        recipe=recipe_without_weights(),
        store_wait_s=60.0,
    )
    try:
        result = build_inline(options)
    except Exception as problem:  # noqa: BLE001 - distinguishes messages for users from other errors
        traceback.print_exc()
        return AGAIN if isinstance(problem, SlvmevalError) or is_away(problem) else BROKEN
    transient = [row for row in result.set_aside if row.transient]
    for row in transient:
        print(f"set aside: {row.reason} {row.message}", file=sys.stderr)
    return AGAIN if transient else DONE


def _compared(store: Path, wanted: Store) -> dict[str, int]:
    """Return how many artifacts are lost, differ, or are damaged after a build."""
    built = Store.open(store)
    kept, made = checksums(wanted), checksums(built)
    damage = [one for path in checked_paths(built) for one in check_path(built, path)]
    for one in damage:
        print(f"  damaged: {one.path}: {one.problem}")
    same = Release.open(built, "main").manifest.content_checksum
    return {
        "lost": len(kept.keys() - made.keys()),
        "differing": sum(made[name] != kept[name] for name in kept.keys() & made.keys())
        + (same != Release.open(wanted, "main").manifest.content_checksum),
        "damaged": len(damage),
    }


def _run(folder: Path, builds: int, films: int) -> int:
    """Run builds with faults, record each, and return 1 if one lost, changed or damaged anything."""
    import tests.inline  # noqa: F401 - imported once here rather than in each build's process

    videos, switch, count = folder / "videos", folder / "switch", folder / "count"
    videos.mkdir()
    for number in range(1, films + 1):
        make_film(FFMPEG, videos / f"film{number}.mp4", number)
        write_captions(videos / f"film{number}.jsonl", caption_lines())
    undisturbed = folder / "undisturbed"
    if _build_once(videos, undisturbed, folder / "log") != DONE:
        print((folder / "log").read_text())
        return 1
    totals: Counter[str] = Counter()
    for number in range(1, builds + 1):
        store, log = folder / "stores" / "store", folder / "log"
        shutil.rmtree(store.parent, ignore_errors=True)
        for left in (log, count):
            left.unlink(missing_ok=True)
        store.parent.mkdir()
        began, starts, code = time.monotonic(), 0, AGAIN
        while code == AGAIN and starts < MAX_STARTS:
            switch.touch()
            code = _build_once(videos, store, log)
            switch.unlink()
            starts += 1
        failed = count.stat().st_size if count.exists() else 0
        found = {
            "broken": int(code != DONE),
            **(_compared(store, Store.open(undisturbed)) if not code else {}),
        }
        record: Mapping[str, Any] = {
            "build": number,
            "starts": starts,
            "failed_calls": failed,
            **found,
            "seconds": round(time.monotonic() - began, 1),
        }
        print(json.dumps(record), flush=True)
        totals.update({"builds": 1, "starts": starts, "failed_calls": failed, **found})
        if any(found.values()) or starts > 1:
            print(log.read_text())
    print(json.dumps(dict(totals)))
    return int(any(totals[name] for name in ("broken", "lost", "differing", "damaged")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the builds."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults.stale", description=__doc__)
    parser.add_argument("--builds", type=int, default=20, help="number of builds (default 20)")
    parser.add_argument("--films", type=int, default=2, help="number of films per build (default 2)")
    parser.add_argument("--one-in", type=int, default=400, help="one call in N fails (default 400)")
    chosen = parser.parse_args(arguments)
    inside = os.environ.get("STALE_WHILE")
    if inside is not None:
        return _run(Path(inside).parent, chosen.builds, chosen.films)
    with tempfile.TemporaryDirectory(prefix="stale-") as name:
        folder = Path(name)
        given = variables(
            compile_library(folder), folder / "stores", chosen.one_in, folder / "switch", folder / "count"
        )
        command = [
            sys.executable,
            "-m",
            "bench.faults.stale",
            *(sys.argv[1:] if arguments is None else arguments),
        ]
        return subprocess.run(command, env={**os.environ, **given}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
