"""Options that commands have from models, and the forms in which they print a result."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

import flows
from flows.annotate.parameters import AnnotateParameters
from flows.extras.prompt_suite.parameters import PromptsParameters
from flows.parameters import FlowParameters, Given, given
from flows.release.parameters import BuildParameters
from flows.score.parameters import EvaluateParameters, SuiteParameters
from slvmeval.cli import declared, main, terminal
from slvmeval.cli.declared import Only, Without, with_options
from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from tests.slvmeval.cli.running import Run, every_command, lacks


class Asked(Frozen):
    """A field of each kind."""

    where: Annotated[str, Given(("where",), "DIR", path=True)] = Field(description="A folder.")
    files: Annotated[tuple[str, ...], Given(("--file", "-f"), path=True)] = Field(
        default=(), description="F."
    )
    numbers: tuple[int, ...] = Field(default=(), description="Some.")
    count: int | None = Field(default=None, ge=1, le=9, description="How many.")
    fast: bool = Field(default=False, description="Hurry.")
    wait: bool = Field(default=True, description="Stay.")
    key: Annotated[str, Given(variable="A_KEY")] = Field(default="", max_length=3, description="A key.")


def asked(*words: str, of: Any = Asked, **environment: str) -> tuple[Any, str]:
    """Return what a command got, and what it printed."""
    got = []

    def command(asked: of, more: Annotated[int, typer.Option("--more", help="Its own.")] = 0) -> None:
        got.append((asked, more))

    app = typer.Typer()
    command.__annotations__["asked"] = of
    app.command()(with_options(command))
    ran = CliRunner().invoke(app, words, env=environment)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return (got[0] if got else None), ran.output


def test_a_command_gets_a_model_of_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    assert asked(".")[0] == (Asked(where=here), 0)
    words = ". -f a --file /b --numbers 1 --numbers 2 --count 9 --fast --no-wait --more 3"
    (got, more), _ = asked(*words.split(), A_KEY="k")
    assert more == 3
    assert got == Asked(
        where=here, files=(f"{here}/a", "/b"), numbers=(1, 2), count=9, fast=True, wait=False, key="k"
    )
    with pytest.raises(UserInputError, match="key: "):
        asked(".", "--key", "long")
    for wrong in ("", ". --count 10", ". --count 0", ". --fast 1"):
        assert "Usage:" in asked(*wrong.split())[1]


def test_rare_fields_are_given_by_set() -> None:
    class Rare(Frozen):
        most: Annotated[int, Given(("--max-shown",), by_set=True)] = Field(default=1, le=9, description="M.")
        words: Annotated[tuple[str, ...], Given(by_set=True)] = Field(default=(), description="W.")

    words = "--set max_shown=3 --set words=a --set words=b=c"
    assert asked(*words.split(), of=Rare)[0][0] == Rare(most=3, words=("a", "b=c"))
    assert asked(of=Rare)[0][0] == Rare()
    assert "max_shown: must be at most 9" in " ".join(asked("--set", "max_shown=10", of=Rare)[1].split())
    assert "max_shown=…: M; words=…: W" in " ".join(asked("--help", of=Rare)[1].replace("│", " ").split())
    assert "words has no value: write words=VALUE" in asked("--set", "words", of=Rare)[1]
    assert "did you mean max_shown?" in asked("--set", "max_show=3", of=Rare)[1]


def test_a_command_may_take_some_fields_of_a_model() -> None:
    assert asked(".", "--fast", of=Annotated[Asked, Only("where", "fast")])[0][0].fast
    assert "--count" not in asked("--help", of=Annotated[Asked, Only("where", "fast")])[1]
    assert "No such option" in asked(".", "--fast", of=Annotated[Asked, Without("fast")])[1]


#: Steps before and after the publishing, which are commands of their own.
OF_THE_FLOW_ALONE = (
    *("translate_into", "translation_model", "translation_server", "prompts", "plain_sampling"),
    *("version", "filter_when", "filtered"),
)


@pytest.mark.parametrize(
    ("words", "model", "without"),
    [
        ("build", BuildParameters, ("settle_s", "damaged")),
        ("evaluate", EvaluateParameters, ("version", "evaluators_file")),
        ("suite run", SuiteParameters, ("suite",)),
        ("suite prompts make", PromptsParameters, ()),
        ("annotate publish", AnnotateParameters, OF_THE_FLOW_ALONE),
    ],
)
def test_form_and_command_say_the_same_of_each_field(
    words: str, model: type[FlowParameters], without: tuple[str, ...]
) -> None:
    command: Any = typer.main.get_command(main.app)
    for word in words.split():
        command = command.get_command(None, word)
    of_command = {parameter.name: parameter for parameter in command.params}
    for name, (_, _, description) in model.form().items():
        if name not in without and not given(model.model_fields[name]).by_set:
            assert of_command[name].help.removeprefix("Do not ")[1:].startswith(description[1:])


CLI = Path(declared.__file__).parent
#: The commands of the core and of the extras.
COMMAND_FILES = sorted([*CLI.rglob("*.py"), *(CLI.parent / "extras").rglob("*.py")])


def declarations(of: str, under: Iterable[Path]) -> Iterator[tuple[Path, ast.Call]]:
    """Yield the calls of a function, by its name, with their files."""
    for path in under:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == of:
                yield path, node


def test_only_the_layer_makes_options() -> None:
    """An option is a field: `typer.Option` and `typer.Argument` stand in one file."""
    made = {path for of in ("Option", "Argument") for path, _ in declarations(of, COMMAND_FILES)}
    assert made <= {CLI / "declared.py", CLI / "here.py", CLI / "help.py"}


def test_the_help_of_an_option_is_written_once() -> None:
    """No two fields have the same sentence: what several commands take is one type, or one base."""
    files = [*COMMAND_FILES, *Path(flows.__file__).parent.rglob("parameters.py")]
    seen = Counter[str]()
    for _, call in declarations("Field", files):
        seen.update(ast.unparse(word.value) for word in call.keywords if word.arg == "description")
    assert [text for text, times in seen.items() if times > 1] == []


# -- forms of a result -----------------------------------------------------------------------------------


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
