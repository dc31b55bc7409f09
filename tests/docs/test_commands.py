"""Every command of the program is described, and every example on a page fits the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from slvmeval.cli.main import app
from tests.docs import generated, reading

ROOT = generated.ROOT


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(words), command
    else:
        for name, sub in below.items():
            yield from commands(sub, (*words, name))


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", ALL)
def test_every_command_has_its_line_and_an_example(words: str) -> None:
    page = ROOT / "docs" / "command-line.md"
    assert f"| `slvmeval {words}` |" in page.read_text(encoding="utf-8")
    examples = "".join(block.text for block in reading.blocks(page, "sh"))
    assert re.search(rf"^slvmeval {words}( |$)", examples, re.MULTILINE)


def examples() -> list[tuple[str, str]]:
    result = []
    for path in generated.documents():
        name = str(path.relative_to(ROOT))
        for block in reading.blocks(path, "sh"):
            for line in block.text.splitlines():
                if re.match(r"\s*(\.venv/bin/)?slvmeval ", line):
                    result.append((name, line.strip()))
        result += [(name, text) for text in re.findall(r"`(slvmeval [^`…]+)`", reading.prose(path))]
    return sorted(set(result))


@pytest.mark.parametrize(("page", "line"), examples())
def test_examples_fit_the_program(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    name = next((" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in ALL), None)
    if name is None:
        assert words in (["--help"], ["COMMAND", "--help"], ["--install-completion"]), line
        return
    known = {option for item in ALL[name].params for option in (*item.opts, *item.secondary_opts)}
    for word in words:
        if word.startswith("-"):
            assert word.partition("=")[0] in {*known, "--help"}, f"{page}: {line}"
