"""``slvmeval build`` and ``slvmeval retry``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.shared import OUTPUT_PANEL, SITE_PANEL

if TYPE_CHECKING:
    from flows.build_release import BuildResult

DirectOption = Annotated[
    bool,
    typer.Option(
        "--direct", help="Without Prefect and Dask: no server to start.", rich_help_panel=SITE_PANEL
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT_PANEL)
]
GalleryOption = Annotated[
    Path | None,
    typer.Option(
        "--gallery", metavar="DIR", help="Write the gallery there as well.", rich_help_panel=OUTPUT_PANEL
    ),
]
SummaryOption = Annotated[
    Path | None,
    typer.Option(
        "--summary",
        metavar="FILE",
        dir_okay=False,
        help="Write what was made as JSON.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel="Build")(build)
    app.command(rich_help_panel="Build")(retry)


def build(
    sources: shared.SourcesOption = None,
    recipe: shared.RecipeOption = "cpu-approx",
    changes: shared.SetOption = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Extend no older version: draw all candidates anew.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry", help="Try again what failed in earlier builds.")
    ] = False,
    store: shared.StoreOption = None,
    models: shared.ModelsOption = None,
    workers: shared.WorkersOption = None,
    profile: shared.ProfileOption = None,
    settle: shared.SettleOption = None,
    direct: DirectOption = False,
    release: shared.ReleaseOption = None,
    gallery: GalleryOption = None,
    summary: SummaryOption = None,
    quiet: QuietOption = False,
) -> None:
    """Build a release, or bring it up to date: only what is missing is made.

    It may be stopped at any time; the same command goes on where it was. Exit code 0: all that was planned is
    built, 3: something was set aside, 1: failed.

    Example: `slvmeval build --sources folder:VIDEOS --store STORE --gallery GALLERY`

    Other things: `slvmeval build -s vript:/data/vript --recipe paper-eight --release vript-eight`,
    `slvmeval build -s VIDEOS --set clips_per_pair=3`
    """
    from flows.recipe_changes import recipe_with
    from flows.resolve import build_options

    site = shared.settings(
        profile, store=store, models=models, workers=workers, settle_s=settle, release=release
    )
    shared.need_sources(sources, site)
    options = build_options(
        site, sources or [], recipe_with(recipe, changes or ()), fresh=fresh, retry=retry_failed
    )
    # what the user got wrong is said before the heavy imports
    from slvmeval.commands.running import run_build

    raise typer.Exit(finish(run_build(options, site, direct, quiet), gallery, summary, quiet))


def retry(
    store: shared.StoreOption = None,
    release: shared.ReleaseOption = None,
    workers: shared.WorkersOption = None,
    profile: shared.ProfileOption = None,
    direct: DirectOption = False,
    gallery: GalleryOption = None,
    summary: SummaryOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run the last build of a release again, and try again what failed in it.

    Example: `slvmeval retry --store STORE`
    """
    from flows.asked import last_options
    from slvmeval.commands.running import run_build
    from storage_schemas.store import Store

    site = shared.settings(profile, store=store, workers=workers, release=release)
    asked = last_options(Store.open(Path(site.store)), site.release)
    options = asked.model_copy(update={"retry": True, "store": str(Path(site.store).resolve())})
    raise typer.Exit(finish(run_build(options, site, direct, quiet), gallery, summary, quiet))


def finish(result: BuildResult, gallery: Path | None, summary: Path | None, quiet: bool) -> int:
    """Say what was made, write gallery and summary where they are wanted, and return the exit code."""
    from slvmeval.commands.summary import build_summary, print_summary, write_summary

    release = result.release
    if summary is not None:
        # first without the gallery: what was built is known also where writing the gallery fails
        write_summary(summary, build_summary(result))
    print_summary(result)
    paths = {"release": release.path}
    if gallery is not None:
        from slvmeval.commands.publish import show_gallery

        paths["gallery"] = show_gallery(release, gallery, quiet)
        if summary is not None:
            write_summary(summary, build_summary(result, paths["gallery"]))
    if summary is not None:
        paths["summary"] = summary.resolve()
    for what, path in paths.items():
        shared.say(f"{what + ':':<9} {path}")
    return result.exit_code
