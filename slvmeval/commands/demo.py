"""``slvmeval demo``: a small true release from two freely licensed films."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.build import DirectOption, QuietOption


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Start here")(demo)


def demo(
    folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Everything lands there.")] = Path(
        "build/demo"
    ),
    workers: shared.WorkersOption = None,
    direct: DirectOption = False,
    quiet: QuietOption = False,
) -> None:
    """Build a small release of all ten aspects from real film, verified, with a gallery to look at.

    The films and the small network for cut-outs come out of packages of the package index. The second run
    takes seconds: nothing is made twice.

    Example: `slvmeval demo --folder build/demo`
    """
    from flows.recipe_changes import recipe_with
    from flows.resolve import build_options
    from slvmeval.commands.build import finish
    from slvmeval.commands.running import run_build
    from slvmeval.demo.fetch import fetch_demo

    files = fetch_demo(folder, say=shared.tell)
    site = shared.settings(
        store=folder / "store", models=[files.u2netp.parent], workers=workers, release="demo"
    )
    options = build_options(site, [f"folder:{files.videos}"], recipe_with("cpu-approx"))
    result = run_build(options, site, direct, quiet)
    finish(result, folder / "gallery", folder / "summary.json", quiet)
    counts = result.release.summary()
    empty = [aspect for aspect, count in counts.items() if not count["built"]]
    if empty:
        shared.say(f"These aspects have no pair, see the reasons above: {', '.join(empty)}")
        raise typer.Exit(shared.SOME_SET_ASIDE)
    pairs = sum(count["built"] for count in counts.values())
    shared.say(
        "",
        f"The demonstration is made: {pairs} pairs in {len(counts)} aspects, each read back and verified. "
        "(The second film is a few seconds long: it shows how a source is set aside.)",
        f"Open {(folder / 'gallery' / 'index.html').resolve()} in a browser.",
        "With videos of your own: slvmeval build --sources folder:VIDEOS --store STORE",
    )
