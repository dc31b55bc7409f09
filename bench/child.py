"""The measured pieces of work, each run in its own process.

``python -m bench.child WORK ARGUMENT …`` runs one and prints a line of JSON; its `cpu_s` is the CPU time of
the work without starting Python and importing libraries.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

#: The aspects that need neither network nor diffusion.
SEVEN = (
    "aesthetics",
    "technical_quality",
    "appearance_style",
    "temporal_flow",
    "comprehensiveness",
    "spatial_relationship",
    "dynamics_degree",
)


def seven_recipe() -> Any:
    """Return the recipe `cpu-approx` with the seven aspects alone."""
    from tasks.recipe import load_recipe

    recipe = load_recipe("cpu-approx")
    return recipe.model_copy(update={"aspects": {name: recipe.aspects[name] for name in SEVEN}})


def warm_up() -> dict[str, Any]:
    """Import everything, so that Python has compiled it, and do nothing."""
    from tasks.captions.rules import RulesAnalyser

    for module in (
        "tasks.pairs.ingest",
        "tasks.publish.pair_videos",
        "flows.release.flow",
        "slvmeval.cli.main",
        "psutil",
    ):
        import_module(module)
    return {"analysed": len(RulesAnalyser().analyse(["A red boat lies on the beach."]))}


def ingest(video: str, store: str, content_sha256: str, threads: str) -> dict[str, Any]:
    """Store the frames of a film in a new store."""
    from storage_schemas.source import Source
    from storage_schemas.store import FRAMES, Store
    from tasks.pairs.ingest import ingest_source
    from tasks.recipe import load_recipe

    started, began = time.process_time(), time.monotonic()
    opened = Store.create(Path(store))
    source = Source(
        id="film", adapter="folder", title="film", video=video, content_sha256=content_sha256, clips=()
    )
    id_ = ingest_source(opened, source, load_recipe("cpu-approx"), threads=int(threads))
    manifest = opened.manifest(FRAMES, id_)
    return {
        "cpu_s": time.process_time() - started,
        "wall_s": time.monotonic() - began,
        "checksum": manifest.content_checksum,
        "frames": manifest.content["frames"],
        "decoder": manifest.provenance["decoder"],
        "fallback_reason": manifest.provenance["fallback_reason"],
    }


def build(store: str, folder: str) -> dict[str, Any]:
    """Build the seven aspects of a folder's films, in this process."""
    from flows.release.options import BuildOptions, SourceRoot
    from flows.release.run import Build
    from infra.executor import InlineExecutor
    from infra.progress import BuildProgress

    started = time.process_time()
    options = BuildOptions(store=store, sources=(SourceRoot(path=folder),), recipe=seven_recipe())
    with BuildProgress(quiet=True) as progress:
        build = Build(options, progress)
        build.prepare()
        result = build.run(InlineExecutor)
    return {
        "cpu_s": time.process_time() - started,
        "pairs": len(result.release.pairs()),
        "frames": sum(source.frame_count for source in result.release.sources()),
        "version": result.release.version,
        "new": result.new,
    }


def materialise(store: str, pair_id: str, folder: str) -> dict[str, Any]:
    """Write the low side of a pair, given the source's encoded video."""
    from storage_schemas.release import Release
    from storage_schemas.store import Store
    from tasks.publish.pair_videos import encode_source, materialise_pair

    opened = Store.open(Path(store))
    release = Release.open(opened)
    record = release.pair(pair_id)
    clips = release.clips(record.source_id)
    encode_source(opened, record.frames_id, record.high_frames, clips, record.fps)
    started = time.process_time()
    paths = materialise_pair(opened, record, clips, Path(folder), sides=("low",))
    return {
        "cpu_s": time.process_time() - started,
        "aspect": record.aspect,
        "frames": record.low_frames,
        "bytes": paths["low"].stat().st_size,
    }


def encode_whole(store: str, pair_id: str, folder: str) -> dict[str, Any]:
    """Encode every frame of the low side of a pair, with the same encoder and settings."""
    from storage_schemas.release import Release
    from storage_schemas.store import Store
    from tasks.media.encode import encode_units
    from tasks.pairs.view import open_record

    release = Release.open(Store.open(Path(store)))
    record = release.pair(pair_id)
    path = Path(folder) / "whole.mp4"
    path.parent.mkdir(parents=True, exist_ok=True)
    started = time.process_time()
    low = open_record(release.store, record, "").low
    frames = encode_units(path, [low], low.width, low.height, low.color, low.fps)
    return {
        "cpu_s": time.process_time() - started,
        "aspect": record.aspect,
        "frames": frames,
        "bytes": path.stat().st_size,
    }


def orchestrate(way: str, store: str, folder: str, workers: str) -> dict[str, Any]:
    """Build the seven aspects through the flow, or in processes, and time everything after the start-up."""
    import psutil

    from flows.release import run
    from flows.release.options import BuildOptions, SourceRoot
    from infra.executor import ProcessExecutor
    from infra.progress import BuildProgress

    here = psutil.Process()
    marks: dict[str, tuple[float, dict[str, float]]] = {}

    def mark(name: str) -> None:
        if name in marks:
            return
        ended = here.cpu_times()
        cpu_s = {"ended": ended.children_user + ended.children_system}
        for process in [here, *here.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):  # it has just ended
                times, words = process.cpu_times(), " ".join(process.cmdline())
                role = "server" if "prefect.server" in words else "workers"
                role = "flow" if process == here else role
                cpu_s[role] = cpu_s.get(role, 0.0) + times.user + times.system
        marks[name] = time.monotonic(), cpu_s

    write_release = run.write_release

    def write_and_mark(*arguments: Any, **options: Any) -> Any:
        written = write_release(*arguments, **options)
        mark("end")
        return written

    def mark_start(executor: Any, warm: Callable[[Any], None]) -> None:
        enter = executor.__enter__

        def enter_and_mark(self: Any) -> Any:
            entered = enter(self)
            warm(entered)
            mark("begin")
            return entered

        executor.__enter__ = enter_and_mark

    run.write_release = write_and_mark
    options = BuildOptions(store=store, sources=(SourceRoot(path=folder),), recipe=seven_recipe())
    started = time.monotonic()
    if way == "flow":
        from infra.prefect_server import prefect_environment
        from infra.profile import Profile

        prefect_environment()
        from flows.command_runs import run_flow
        from flows.prefect_executor import PrefectExecutor
        from flows.release.flow import BUILD

        # the workers have imported the stages once the cluster is ready
        mark_start(PrefectExecutor, lambda _: None)
        result = run_flow(BUILD, options, Profile(workers=int(workers)), quiet=True)
    else:
        mark_start(ProcessExecutor, _import_stages)
        with BuildProgress(quiet=True) as progress:
            build = run.Build(options, progress)
            build.prepare()
            result = build.run(lambda: ProcessExecutor(int(workers)))
    return {
        "work_wall_s": marks["end"][0] - marks["begin"][0],
        "work_cpu_s": sum(marks["end"][1].values()) - sum(marks["begin"][1].values()),
        "work_cpu_by_process": {
            role: round(cpu_s - marks["begin"][1].get(role, 0.0), 2)
            for role, cpu_s in marks["end"][1].items()
        },
        "wall_s": time.monotonic() - started,
        "pairs": len(result.release.pairs()),
        "low_checksums": sorted(record.low_checksum for record in result.release.pairs()),
    }


def _import_stages(executor: Any) -> None:
    """Start every process of a pool and import the stages, as in the cluster's workers."""
    left = {executor.submit("import", "cpu", _imported) for _ in range(executor.workers)}
    while left:
        left -= executor.wait_any(left)


def _imported() -> None:
    import_module("tasks.pairs.stages")
    time.sleep(1.0)  # so that no process gets two of these calls


WORKS: dict[str, Callable[..., dict[str, Any]]] = {
    work.__name__: work for work in (warm_up, ingest, build, materialise, encode_whole, orchestrate)
}

if __name__ == "__main__":
    print(json.dumps(WORKS[sys.argv[1]](*sys.argv[2:])))
