"""Every command of the program is described, and every example on a page fits the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.docs import generated, reading
from tests.slvmeval.cli.running import every_command

ROOT = generated.ROOT


def test_every_command_has_its_line_and_an_example() -> None:
    page = ROOT / "docs" / "command-line.md"
    text = page.read_text(encoding="utf-8")
    examples = "".join(block.text for block in reading.blocks(page, "sh"))
    for words in every_command():
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
        names = (" ".join(words[:n]) for n in (3, 2, 1))
        name = next((name for name in names if name in every_command()), None)
        if name is None:
            assert words in (["--help"], ["COMMAND", "--help"], ["--install-completion"], ["--version"]), line
            continue
        known = {
            option for item in every_command()[name].params for option in (*item.opts, *item.secondary_opts)
        }
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert given <= {*known, "--help"}, line
