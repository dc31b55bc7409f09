"""``slvmeval suite``: systems that score generated videos in many dimensions, and what their scores say."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup
from slvmeval.cli.suite import ablations, scores
from slvmeval.cli.suite.run import suite_command
from storage_schemas.model import Frozen


class SuiteGroup(TyperGroup):
    """The group; installed suites are commands too, looked up when they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return our commands, then the suites."""
        from tasks.scoring.suites.registry import suites

        return [*super().list_commands(ctx), *suites()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command of ours, or a suite's."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        from tasks.scoring.suites.registry import suites

        if cmd_name not in suites():
            return None
        one = CommandGroup(add_completion=False, rich_markup_mode="markdown")
        one.command(name=cmd_name)(suite_command(cmd_name))
        return typer.main.get_command(one)


app = CommandGroup(
    cls=SuiteGroup,
    no_args_is_help=True,
    help="Systems that score generated videos in many dimensions.",
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    scores.register(app)
    ablations.register(app)
    parent.add_typer(app, name="suite", rich_help_panel="Judges")


class ListSuitesOptions(Frozen):
    """Options of `list-suites`."""

    as_json: terminal.JsonOption = False


@app.command(name="list")
def list_suites(options: ListSuitesOptions) -> None:
    """List the installed suites. None of them is imported.

    Example: `slvmeval suite list`
    """
    from tasks.scoring.suites.registry import suites

    terminal.print_factories({}, suites(), options.as_json)
