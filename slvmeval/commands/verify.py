"""``slvmeval verify``: read a release back."""

from __future__ import annotations

from typing import Annotated

import typer

from slvmeval.commands import shared


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Releases")(verify)


def verify(
    release: shared.ReleaseArgument = None,
    version: shared.VersionOption = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also both sides of each pair, frame by frame, and every file.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove what is damaged, so that the next build makes it again.")
    ] = False,
    store: shared.StoreOption = None,
    as_json: shared.JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Check a release by reading it back: its files, the frames of its sources, every pair.

    Exit code 1 if something is wrong.

    Example: `slvmeval verify demo --store STORE --deep`
    """
    from slvmeval.commands.state import refuse_while_running
    from slvmeval.commands.verifying import check_release, repair_release
    from storage_schemas.release import Release

    opened = shared.open_store(store)
    if repair:
        refuse_while_running(opened, "verify --repair")
    found = Release.open(opened, release, version)
    with shared.step_bar("verify", quiet or as_json) as step:
        damages = check_release(found, deep, step, quiet or as_json)
    done = repair_release(found, damages, quiet or as_json) if repair and damages else []
    pairs = found.manifest.content["pairs"]
    if as_json:
        shared.print_json(
            {
                "release": found.name,
                "version": found.version,
                "pairs": pairs,
                "deep": deep,
                "problems": [{"what": damage.what, "problem": damage.problem} for damage in damages],
                "repaired": done,
            }
        )
    else:
        for damage in damages:
            shared.say(f"{damage.what}: {damage.problem}")
        for line in done:
            shared.say(line)
        how = "read frame by frame" if deep else "checked"
        verdict = f"{len(damages)} problems" if damages else "all good"
        shared.say(f"release {found.name}, version {found.version}: {pairs} pairs {how}, {verdict}")
        if done:
            shared.say("run `slvmeval retry` (or the build again) to make what was removed")
        elif damages:
            shared.say("--repair removes what is damaged, so that the next build makes it again")
    if damages:
        raise typer.Exit(1)
