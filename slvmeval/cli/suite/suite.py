"""``slvmeval suite``: systems that score generated videos in many dimensions, and their results."""

from __future__ import annotations

import typer

from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup
from slvmeval.cli.listing import KINDS, ListOptions, chosen
from slvmeval.cli.suite import alignment, scores
from slvmeval.cli.suite.run import run

app = CommandGroup(
    no_args_is_help=True,
    help="Systems that score generated videos in many dimensions.",
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    scores.register(app)
    alignment.register(app)
    app.command()(run)
    parent.add_typer(app, name="suite", rich_help_panel="Judges")
    KINDS["suites"] = list_suites


def list_suites(options: ListOptions) -> None:
    """Print the installed suites. None of them is imported."""
    from tasks.scoring.suites.registry import suites

    points = suites()
    rows = {name: points[name].value for name in chosen(options, points)}
    terminal.show(options.output, rows, *(f"{name:<20} {where}" for name, where in rows.items()))
