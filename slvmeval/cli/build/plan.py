"""``slvmeval plan``: what a build would make and take, before it starts."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slvmeval.cli import terminal

if TYPE_CHECKING:
    from flows.build.run import Build


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Build")(plan)


def plan(
    sources: terminal.SourcesOption = None,
    recipe: terminal.RecipeOption = "cpu-approx",
    changes: terminal.SetOption = None,
    fresh: bool = typer.Option(False, "--fresh", help="Extend no older version."),
    retry: bool = typer.Option(False, "--retry", help="As if what failed were tried again."),
    store: terminal.StoreOption = None,
    model_folders: terminal.ModelFoldersOption = None,
    profile: terminal.ProfileOption = None,
    settle: terminal.SettleOption = None,
    release: terminal.ReleaseOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Say what a build would make, and what it takes: pairs, frames, bytes, GPU hours. No pixel is read.

    Takes the options of `build`. Where the store does not exist yet it is not made, unless captions are
    analysed by a server: what it answers is kept there.

    Example: `slvmeval plan --sources folder:VIDEOS --store STORE`
    """
    from flows.build.options import BuildParameters
    from tasks.captions.stage import make_analyser

    site = terminal.settings(
        profile, store=store, model_folders=model_folders, settle_s=settle, release=release
    )
    terminal.need_sources(sources, site)
    options = BuildParameters(
        sources=tuple(sources or ()),
        recipe=recipe,
        changes=tuple(changes or ()),
        fresh=fresh,
        retry=retry,
    ).options(site)
    with ExitStack() as stack:
        place = Path(options.store)
        if not (place.exists() or make_analyser(options.recipe.caption_analysis).asks_server):
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="slvmeval-plan-"))
            options = options.model_copy(update={"store": scratch})
        from flows.build.run import Build
        from infra.executor import InlineExecutor
        from infra.progress import BuildProgress

        progress = stack.enter_context(BuildProgress(quiet=as_json))
        build = Build(options, progress)
        build.prepare()
        build.inspect(InlineExecutor)
        found = plan_values(build)
    found["store"] = str(place)
    found["bytes"]["free"] = shutil.disk_usage(_existing(place)).free
    if as_json:
        terminal.print_json(found)
    else:
        _print(found)


def plan_values(build: Build) -> dict[str, Any]:
    """Return the plan of a build whose sources are all inspected, JSON-able."""
    from slvmeval.cli.runs import whole_sources
    from tasks.aspects.speeds import GpuWork, gpu_hours

    release_plan = build.plan()
    aspects: dict[str, dict[str, Any]] = {
        name: {
            "planned": 0,
            "missing": 0,
            "frames_to_degrade": release_plan.frames_to_degrade.get(name, 0),
            "not_drawn": release_plan.not_drawn.get(name, 0),
            "no_pair": {},
        }
        for name in build.recipe.aspects
    }
    gpu_work: list[GpuWork] = []
    parameters = {
        (name, build.recipe.strength_label(name, point.strength)): build.recipe.parameters(
            name, point.strength
        )
        for name in build.recipe.aspects
        for point in build.recipe.points(name)
    }
    for record in build.kept.records:
        aspects[record.aspect]["planned"] += 1
    for candidate in build.candidates:
        report = build.reports.get(candidate.source_id)
        if report is None or build.kept.has(candidate.source_id, candidate.aspect):
            continue
        for pair in report.pairs:
            if pair.aspect == candidate.aspect and pair.pair_id not in build.settled:
                aspects[pair.aspect]["planned"] += 1
                aspects[pair.aspect]["missing"] += not pair.done
                pool = build.options.placement.get(pair.aspect, pair.pool)
                if pool != "cpu" and pair.new_frames and not pair.done:
                    with_ = parameters[pair.aspect, pair.strength]
                    gpu_work.append(GpuWork(pair.aspect, pair.operation, with_, pair.new_frames))
    reasons: dict[str, Counter[str]] = {name: Counter() for name in aspects}
    for report in build.reports.values():
        for none in report.no_pair:
            reasons[none.aspect][none.reason.value] += 1
    for row in build.rows:
        if row.aspect in reasons:
            reasons[row.aspect][row.reason.value] += 1
    for name, counts in reasons.items():
        aspects[name]["no_pair"] = dict(sorted(counts.items()))
    lost = whole_sources(build.rows)
    return {
        "release": build.options.release,
        "extends": build.kept.version,
        "recipe": build.recipe.name,
        "aspects": aspects,
        "sources": {
            "usable": len(build.reports),
            "with_work": release_plan.missing_sources,
            "set_aside": [
                {"source": row.source_id or row.location, "reason": row.reason.value, "message": row.message}
                for row in lost
            ],
        },
        "pairs_missing": sum(counts["missing"] for counts in aspects.values()),
        "frames": {
            "to_decode": release_plan.frames_to_decode,
            "to_degrade": sum(release_plan.frames_to_degrade.values()),
            "to_degrade_on_gpu": sum(part.frames for part in gpu_work),
        },
        "gpu_hours": gpu_hours(gpu_work),
        "bytes": {
            "frames": release_plan.bytes_frames,
            "degraded": release_plan.bytes_degraded,
            "needed": release_plan.bytes_frames + release_plan.bytes_degraded,
            "free": release_plan.bytes_free,
        },
    }


def _print(found: dict[str, Any]) -> None:
    rows = [
        (
            name,
            counts["planned"],
            counts["missing"],
            counts["frames_to_degrade"],
            sum(counts["no_pair"].values()),
            terminal.counted(counts["no_pair"]),
        )
        for name, counts in found["aspects"].items()
    ]
    title = f"plan of release {found['release']}, recipe {found['recipe']}"
    if found["extends"] is not None:
        title += f", extends version {found['extends']}"
    columns = ("aspect", "planned", "missing", "frames to degrade", "no pair", "reasons")
    terminal.console().print(terminal.table(title, columns, rows, numbers=4))
    sources, frames, needed = found["sources"], found["frames"], found["bytes"]
    terminal.say(
        f"sources:   {sources['usable']} usable, {sources['with_work']} with work, "
        f"{len(sources['set_aside'])} set aside",
        f"frames:    {frames['to_decode']} to decode, {frames['to_degrade']} to degrade",
        f"bytes:     {terminal.size_text(needed['needed'])} needed at most, "
        f"{terminal.size_text(needed['free'])} free below {found['store']}",
        f"GPU hours: {_hours_text(found['gpu_hours'])}",
    )
    for row in sources["set_aside"]:
        terminal.say(f"set aside: {row['source']}: {row['reason']}: {row['message']}")
    if not found["pairs_missing"]:
        terminal.say("nothing is missing: a build would make nothing new")


def _hours_text(hours: dict[str, Any]) -> str:
    """Return what is known of the GPU hours, and of which kind it is."""
    if not hours["by_aspect"]:
        return "0"
    parts = [
        f"{name} {_range(found)}" for name, found in hours["by_aspect"].items() if found["hours"] is not None
    ]
    known = [f"{_range(hours)}: {', '.join(parts)}"] if parts else []
    unknown = [f"{name} ({frames} frames)" for name, frames in hours["not_known"].items()]
    return "; ".join([*known, *([f"not known for {', '.join(unknown)}"] if unknown else [])])


def _range(hours: dict[str, Any]) -> str:
    digits = 0 if hours["most"] >= 10 else 1 if hours["most"] >= 1 else 2
    least, most = (f"{hours[name]:.{digits}f}" for name in ("least", "most"))
    return f"{least if least == most else f'{least} to {most}'} ({hours['kind']})"


def _existing(path: Path) -> Path:
    """Return the nearest folder above a path, or itself, that exists."""
    while not path.exists():
        path = path.parent
    return path
