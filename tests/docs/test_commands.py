"""Every command of the program is described, and every example on a page fits the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from slvmeval.cli.main import app
from tests.docs import generated, reading

CONTEXT: Any = None
ROOT = generated.ROOT


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    # a group looks its suites up when they are used
    if not isinstance(command, TyperGroup):
        yield " ".join(words), command
    else:
        for name in command.list_commands(CONTEXT):
            yield from commands(command.get_command(CONTEXT, name), (*words, name))


ALL = dict(commands(typer.main.get_command(app)))


def test_every_command_has_its_line_and_an_example() -> None:
    page = ROOT / "docs" / "command-line.md"
    text = page.read_text(encoding="utf-8")
    examples = "".join(block.text for block in reading.blocks(page, "sh"))
    for words in ALL:
        assert f"| `slvmeval {words}` |" in text, words
        assert re.search(rf"^slvmeval {words}( |$)", examples, re.MULTILINE), words


def examples(path: Path) -> set[str]:
    """Return the commands of this program in a document's blocks and sentences."""
    lines = [line.strip() for block in reading.blocks(path, "sh") for line in block.text.splitlines()]
    found = {line for line in lines if re.match(r"(\.venv/bin/)?slvmeval ", line)}
    return found | set(re.findall(r"`(slvmeval [^`…]+)`", reading.prose(path)))


@pytest.mark.parametrize("path", generated.documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_fit_the_program(path: Path) -> None:
    for line in sorted(examples(path)):
        words = shlex.split(line, comments=True)[1:]
        name = next((" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in ALL), None)
        if name is None:
            assert words in (["--help"], ["COMMAND", "--help"], ["--install-completion"], ["--version"]), line
            continue
        known = {option for item in ALL[name].params for option in (*item.opts, *item.secondary_opts)}
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert given <= {*known, "--help"}, line
