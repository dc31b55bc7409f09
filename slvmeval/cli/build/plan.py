"""``slvmeval build --dry-run``: what a build would produce, and its cost."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slvmeval.cli import terminal
from storage_schemas.counts import count_text
from storage_schemas.sizes import size_text

if TYPE_CHECKING:
    from flows.release.options import BuildOptions
    from flows.release.run import Build
    from infra.profile import Profile
    from tasks.aspects.speeds import Speed


def plan(options: BuildOptions, site: Profile, output: terminal.Format) -> None:
    """Print what a build would produce, and its cost: pairs, frames, bytes, time. No pixels are read.

    A missing store is created only if a server analyses captions, whose answers are stored there.
    """
    from tasks.aspects.speeds import measured_speeds
    from tasks.captions.stage import make_analyser
    from tasks.pairs.release_plan import space_problem

    with ExitStack() as stack:
        store = Path(options.store)
        if not (store.exists() or make_analyser(options.recipe.caption_analysis).asks_server):
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="slvmeval-plan-"))
            options = options.model_copy(update={"store": scratch})
        from flows.release.run import Build
        from infra.executor import InlineExecutor
        from infra.progress import BuildProgress

        progress = stack.enter_context(BuildProgress(quiet=output != "table"))
        build = Build(options, progress)
        build.prepare()
        before_s = time.process_time()
        build.inspect(InlineExecutor)
        # in a store that does not exist yet, the build has to do it again
        again_s = 0.0 if store.exists() else time.process_time() - before_s
        values = plan_values(build, measured_speeds(store))
        values["time"] = time_values(build, site, values["gpu_hours"], again_s)
    values["store"] = str(store)
    space = values["bytes"]
    space["free"] = shutil.disk_usage(_existing(store)).free
    space["problem"] = space_problem(space["needed"], store, space["free"], options.quota_bytes)
    terminal.show(output, values, lambda: _print(values))


def plan_values(build: Build, measured: Sequence[Speed] = ()) -> dict[str, Any]:
    """Return the plan of a build whose sources are all inspected, as JSON-serialisable values.

    `measured` contains this site's speeds, which take precedence over the estimates.
    """
    from slvmeval.cli.build.clip_counts import advice_values, counts_values
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
    for record in build.state.inherited.records:
        aspects[record.aspect]["planned"] += 1
    for candidate in build.state.candidates:
        report = build.state.reports.get(candidate.source_id)
        if report is None or build.state.inherited.has(candidate.source_id, candidate.aspect):
            continue
        for pair in report.pairs:
            if pair.aspect == candidate.aspect and pair.pair_id not in build.state.settled:
                aspects[pair.aspect]["planned"] += 1
                aspects[pair.aspect]["missing"] += not pair.done
                on_gpu = build.options.placement.runs_on(pair.hardware, pair.aspect) == "gpu"
                # a control needs no GPU, whatever its pool
                if on_gpu and pair.new_frames and not pair.done and not pair.control:
                    with_ = parameters[pair.aspect, pair.strength]
                    frames, side = pair.new_frames, build.recipe.long_side
                    gpu_work.append(GpuWork(pair.aspect, pair.operation, with_, frames, side))
    reasons: dict[str, Counter[str]] = {name: Counter() for name in aspects}
    for report in build.state.reports.values():
        for none in report.no_pair:
            reasons[none.aspect][f"{none.reason.value}{' (control)' if none.control else ''}"] += 1
    for row in build.state.rows:
        if row.aspect in reasons:
            reasons[row.aspect][row.reason.value] += 1
    for name, counts in reasons.items():
        aspects[name]["no_pair"] = dict(sorted(counts.items()))
    lost = whole_sources(build.state.rows)
    films: list[dict[str, Any]] = [
        {"source": report.title, "id": report.source_id, "aspects": counts_values(report.clips)}
        for report in build.state.reports.values()
    ]
    return {
        "release": build.options.release,
        "extends": build.state.inherited.version,
        "recipe": build.recipe.name,
        "aspects": aspects,
        "sources": {
            "usable": len(build.state.reports),
            "with_work": release_plan.missing_sources,
            "damaged": [
                {"source": report.title, "damage": report.damage}
                for report in build.state.reports.values()
                if report.damage
            ],
            "set_aside": [
                {"source": row.source_id or row.location, "reason": row.reason.value, "message": row.message}
                for row in lost
            ],
        },
        "clips": films,
        "captions_must_say": advice_values(film["aspects"] for film in films),
        "pairs_missing": sum(counts["missing"] for counts in aspects.values()),
        "frames": {
            "to_decode": release_plan.frames_to_decode,
            "to_degrade": sum(release_plan.frames_to_degrade.values()),
            "to_degrade_on_gpu": sum(part.frames for part in gpu_work),
        },
        "gpu_hours": gpu_hours(gpu_work, measured=measured),
        "bytes": {
            "frames": release_plan.bytes_frames,
            "degraded": release_plan.bytes_degraded,
            "needed": release_plan.bytes_frames + release_plan.bytes_degraded,
            "free": release_plan.bytes_free,
        },
    }


def time_values(
    build: Build, site: Profile, gpu_hours: dict[str, Any], inspection_s: float = 0.0
) -> dict[str, Any]:
    """Return how long a build is estimated to take at a site, JSON-serialisable."""
    from flows.release.time_estimate import estimated_time

    placement = build.options.placement
    hours = None if gpu_hours["not_known"] else gpu_hours["hours"]
    estimate = estimated_time(build.seconds_left(), placement, site, hours, inspection_s)
    return {
        "cpu_hours": round(estimate.cpu_hours, 4),
        "wall_s": round(estimate.wall_s),
        "workers": dict(estimate.workers),
    }


def _print(values: dict[str, Any]) -> None:
    from slvmeval.cli.build.clip_counts import print_counts
    from storage_schemas.source import DAMAGE_TEXTS

    rows = [
        (
            name,
            counts["planned"],
            counts["missing"],
            counts["frames_to_degrade"],
            sum(counts["no_pair"].values()),
            terminal.counted(counts["no_pair"]),
        )
        for name, counts in values["aspects"].items()
    ]
    title = f"plan of release {values['release']}, recipe {values['recipe']}"
    if values["extends"] is not None:
        title += f", extends version {values['extends']}"
    columns = ("aspect", "planned", "missing", "frames to degrade", "no pair", "reasons")
    terminal.say(terminal.Grid(title, columns, rows, numbers=4))
    print_counts([(film["source"], film["aspects"]) for film in values["clips"]])
    sources, frames, needed = values["sources"], values["frames"], values["bytes"]
    terminal.say(
        f"sources:   {sources['usable']} usable, {sources['with_work']} with work, "
        f"{len(sources['set_aside'])} set aside",
        f"frames:    {frames['to_decode']} to decode, {frames['to_degrade']} to degrade",
        f"bytes:     {size_text(needed['needed'])} needed at most, "
        f"{size_text(needed['free'])} free below {values['store']}",
        f"time:      {_time_text(values['time'])}",
        f"GPU hours: {_hours_text(values['gpu_hours'])}",
        *(f"figures:   {name} {source}" for name, source in values["gpu_hours"]["sources"].items()),
    )
    if needed["problem"]:
        terminal.say(f"no space:  {needed['problem']}")
    for row in sources["damaged"]:
        terminal.say(f"damaged:   {row['source']}: the video is {DAMAGE_TEXTS[row['damage']]}")
    for row in sources["set_aside"]:
        terminal.say(f"set aside: {row['source']}: {row['reason']}: {row['message']}")
    if not any(counts["planned"] for counts in values["aspects"].values()):
        terminal.say("no source yields a pair: a build would write an empty release")
    elif not values["pairs_missing"]:
        terminal.say("nothing is missing: a build would change nothing")
    else:
        terminal.say("next: the same command without --dry-run, with --gallery DIR to see the pairs")


def _time_text(values: dict[str, Any]) -> str:
    """Return the estimated time as text, with the workers assumed."""
    workers = ", ".join(
        count_text(count, "worker") + ("" if len(values["workers"]) == 1 else f" in pool {pool}")
        for pool, count in values["workers"].items()
    )
    if not values["wall_s"]:
        return "none"
    hours = max(values["cpu_hours"], 0.01)
    cpu = f"{hours:.{0 if hours >= 10 else 1 if hours >= 1 else 2}f}"
    return f"about {_duration_text(values['wall_s'])} on {workers}, {cpu} CPU hours (estimate)"


def _duration_text(seconds: float) -> str:
    """Return a duration in a unit suitable for an estimate."""
    if seconds < 90:
        return count_text(round(seconds), "second")
    if seconds < 90 * 60:
        return count_text(round(seconds / 60), "minute")
    return f"{seconds / 3600:.1f} hours"


def _hours_text(hours: dict[str, Any]) -> str:
    """Return the GPU hours as text, with the kind of GPU."""
    if not hours["by_aspect"]:
        return "0"
    parts = [
        f"{name} {_range(hours_of)}"
        for name, hours_of in hours["by_aspect"].items()
        if hours_of["hours"] is not None
    ]
    texts = [f"{_range(hours)}: {', '.join(parts)}"] if parts else []
    unknown = [f"{name} ({frames} frames)" for name, frames in hours["not_known"].items()]
    return "; ".join([*texts, *([f"unknown for {', '.join(unknown)}"] if unknown else [])])


def _range(hours: dict[str, Any]) -> str:
    digits = 0 if hours["most"] >= 10 else 1 if hours["most"] >= 1 else 2
    least, most = (f"{hours[name]:.{digits}f}" for name in ("least", "most"))
    return f"{least if least == most else f'{least} to {most}'} ({hours['kind']})"


def _existing(path: Path) -> Path:
    """Return a path, or its nearest existing parent."""
    while not path.exists():
        path = path.parent
    return path
