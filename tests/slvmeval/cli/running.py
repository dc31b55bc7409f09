"""Commands run in this process, what they print, and what texts say and do not say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple


class Printed(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """The output with single spaces, however its lines were folded."""
        return " ".join(self.out.split())

    @property
    def error(self) -> str:
        """The errors with single spaces, without the frame around them."""
        return " ".join(self.err.replace("│", " ").split())


@cache
def every_command() -> dict[str, Any]:
    """Each command by its words, as typer's groups look them up."""
    import typer.main
    from typer.core import TyperGroup

    from slvmeval.cli.main import app

    context: Any = None

    def walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
        if not isinstance(command, TyperGroup):
            yield " ".join(words), command
        else:
            for name in command.list_commands(context):
                yield from walk(command.get_command(context, name), (*words, name))

    return dict(walk(typer.main.get_command(app)))


#: `run("status", "--store", folder, code=1)` asserts the exit code.
Run = Callable[..., Printed]

#: Above the largest number of a process on Linux.
NO_PROCESS = 1 << 22


def lacks(text: str, *parts: str) -> list[str]:
    """Return the parts that a text lacks."""
    return [part for part in parts if part not in text]


def has(text: str, *parts: str) -> list[str]:
    """Return the parts that a text has."""
    return [part for part in parts if part in text]
