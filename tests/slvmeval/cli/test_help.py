"""The command line itself: help, wrong usage, ends and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

import slvmeval
from slvmeval.cli.main import app
from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.store import Store
from tests.slvmeval.cli.running import Run

CONTEXT: Any = None
ROOT = Path(__file__).parents[3]
MAX_COMMANDS, MAX_NAMES, MAX_HELP_LINES = 63, 100, 45


def commands(command: object, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    # a group looks its suites up when they are used
    if not isinstance(command, TyperGroup):
        yield words, str(getattr(command, "help", ""))
    else:
        for name in command.list_commands(CONTEXT):
            yield from commands(command.get_command(CONTEXT, name), (*words, name))


@cache
def every_command() -> dict[str, str]:
    """The help of each command by its words."""
    return {" ".join(words): text for words, text in commands(typer.main.get_command(app))}


#: The commands below each word, as the documents name them.
COMMANDS = {
    "": (
        "list captions init build demo doctor status verify pairs gc gallery materialise export pull "
        "evaluate report compare jury leaderboard deploy run serve-llm"
    ),
    "sources": "scan categorise",
    "models": "add verify",
    "judgements": "export import give-up",
    "submission": "make check",
    "prompts": "export check from-paper",
    "meta-sets": "agreement proxy-study",
    "suite": "run leaderboard scores alignment correlations aesthetics-bound",
    "suite prompts": "make review statistics",
    "annotate": (
        "publish publish-ratings serve translate collect export import status links erase filter codes "
        "quality decide reconcile simulate backup restore"
    ),
}


def test_every_command_that_the_documents_name_teaches_by_an_example(run: Run) -> None:
    named = {f"{above} {name}".strip() for above, names in COMMANDS.items() for name in names.split()}
    assert every_command().keys() == named
    for words, text in every_command().items():
        assert f"Example: `slvmeval {words}" in text, words
        assert "Usage:" in run(*words.split(), "--help").out


def test_help_and_lists_load_nothing_heavy() -> None:
    code = (
        "import sys\nfrom slvmeval.cli.main import main\n"
        "heavy = {'torch', 'transformers', 'openai', 'cv2', 'zarr', 'prefect', 'dask', 'av', 'spacy'}\n"
        "for words in (['--help'], ['build', '--help']): assert main(words) == 0\n"
        "assert not (heavy | {'numpy', 'pyarrow'}) & set(sys.modules)\n"
        "assert main(['list', 'evaluators']) == 0\n"
        # it reads what the evaluators declare, and so imports their modules
        "assert not (heavy - {'cv2', 'av'}) & set(sys.modules), heavy & set(sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "gpt-5-video " in ran.stdout


def test_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version").out.strip() == slvmeval.__version__ == version("slvmeval")


def test_help_has_a_short_name(run: Run) -> None:
    assert run("build", "-h").out == run("build", "--help").out


@pytest.mark.parametrize(
    "words",
    [
        "--bogus",
        "bild",
        "init x --kind judge --cluster",
        "status --store=",
        "build --workers 0",
        "build",
        "build --dry-run",
        "captions a b c",
        "suite nothing",
    ],
)
def test_wrong_usage_exits_2(words: str, run: Run) -> None:
    assert "Usage:" in run(*words.split(), code=2).err


def test_a_name_may_begin_with_a_dash(run: Run, tmp_path: Path) -> None:
    assert "no store at" in run("captions", "-film", "--store", tmp_path, code=1).error
    for mistaken in (("captions", "-store", tmp_path), ("pairs", "-e")):
        assert "No such option: -" in run(*mistaken, code=2).error
    # a short option, or a name for one
    assert "No such option: -f" in (said := run("annotate", "-film", code=2).error)
    assert "follows -- behind all options: … -- -f" in said.replace("│ ", "")
    assert "dash" not in run("captions", "--film", code=2).error


def end_by_signal() -> None:
    """Raise an error in place of a termination."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        raise ZeroDivisionError


def raising(problem: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise problem

    return fail


RESUME = "interrupted; run the same command again to resume\n"


@pytest.mark.parametrize(
    ("ending", "code", "message"),
    [
        (raising(UserInputError("this is wrong: do that")), 1, "error: this is wrong: do that\n"),
        (raising(SetAside(Reason.OUT_OF_SPACE, "none left")), 1, "error: out_of_space: none left\n"),
        (raising(KeyboardInterrupt()), 130, RESUME),
        (end_by_signal, 143, RESUME),
    ],
)
def test_an_end_is_a_message_and_an_exit_code(
    ending: Callable[[], None], code: int, message: str, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr("slvmeval.cli.terminal.open_store", lambda *_, **__: ending())
    assert run("status", code=code).err == message


def test_an_unforeseen_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr("slvmeval.cli.terminal.open_store", lambda *_, **__: raising(ZeroDivisionError())())
    with pytest.raises(ZeroDivisionError):
        run("status")


def test_a_module_is_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slvmeval", "status", "--store", str(tmp_path / "none")]
    environment = os.environ | {"PYTHONUTF8": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "no store" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-s foldr:/x", "Did you mean 'folder:/x'?"),
        ("-s /x --recipe cpu-aprox", "Did you mean 'cpu-approx'?"),
        ("-s /x --recipe /none.toml", "recipe /none.toml: No such file"),
        ("-s /x --set clips_per_pairs=3", "Did you mean 'clips_per_pair'?"),
        ("-s /x --set aspects.colour.strength=1", "Did you mean 'color'?"),
        ("-s /x --set aspects.color.parameters.no_such=1", "no_such"),
        ("-s /x --set clips_per_pair", "write KEY=VALUE"),
        ("-s /x --set clips_per_pair=0", "clips_per_pair"),
        ("-s /x ../up", "a release's name has at most 64 letters"),
        ("-s /x --profile /none.toml", "profile /none.toml: No such file"),
        ("-s /x --set damaged=conceil", "damaged: must be"),
    ],
)
def test_what_cannot_be_meant_is_reported_before_any_work(
    words: str, message: str, tmp_path: Path, run: Run
) -> None:
    store = tmp_path / "store"
    said = run("build", "--store", store, *words.split(), code=1).err
    assert message in said
    assert not store.exists()


@pytest.mark.parametrize("kind", ["models", "served-models", "suites", "meta-sets", "batches", "schemas"])
def test_list_knows_json_and_names(kind: str, tmp_path: Path, run: Run) -> None:
    store = ("--store", Store.create(tmp_path / "store").root)
    assert run("list", kind, "--json", *store).json is not None
    assert f"list {kind} no-such: " in run("list", kind, "no-such", *store, code=1).err


def test_sources_scan_names_its_own_argument(run: Run) -> None:
    assert "error: KIND:PATH foldr:/x: " in run("sources", "scan", "foldr:/x", code=1).err


def test_a_changed_recipe_is_not_called_by_the_old_name() -> None:
    from flows.release.options import recipe_with

    recipe = recipe_with("cpu-approx", ["clips_per_pair=3", "aspects.aesthetics.parameters.contrast=-0.5"])
    assert (recipe.name, recipe.clips_per_pair) == ("cpu-approx-changed", 3)
    assert recipe.parameters("aesthetics").model_dump()["contrast"] == -0.5
    assert recipe_with("cpu-approx", ["name=mine", "fps=1/2"]).name == "mine"
    with pytest.raises(UserInputError, match="'paper' is a built-in recipe with other values"):
        recipe_with("paper", ["name=paper", "clips_per_pair=3"])


def test_the_store_and_the_profile_may_stand_before_a_command(tmp_path: Path, run: Run) -> None:
    store = tmp_path / "none"
    for words in (["--store", store, "status"], [f"--store={store}", "status"], ["status", "--store", store]):
        assert f"no store at {store}" in run(*words, code=1).err
    assert "No such option: --store" in run("--store", store, "prompts", "export", "x", code=2).error
    assert "next: slvmeval" in run("--store", store).out
    (tmp_path / "bad.toml").write_text("no_such = 1\n")
    assert "unknown key 'no_such'" in run("--profile", tmp_path / "bad.toml", "status", code=1).err


def all_commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield words, command
    else:
        for name, sub in below.items():
            yield from all_commands(sub, (*words, name))


def test_the_command_line_stays_small(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """These numbers only shrink; the aims are 55 commands, 100 names and 45 lines."""
    monkeypatch.setenv("COLUMNS", "80")
    commands = dict(all_commands(typer.main.get_command(app)))
    assert len(commands) <= MAX_COMMANDS
    names = {
        name
        for command in commands.values()
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }
    assert len(names) <= MAX_NAMES, sorted(names)
    lines = {" ".join(words): run(*words, "--help").out.count("\n") for words in commands}
    assert max(lines.values()) <= MAX_HELP_LINES, sorted(lines.items(), key=lambda one: one[1])[-5:]
