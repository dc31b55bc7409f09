"""Commands that installed packages add.

A package adds one by an entry point in the group ``slvmeval.commands``. Its name is the command's or, in one
of our groups, ``GROUP.COMMAND``, such as ``suite.prompts``; its value is ``module:register``, a function
that takes a :class:`typer.Typer` and adds the command to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import typer

from slvmeval.cli import terminal
from tasks.plugins import added_points

#: Entry-point group of the functions.
GROUP = "slvmeval.commands"


def register_added(groups: Mapping[str, typer.Typer]) -> None:
    """Add the commands of installed packages; one that cannot be loaded is reported and left out.

    Parameters
    ----------
    groups
        The groups that may get more commands, by name; the top level is named "".
    """
    for name, point in added_points(GROUP, (), "command").items():
        group = name.rpartition(".")[0]
        try:
            if group not in groups:
                raise ImportError(f"there is no group of commands {group!r}")
            point.load()(groups[group])
        except (ImportError, AttributeError) as problem:
            terminal.tell(f"warning: command {name} cannot be loaded from {point.value}: {problem}")
