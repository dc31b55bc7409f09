"""``slvmeval judgements``: hand answers on to another store, and take them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slvmeval.commands import shared

app = typer.Typer(no_args_is_help=True, help="The answers of evaluators, as a file.")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="judgements", rich_help_panel="Judges")


@app.command(name="export")
def export_judgements(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", dir_okay=False, help="A Parquet file; replaced if it is there.")
    ],
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Write all judgements of a store as one Parquet file, one row a request.

    Example: `slvmeval judgements export mine.parquet --store STORE`
    """
    from storage_schemas.judgements_store import JudgementsStore

    count = JudgementsStore(shared.open_store(store, profile)).export(file)
    shared.say(f"{count} judgements: {file}")


@app.command(name="import")
def import_judgements(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `judgements export` wrote.")],
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Check a file of judgements and add those that are not in the store yet.

    Example: `slvmeval judgements import theirs.parquet --store STORE`
    """
    from storage_schemas.judgements_store import JudgementsStore

    count = JudgementsStore(shared.open_store(store, profile)).take(file)
    shared.say(f"{count} judgements were added")
