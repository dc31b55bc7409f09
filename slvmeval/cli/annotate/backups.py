"""``slvmeval annotate backup``: save the annotation database as one file, and restore it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.annotate.database import opened_desk
from storage_schemas.counts import count_text

if TYPE_CHECKING:
    from tasks.annotation.desk.backup import BackedUp


def register(annotate: typer.Typer) -> None:
    """Add the command."""
    annotate.command()(backup)


class BackupOptions(terminal.DeskParameters):
    """Options of `backup`."""

    file: Annotated[Path, Given(("argument",), "FILE")] = Field(description="The backup.")
    restore: bool = Field(default=False, description="Fill an empty database from FILE.")
    output: terminal.FormatOption = "table"


def backup(
    options: BackupOptions,
) -> None:
    """Write the annotation database into a new file, even while the server runs.

    The file is the same for SQLite and PostgreSQL. It contains everything that the database stores about
    workers, but not the installation's key: keep a copy of STORE/annotation/key elsewhere.

    --restore reads it into an empty SQLite or PostgreSQL database, using the key of that time.
    Workers who were erased since the backup was made are erased again. Publish the campaigns again afterwards
    if the store's videos are gone.

    Example: `slvmeval annotate backup desk-monday.sqlite --store STORE`
    """
    from dataclasses import asdict

    from storage_schemas.votes import VotesStore
    from tasks.annotation.desk.backup import back_up
    from tasks.annotation.desk.backup import restore as restore_from

    with opened_desk(options) as (opened, desk):
        if options.restore:
            done = restore_from(desk, options.file, VotesStore(opened))
            words = f"restored {_in_words(done)}"
            if done.erased_again:
                words += f"; {done.erased_again} workers who were erased since are erased again"
        else:
            done = back_up(desk, options.file)
            words = f"{_in_words(done)} in {options.file}"
    terminal.show(options.output, asdict(done), words)


def _in_words(done: BackedUp) -> str:
    return f"{count_text(done.votes, 'vote')} of campaigns {', '.join(done.campaigns) or '(none)'}"
