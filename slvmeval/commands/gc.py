"""``slvmeval gc``: free disk space."""

from __future__ import annotations

from typing import Annotated

import typer

from slvmeval.commands import shared


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="gc", rich_help_panel="The store")(collect)


def collect(
    frames: Annotated[
        bool, typer.Option("--frames", help="Drop the sources' frames; they are made again when wanted.")
    ] = False,
    encoded: Annotated[
        bool, typer.Option("--encoded", help="Drop encoded videos; they are made again when wanted.")
    ] = False,
    features: Annotated[
        bool,
        typer.Option("--features", help="Drop what evaluators computed of frames: made again when wanted."),
    ] = False,
    unreferenced: Annotated[
        bool, typer.Option("--unreferenced", help="Drop what no version of any release uses.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be freed.")] = False,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Drop what can be made again or is not used any more, and say how many bytes that freed.

    What killed builds left behind is always dropped. Releases stay as they are.

    Example: `slvmeval gc --frames --encoded --store STORE`
    """
    from slvmeval.commands.state import refuse_while_running
    from storage_schemas.gc import (
        clear_staging,
        drop_features,
        drop_partial_analyses,
        drop_unreferenced,
        evict,
    )
    from storage_schemas.store import ENCODED, FRAMES

    opened = shared.open_store(store, profile)
    if not dry_run:
        refuse_while_running(opened, "gc")
    freed = [clear_staging(opened, dry_run), drop_partial_analyses(opened, unreferenced, dry_run)]
    if unreferenced:
        freed += drop_unreferenced(opened, dry_run)
    if frames:
        freed.append(evict(opened, FRAMES, dry_run))
    if encoded:
        freed.append(evict(opened, ENCODED, dry_run))
    if features:
        freed.append(drop_features(opened, dry_run))
    for item in freed:
        if item.count:
            shared.say(f"{item.kind + ':':<15} {item.count:>6}  {shared.size_text(item.bytes):>10}")
    word = "would be freed" if dry_run else "freed"
    shared.say(f"{shared.size_text(sum(item.bytes for item in freed))} {word} in {opened.root}")
    if not (frames or encoded or features or unreferenced):
        shared.say("more can go with --frames, --encoded, --features and --unreferenced (see --help)")
