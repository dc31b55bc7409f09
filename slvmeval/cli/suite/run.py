"""``slvmeval suite NAME``: one command for each suite, all with the same options.

What a run of a suite did, or would take, as the command line says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slvmeval.cli import terminal
from slvmeval.cli.terminal import (
    LIMITS_PANEL,
    OUTPUT_PANEL,
    DryRunOption,
    MostDollarsOption,
    MostTokensOption,
    PricesOption,
)

if TYPE_CHECKING:
    from flows.score.results import SuiteResult
    from flows.score.suite_options import SuiteOptions
    from flows.score.suite_run import SuiteRun
    from tasks.scoring.suites.estimate import EstimateRow
    from tasks.scoring.user_files import UnusedLine


_SHOWN_LEFT_OUT = 10


def print_result(result: SuiteResult) -> None:
    """Print by dimension what was scored, failed and left, why one stopped, and what was left out."""
    rows = [
        (
            one.dimension,
            one.videos,
            one.scored,
            one.failed,
            one.left,
            one.asked,
            one.tokens,
            "unknown" if one.usd is None else f"{one.usd:.2f}",
            terminal.counted(dict(one.failures)),
        )
        for one in result.dimensions
    ]
    columns = ("dimension", "scores", "there", "failed", "left", "scored now", "tokens", "$", "failures")
    title = f"{result.title}: {result.videos} videos"
    terminal.console().print(terminal.table(title, columns, rows, numbers=7))
    _warn((one.dimension, one.stopped) for one in result.dimensions)
    _say_left_out(result.left_out)


def _say_left_out(left_out: Sequence[UnusedLine]) -> None:
    """Say the first rows of the files that could not be used, and how many more there are."""
    terminal.say(*(f"left out: {one.where}: {one.message}" for one in left_out[:_SHOWN_LEFT_OUT]))
    if len(left_out) > _SHOWN_LEFT_OUT:
        terminal.say(f"… and {len(left_out) - _SHOWN_LEFT_OUT} more; --json says all")


def _warn(dimensions: Iterable[tuple[str, str]]) -> None:
    """Say which dimensions were not gone on with, those with the same reason together."""
    from flows.score.results import by_reason

    for reason, names in by_reason(dimensions).items():
        terminal.say(f"warning: without {', '.join(names)}: {reason}")


def say_estimate(options: SuiteOptions, sample: int | None, as_json: bool, quiet: bool) -> None:
    """Say what a run would take, by dimension, and what cannot be scored; nobody is asked."""
    from flows.score.results import RequestProgress
    from flows.score.suite_run import SuiteRun

    run = SuiteRun(options, RequestProgress(quiet=True))
    run.prepare(ask_servers=False)
    rows = run.estimate(sample, terminal.teller(quiet or as_json))
    refused = {one.dimension.name: one.refused for one in run.asked if one.refused}
    if as_json:
        found = {"prices_as_of": run.prices.as_of, "rows": [row.as_json() for row in rows]}
        terminal.print_json({**found, "refused": refused, "left_out": [vars(one) for one in run.left_out]})
        return
    if rows:
        _print_estimate(run, rows)
    elif not refused:
        terminal.say("nothing is left to score")
    _warn(refused.items())
    _say_left_out(run.left_out)


def _print_estimate(run: SuiteRun, rows: list[EstimateRow]) -> None:
    columns = ("dimension", "videos", "calls", "a video", "images", "tokens in", "tokens out", "a video", "$")
    terminal.console().print(
        terminal.table(run.suite.title, columns, [*map(_cells, rows), _total(rows)], numbers=8)
    )
    if run.prices.as_of:
        terminal.say(f"prices of {run.prices.as_of}, {run.prices.source}")


def _cells(row: EstimateRow) -> tuple[Any, ...]:
    usd = "unknown" if row.usd is None else f"{row.usd:.2f}"
    return (
        row.dimension,
        row.videos,
        _count(row.calls),
        _count(row.calls_per_video, 1),
        *map(_count, (row.images, row.tokens_in, row.tokens_out, row.tokens_per_video)),
        "–" if row.calls is None else usd,
    )


def _total(rows: list[EstimateRow]) -> tuple[Any, ...]:
    said = [row for row in rows if row.calls is not None]
    calls, images, into, out = (
        sum(getattr(row, name) or 0 for row in said)
        for name in ("calls", "images", "tokens_in", "tokens_out")
    )
    more = "" if all(row.usd is not None for row in said) else " and what has no price"
    usd = f"{sum(row.usd or 0.0 for row in said):.2f}{more}"
    cells = (_count(calls), "", _count(images), _count(into), _count(out), "", usd)
    return ("all", sum(row.videos for row in rows), *(cells if said else ("–",) * 7))


def _count(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


WHICH_PANEL = "Which videos and dimensions"

VideosOption = Annotated[
    Path,
    typer.Option("--videos", metavar="DIR", help="Folder of the videos; paths of the manifest start here."),
]
ManifestOption = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        metavar="FILE",
        help="Says which file is whose video of which prompt; manifest.csv or .jsonl in DIR by default.",
    ),
]


def suite_command(name: str) -> Callable[..., None]:
    """Return the command of a suite."""

    def run(
        videos: VideosOption,
        prompts: Annotated[
            Path,
            typer.Option(
                "--prompts", metavar="FILE", help="The prompts, as CSV, JSON Lines or as published."
            ),
        ],
        manifest: ManifestOption = None,
        dimensions: Annotated[
            list[str] | None,
            typer.Option(
                "--dimension",
                metavar="NAME",
                help="Only this one. May be given several times.",
                rich_help_panel=WHICH_PANEL,
            ),
        ] = None,
        generators: Annotated[
            list[str] | None,
            typer.Option(
                "--generator",
                metavar="NAME",
                help="Only videos of this model of the manifest. May be given several times.",
                rich_help_panel=WHICH_PANEL,
            ),
        ] = None,
        mini: Annotated[
            int | None,
            typer.Option(
                "--mini",
                min=1,
                help="Only so many prompts of each dimension, drawn; fewer lie within more.",
                rich_help_panel=WHICH_PANEL,
            ),
        ] = None,
        seed: Annotated[int, typer.Option("--seed", help="Of that draw.", rich_help_panel=WHICH_PANEL)] = 0,
        fps: Annotated[
            str | None,
            typer.Option("--fps", metavar="N|native", help="Frames a second at which videos are sampled."),
        ] = None,
        long_side: Annotated[
            int | None, typer.Option("--long-side", min=4, help="Longer side of the frames in pixels.")
        ] = None,
        blur: Annotated[
            float,
            typer.Option(
                "--blur", min=0, metavar="PIXELS", help="Blur videos a little; such scores are kept apart."
            ),
        ] = 0.0,
        settings: Annotated[
            list[str] | None,
            typer.Option(
                "--set", metavar="KEY=VALUE", help="A setting of the suite. May be given several times."
            ),
        ] = None,
        repeats: Annotated[
            int, typer.Option("--repeats", min=1, help="How often each score is asked for.")
        ] = 1,
        retry: Annotated[bool, typer.Option("--retry", help="Score again what a model could not.")] = False,
        concurrency: Annotated[
            int | None,
            typer.Option("--concurrency", min=1, help="Scores under way at once in one process."),
        ] = None,
        usd: MostDollarsOption = None,
        tokens: MostTokensOption = None,
        prices: PricesOption = None,
        dry_run: DryRunOption = False,
        sample: Annotated[
            int | None,
            typer.Option(
                "--sample",
                min=1,
                help="Look at only so many videos of each dimension; for --dry-run.",
                rich_help_panel=LIMITS_PANEL,
            ),
        ] = None,
        store: terminal.StoreOption = None,
        model_folders: terminal.ModelFoldersOption = None,
        workers: terminal.WorkersOption = None,
        profile: terminal.ProfileOption = None,
        direct: terminal.DirectOption = False,
        summary: terminal.SummaryOption = None,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=OUTPUT_PANEL)
        ] = False,
        quiet: terminal.QuietOption = False,
    ) -> None:
        from flows.score.suite_options import SuiteParameters

        site = terminal.settings(profile, store=store, model_folders=model_folders, workers=workers)
        parameters = SuiteParameters(
            suite=name,
            videos=terminal.path_text(videos),
            prompts=terminal.path_text(prompts),
            manifest=terminal.path_text(manifest),
            settings=tuple(settings or ()),
            dimensions=tuple(dimensions or ()),
            generators=tuple(generators or ()),
            mini=mini,
            seed=seed,
            fps=fps,
            long_side=long_side,
            blur=blur,
            repeats=repeats,
            retry=retry,
            concurrency=concurrency,
            most_dollars=usd,
            most_tokens=tokens,
            prices=terminal.path_text(prices),
        )
        options = parameters.options(site)
        if dry_run:
            say_estimate(options, sample, as_json, quiet)
            return
        from flows.score.suite import SUITE
        from slvmeval.cli.runs import run as run_flow
        from slvmeval.cli.runs import write_summary

        result = run_flow(SUITE, options, site, direct, quiet)
        if summary is not None:
            write_summary(summary, result.summary())
        if as_json:
            terminal.print_json(result.summary())
        else:
            print_result(result)
        raise typer.Exit(result.exit_code)

    run.__doc__ = f"""Score videos with {name}. What was scored before is not scored again.

    It may be stopped at any time; the same command goes on where it was. Exit code 0: every video has its
    scores, 3: some have none, or rows of the files were left out, 1: failed.

    Example: `slvmeval suite {name} --videos DIR --prompts FILE --store STORE`
    """
    return run
