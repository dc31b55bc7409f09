"""``slvmeval suite NAME``: one command for each suite, all with the same options.

The result of a run, or its estimate, as printed in a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.cli import terminal

if TYPE_CHECKING:
    from flows.score.options import SuiteOptions
    from flows.score.results import SuiteResult
    from flows.score.suite_run import SuiteRun
    from tasks.scoring.suites.estimate import DimensionEstimate
    from tasks.scoring.user_files import UnusedLine


_SHOWN_LEFT_OUT = 10


def print_result(result: SuiteResult) -> None:
    """Print the counts of each dimension, why it stopped, and the rows that were left out."""
    rows = [
        (
            one.dimension,
            one.videos,
            one.scored,
            one.failed,
            one.left,
            one.asked,
            one.tokens,
            terminal.dollars(one.usd, one.estimated),
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
    """Print the first unusable rows of the files, and the number of the others."""
    terminal.say(*(f"left out: {one.where}: {one.message}" for one in left_out[:_SHOWN_LEFT_OUT]))
    if len(left_out) > _SHOWN_LEFT_OUT:
        terminal.say(f"… and {len(left_out) - _SHOWN_LEFT_OUT} more; --json lists all")


def _warn(dimensions: Iterable[tuple[str, str]]) -> None:
    """Print which dimensions stopped, grouped by reason."""
    from flows.score.results import by_reason

    for reason, names in by_reason(dimensions).items():
        terminal.say(f"warning: without {', '.join(names)}: {reason}")


def say_estimate(options: SuiteOptions, sample: int | None, as_json: bool, quiet: bool) -> None:
    """Print the estimated cost by dimension, and what cannot be scored, without asking any model."""
    from flows.score.results import RequestProgress
    from flows.score.suite_run import SuiteRun

    run = SuiteRun(options, RequestProgress(quiet=True))
    run.prepare(ask_servers=False)
    rows = run.estimate(sample, terminal.teller(quiet or as_json))
    refused = {one.dimension.name: one.refused for one in run.dimension_parts if one.refused}
    if as_json:
        output = {"prices_as_of": run.prices.as_of, "rows": [row.as_json() for row in rows]}
        terminal.print_json({**output, "refused": refused, "left_out": [vars(one) for one in run.left_out]})
        return
    if rows:
        _print_estimate(run, rows)
    elif not refused:
        terminal.say("nothing is left to score")
    _warn(refused.items())
    _say_left_out(run.left_out)


def _print_estimate(run: SuiteRun, rows: list[DimensionEstimate]) -> None:
    from slvmeval.cli.costs import cost_cells, count_cell, print_prices, total_cells

    columns = ("dimension", "videos", "calls", "images", "tokens in", "tokens out", "$")
    per_video = ("calls a video", "tokens a video")
    cells: list[tuple[object, ...]] = [
        (
            row.dimension,
            row.videos,
            *cost_cells(row.cost),
            count_cell(row.calls_per_video, 1),
            count_cell(row.tokens_per_video),
        )
        for row in rows
    ]
    cells.append(("all", sum(row.videos for row in rows), *total_cells(row.cost for row in rows), "", ""))
    terminal.console().print(terminal.table(run.suite.title, (*columns, *per_video), cells, numbers=8))
    print_prices(run.prices)


WHICH_PANEL = "Which videos and dimensions"

VideosOption = Annotated[
    Path,
    typer.Option(
        "--videos", metavar="DIR", help="Folder of the videos; paths of the manifest are relative to it."
    ),
]
ManifestOption = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        metavar="FILE",
        help="File with the model and the prompt of each video; manifest.csv or .jsonl in DIR by default.",
    ),
]


def suite_command(name: str) -> Callable[..., None]:
    """Return the command of a suite."""

    def run(
        videos: VideosOption,
        prompt_suite: Annotated[
            Path,
            typer.Option(
                "--prompt-suite",
                metavar="FILE",
                help="The videos' prompts, as CSV, JSON Lines or as published.",
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
                help="Number of prompts of each dimension, drawn at random; smaller draws are subsets.",
                rich_help_panel=WHICH_PANEL,
            ),
        ] = None,
        seed: Annotated[
            int, typer.Option("--seed", help="Seed of that draw.", rich_help_panel=WHICH_PANEL)
        ] = 0,
        fps: Annotated[
            str | None,
            typer.Option("--fps", metavar="N|native", help="Frames per second at which videos are sampled."),
        ] = None,
        long_side: Annotated[
            int | None, typer.Option("--long-side", min=4, help="Longer side of the frames in pixels.")
        ] = None,
        blur: Annotated[
            float,
            typer.Option(
                "--blur",
                min=0,
                metavar="PIXELS",
                help="Blur videos slightly; such scores are stored separately.",
            ),
        ] = 0.0,
        settings: Annotated[
            list[str] | None,
            typer.Option(
                "--set", metavar="KEY=VALUE", help="A setting of the suite. May be given several times."
            ),
        ] = None,
        variant: Annotated[
            str | None,
            typer.Option(
                "--variant",
                metavar="NAME",
                help="An ablation of the suite, or your name for what --set changes; its scores are stored "
                "separately.",
            ),
        ] = None,
        repeats: terminal.RepeatsOption = 1,
        retry: terminal.RetryOption = None,
        concurrency: Annotated[
            int | None,
            typer.Option("--concurrency", min=1, help="Number of concurrent scores in one process."),
        ] = None,
        usd: terminal.MostDollarsOption = None,
        tokens: terminal.MostTokensOption = None,
        prices: terminal.PricesOption = None,
        prompts: terminal.PromptsOption = None,
        dry_run: terminal.DryRunOption = False,
        sample: terminal.SampleOption = None,
        store: terminal.StoreOption = None,
        model_folders: terminal.ModelFoldersOption = None,
        workers: terminal.WorkersOption = None,
        profile: terminal.ProfileOption = None,
        direct: terminal.DirectOption = False,
        summary: terminal.SummaryOption = None,
        as_json: terminal.ResultAsJsonOption = False,
        quiet: terminal.QuietOption = False,
    ) -> None:
        from flows.score.options import SuiteParameters

        site = terminal.settings(profile, store=store, model_folders=model_folders, workers=workers)
        parameters = SuiteParameters(
            suite=name,
            videos=terminal.path_text(videos),
            prompt_suite=terminal.path_text(prompt_suite),
            prompts=terminal.path_text(prompts),
            manifest=terminal.path_text(manifest),
            settings=tuple(settings or ()),
            variant=variant,
            dimensions=tuple(dimensions or ()),
            generators=tuple(generators or ()),
            mini=mini,
            seed=seed,
            fps=fps,
            long_side=long_side,
            blur=blur,
            repeats=repeats,
            retry=tuple(retry or ()),
            concurrency=concurrency,
            most_dollars=usd,
            most_tokens=tokens,
            prices=terminal.path_text(prices),
        )
        options = parameters.options(site)
        if dry_run:
            say_estimate(options, sample, as_json, quiet)
            return
        from flows.command_runs import run_flow
        from flows.score.suite_run import SUITE
        from slvmeval.cli.runs import finish

        finish(run_flow(SUITE, options, site, direct, quiet), print_result, summary, as_json)

    run.__doc__ = f"""Score videos with {name}. Existing scores are not computed again.

    It can be stopped at any time; the same command continues. Exit code 0: every video has its scores, 3:
    some are missing, or rows of the files were left out, 1: failed.

    Example: `slvmeval suite {name} --videos DIR --prompt-suite FILE --store STORE`
    """
    return run
