"""``slvmeval suite``: systems that score generated videos in many dimensions, and what their scores say."""

from __future__ import annotations

import typer

from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup
from slvmeval.cli.listing import KINDS, ListOptions
from slvmeval.cli.suite import ablations, prompts, scores
from slvmeval.cli.suite.run import run
from tasks.scoring.suites.built_in import BUILT_IN

app = CommandGroup(
    no_args_is_help=True,
    help="Systems that score generated videos in many dimensions.",
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    scores.register(app)
    ablations.register(app)
    prompts.register(app)
    app.command()(run)
    parent.add_typer(app, name="suite", rich_help_panel="Judges")
    KINDS["suites"] = list_suites


def list_suites(options: ListOptions) -> None:
    """Print the built-in suites and those of installed packages. None of them is imported."""
    from tasks.scoring.suites.registry import added_suites

    terminal.print_factories(BUILT_IN, added_suites(), options.as_json)
