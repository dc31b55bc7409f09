"""``slvmeval annotate backup`` and ``restore``: the annotation database as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.annotate.database import opened_desk

if TYPE_CHECKING:
    from tasks.annotation.desk.backup import BackedUp

FileArgument = Annotated[Path, Given(("argument",), "FILE"), Field(description="The backup.")]


def register(annotate: typer.Typer) -> None:
    """Add the commands."""
    annotate.command()(backup)
    annotate.command()(restore)


class BackupOptions(terminal.DeskParameters):
    """Options of `backup`."""

    file: FileArgument
    as_json: terminal.JsonOption = False


def backup(
    options: BackupOptions,
) -> None:
    """Write the annotation database into a new file, while the server may continue working.

    The file is the same for SQLite and PostgreSQL. It holds everything about workers that the database holds,
    and not the installation's key: keep a copy of STORE/annotation/key elsewhere.

    Example: `slvmeval annotate backup desk-monday.sqlite --store STORE`
    """
    from tasks.annotation.desk.backup import back_up

    with opened_desk(options) as (_, desk):
        done = back_up(desk, options.file)
    _say(done, f"{_in_words(done)} in {options.file}", options.as_json)


class RestoreOptions(terminal.DeskParameters):
    """Options of `restore`."""

    file: FileArgument
    as_json: terminal.JsonOption = False


def restore(
    options: RestoreOptions,
) -> None:
    """Fill an empty annotation database from a backup, of SQLite or PostgreSQL into either.

    Workers who were erased since the backup was made are erased again. It needs the installation's key of
    that time. Publish the campaigns again afterwards if the store's videos are gone.

    Example: `slvmeval annotate restore desk-monday.sqlite --store STORE`
    """
    from storage_schemas.votes import VotesStore
    from tasks.annotation.desk.backup import restore as restore_from

    with opened_desk(options) as (opened, desk):
        done = restore_from(desk, options.file, VotesStore(opened))
    again = f"; {done.erased_again} workers who were erased since are erased again" * bool(done.erased_again)
    _say(done, f"restored {_in_words(done)}{again}", options.as_json)


def _in_words(done: BackedUp) -> str:
    return f"{done.votes} votes of campaigns {', '.join(done.campaigns) or '(none)'}"


def _say(done: BackedUp, words: str, as_json: bool) -> None:
    from dataclasses import asdict

    terminal.show(as_json, asdict(done), words)
