"""A result is printed as a table, as JSON or as Markdown, by one function."""

from __future__ import annotations

from pathlib import Path

import pytest

from slvmeval.cli import terminal
from tests.slvmeval.cli.running import Run, every_command, lacks


def test_show_prints_a_part_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    grid = terminal.Grid("two *pairs*", ("pair", "clips"), [("a|b", 3), ("<i>", 4)], numbers=1)

    def more() -> None:
        terminal.say("next: `slvmeval verify`", "  a_b *c*")

    terminal.show("markdown", {"pairs": 2}, grid, more)
    assert capsys.readouterr().out.splitlines() == [
        r"**two \*pairs\***",
        "",
        "| pair | clips |",
        "| --- | ---: |",
        r"| a\|b | 3 |",
        "| &lt;i&gt; | 4 |",
        "",
        "next: `slvmeval verify`",
        "",
        r"a\_b \*c\*",
        "",
    ]
    terminal.show("json", {"pairs": 2}, grid, more)
    assert capsys.readouterr().out == '{\n "pairs": 2\n}\n'
    # what follows is not Markdown any more
    terminal.show("table", {"pairs": 2}, grid, more)
    out = capsys.readouterr().out
    assert not lacks(out, "two *pairs*", "  a_b *c*\n")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("list evaluators", ["**evaluators**", "| evaluator | sees | needs | paid | settings |"]),
        ("list evaluators coin", ["**settings of coin**", "| setting | type | default | meaning |"]),
        ("pairs", ["**release main, version 1: 6 pairs**", "| --- | ---: | ---: | --- | --- | --- | --- |"]),
        ("status", ["**disk usage**", "| kind | count | size |"]),
        ("verify", ["release main, version 1: 6 pairs checked, all good"]),
        ("annotate simulate --pairs 20 --set runs=1", ["**a campaign**"]),
    ],
)
def test_command_prints_markdown(words: str, lines: list[str], judged_store: Path, run: Run) -> None:
    store = () if "simulate" in words else ("--store", judged_store)
    out = run(*words.split(), "--format", "markdown", *store).out
    assert set(lines) <= set(out.splitlines())
    assert "━" not in out


def test_commands_have_one_option_for_the_form() -> None:
    forms = {
        words: (option.opts, option.default)
        for words, command in every_command().items()
        for option in command.params
        if option.name == "output"
    }
    assert len(forms) > 25
    assert {(tuple(opts), default) for opts, default in forms.values()} == {(("--format",), "table")}
