"""``slvmeval suite``: systems that score generated videos in many dimensions, and what their scores say."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup
from slvmeval.cli.suite import ablations, prompts, scores
from slvmeval.cli.suite.run import suite_command
from storage_schemas.model import Frozen
from tasks.scoring.suites.built_in import BUILT_IN


class SuiteGroup(TyperGroup):
    """The group; suites of installed packages are commands too, looked up when they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return our commands, then those of packages."""
        from tasks.scoring.suites.registry import added_suites

        return [*super().list_commands(ctx), *added_suites()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command of ours, or of a package."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        from tasks.scoring.suites.registry import added_suites

        if cmd_name not in added_suites():
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
    prompts.register(app)
    for name in BUILT_IN:
        app.command(name=name)(suite_command(name))
    parent.add_typer(app, name="suite", rich_help_panel="Judges")


class ListSuitesOptions(Frozen):
    """Options of `list-suites`."""

    as_json: terminal.JsonOption = False


@app.command(name="list")
def list_suites(options: ListSuitesOptions) -> None:
    """List the built-in suites and those of installed packages. None of them is imported.

    Example: `slvmeval suite list`
    """
    from tasks.scoring.suites.registry import added_suites

    terminal.print_factories(BUILT_IN, added_suites(), options.as_json)
