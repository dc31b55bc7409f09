"""``slvmeval suite NAME``: one command for each suite, all with the same options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.build import DirectOption, QuietOption, SummaryOption
from slvmeval.commands.limits import (
    LIMITS_PANEL,
    DryRunOption,
    MostDollarsOption,
    MostTokensOption,
    PricesOption,
)
from slvmeval.commands.shared import OUTPUT_PANEL
from slvmeval.commands.suite_run_view import print_result, say_estimate

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
                help="Reckon with so many videos of each dimension only; for --dry-run.",
                rich_help_panel=LIMITS_PANEL,
            ),
        ] = None,
        store: shared.StoreOption = None,
        models: shared.ModelsOption = None,
        workers: shared.WorkersOption = None,
        profile: shared.ProfileOption = None,
        direct: DirectOption = False,
        summary: SummaryOption = None,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=OUTPUT_PANEL)
        ] = False,
        quiet: QuietOption = False,
    ) -> None:
        from flows.suite_options import settings_from_text, suite_options

        site = shared.settings(profile, store=store, models=models, workers=workers)
        options = suite_options(
            site,
            suite=name,
            videos=str(videos.resolve()),
            prompts=str(prompts.resolve()),
            manifest="" if manifest is None else str(manifest.resolve()),
            settings=settings_from_text(settings or []),
            dimensions=tuple(dimensions or ()),
            generators=tuple(generators or ()),
            mini=mini,
            seed=seed,
            fps=fps or "",
            long_side=long_side,
            blur=blur,
            repeats=repeats,
            retry=retry,
            concurrency=concurrency,
            limits={"usd": usd, "tokens": tokens},
            prices=None if prices is None else str(prices.resolve()),
        )
        if dry_run:
            say_estimate(options, sample, as_json, quiet)
            return
        from slvmeval.commands.running_suite import run_suite

        result = run_suite(options, site, direct, quiet)
        if summary is not None:
            from slvmeval.commands.summary import write_summary

            write_summary(summary, result.summary())
        if as_json:
            shared.print_json(result.summary())
        else:
            print_result(result)
        raise typer.Exit(result.exit_code)

    run.__doc__ = f"""Score videos with {name}. What was scored before is not scored again.

    It may be stopped at any time; the same command goes on where it was. Exit code 0: every video has its
    scores, 3: some have none, or rows of the files were left out, 1: failed.

    Example: `slvmeval suite {name} --videos DIR --prompts FILE --store STORE`
    """
    return run
