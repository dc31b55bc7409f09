"""The command line itself: help, wrong usage, ends and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import slvmeval
from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.store import Store
from tests.slvmeval.cli.running import Run, every_command, has

ROOT = Path(__file__).parents[3]
MAX_COMMANDS, MAX_NAMES, MAX_HELP_LINES = 55, 100, 45


def test_commands_stay_few_and_teach_by_an_example(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers only shrink."""
    monkeypatch.setenv("COLUMNS", "80")
    assert len(every_command()) <= MAX_COMMANDS
    options = [option for command in every_command().values() for option in command.params]
    names = {name for one in options for name in (*one.opts, *one.secondary_opts) if name.startswith("--")}
    assert len(names) <= MAX_NAMES, sorted(names)
    for words, command in every_command().items():
        assert f"Example: `slvmeval {words}" in command.help, words
        shown = run(*words.split(), "--help").out
        assert "Usage:" in shown
        assert shown.count("\n") <= MAX_HELP_LINES, words


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
        *("--bogus", "bild", "init x --kind judge --cluster", "status --store=", "build --workers 0"),
        *("build", "build --dry-run", "captions a b c", "suite nothing"),
    ],
)
def test_wrong_usage_exits_2(words: str, run: Run) -> None:
    assert "Usage:" in run(*words.split(), code=2).err


def test_argument_may_begin_with_a_dash(run: Run, tmp_path: Path) -> None:
    assert "no store at" in run("captions", "-film", "--store", tmp_path, code=1).error
    for mistaken in (("captions", "-store", tmp_path), ("pairs", "-e")):
        assert "No such option: -" in run(*mistaken, code=2).error
    # a short option, or a name for one
    assert "No such option: -f" in (said := run("annotate", "-film", code=2).error)
    assert "goes after --, following all options: … -- -f" in said.replace("│ ", "")
    assert "dash" not in run("captions", "--film", code=2).error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("materialise --side zzz", "'--side': 'zzz' is not one of 'high', 'low'."),
        ("gc zzz", "'WHAT': 'zzz' is not one of 'frames',"),
        ("init x --kind zzz", "'--kind': 'zzz' is not one of 'judge',"),
        ("annotate workers a b zzz --note n", "'excluded|cleared': 'zzz' is not one of"),
        ("build --workers many", "'--workers': must be a whole number, not 'many'"),
        ("status --port 70000", "'--port': must be at most 65535, not '70000'"),
        ("pairs --source x", "No such option: --source: write --set source=…"),
        ("doctor --no-ask", "No such option: --no-ask: write --set ask=false"),
        ("report --margn 3", "No such option: --margn: write --set margin=…"),
        ("pairs --set sourc=x", "--set sourc: did you mean source?"),
        ("report --set margin=0", "must be at least 0.1 (got '0')"),
        # an option that would be ignored
        ("captions SOURCE --set csv=true", "--set csv: only for two analysers"),
        ("captions SOURCE --set max_shown=9", "--set max_shown: only for two analysers"),
        ("captions --clip 3 --raw", "--clip and --raw: only for a SOURCE"),
        ("captions --set csv=true --set max_shown=9", "--set max_shown: not with --set csv=true"),
        ("doctor --direct", "--direct: only with --gpu"),
        ("doctor --pool h100", "--pool: only with --gpu or --script"),
        ("doctor --gpu --set ask=false", "--set ask: not with --gpu"),
        ("doctor --script --gpu --set ask=false", "--gpu and --set ask: not with --script"),
        ("doctor --all --recipe paper", "--recipe: not with --all"),
        ("init x --kind judge --cluster", "--cluster: only for a project"),
        ("status --port 8000", "--port: only with --open"),
        ("status --open --watch", "--watch: not with --open"),
        ("pairs --pair a --aspect color", "--aspect: not with --pair"),
        ("verify --set tolerance=2", "--set tolerance: only with --against-ffmpeg N"),
        ("compare a b --open", "--open: only with --out DIR"),
        ("report --set margin=3", "--set margin: only with --against"),
        ("evaluate -e coin --set precision=3", "--set precision: only with --adaptive"),
        ("evaluate -e coin --no-wait", "--no-wait: only with --batch"),
        ("evaluate -e coin --set sample=3", "--set sample: only with --dry-run"),
        ("evaluate -e coin --dry-run --summary x", "--summary: not with --dry-run"),
        ("models add u2netp --kind u2net", "--kind: only for a FOLDER"),
        ("models add u2netp --set revision=1", "--set revision: the commit of a built-in model is fixed"),
        ("serve-llm --pool h100", "--pool: only with --submit or --script"),
        ("serve-llm --submit --port 1", "--port: only for the printed command"),
        ("submission make x --card c -e coin --partial", "--partial: only with --answers FILE"),
        ("submission make x --card c --answers f --set prices=p", "--set prices: not with --answers"),
        ("submission check x --public", "--public: only with --push ORG/NAME"),
        ("suite alignment --ratings r --common", "--common: only with --variant"),
        ("suite prompts review x --edit --edited", "--edited: not with --edit"),
        ("list suites --set again=true", "--set again: only for models"),
        ("list models --set again=true", "--set again: only with --deep"),
        ("gc --dry-run --set batch=b", "--set batch: not with --dry-run"),
        ("annotate workers --note n", "--note: only with a decision"),
        ("annotate workers a b cleared --note n --all", "--all: not with a decision"),
        ("annotate payments --reward 1", "--reward: only with --export FILE"),
        ("annotate payments --export x", "--reward: give the reward of an approved submission"),
        ("prompts x judges --dry-run", "AREA: not with --dry-run"),
    ],
)
def test_wrong_value_or_option_is_explained_in_plain_words(words: str, message: str, run: Run) -> None:
    said = run(*words.split(), code=2).error
    assert message in said
    assert not has(said, "Value error", "Input should")


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
def test_main_turns_an_end_into_a_message_and_an_exit_code(
    ending: Callable[[], None], code: int, message: str, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr("slvmeval.cli.terminal.open_store", lambda *_, **__: ending())
    assert run("status", code=code).err == message


def test_main_does_not_hide_an_unforeseen_error(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr("slvmeval.cli.terminal.open_store", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("status")


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
        ("-s /x ../up", "a release's name must have at most 64 letters"),
        ("-s /x --profile /none.toml", "profile /none.toml: No such file"),
        ("-s /x --set damaged=conceil", "damaged: must be"),
    ],
)
def test_build_names_wrong_words_before_any_work(words: str, message: str, tmp_path: Path, run: Run) -> None:
    store = tmp_path / "store"
    # what --set says is part of the command line, a name is looked up
    said = run("build", "--store", store, *words.split(), code=2 if "--set" in words else 1).error
    assert message in said
    assert not store.exists()


@pytest.mark.parametrize("kind", ["models", "served-models", "suites", "meta-sets", "batches", "schemas"])
def test_list_knows_json_and_names(kind: str, tmp_path: Path, run: Run) -> None:
    store = ("--store", Store.create(tmp_path / "store").root)
    assert run("list", kind, "--format", "json", *store).json is not None
    assert f"list {kind} no-such: " in run("list", kind, "no-such", *store, code=1).err


def test_sources_scan_names_its_own_argument(run: Run) -> None:
    assert "error: KIND:PATH foldr:/x: " in run("sources", "scan", "foldr:/x", code=1).err


def test_recipe_with_changes_is_not_called_by_the_old_name() -> None:
    from flows.release.options import recipe_with

    recipe = recipe_with("cpu-approx", ["clips_per_pair=3", "aspects.aesthetics.parameters.contrast=-0.5"])
    assert (recipe.name, recipe.clips_per_pair) == ("cpu-approx-changed", 3)
    assert recipe.parameters("aesthetics").model_dump()["contrast"] == -0.5
    assert recipe_with("cpu-approx", ["name=mine", "fps=1/2"]).name == "mine"
    with pytest.raises(UserInputError, match="'paper' is a built-in recipe with other values"):
        recipe_with("paper", ["name=paper", "clips_per_pair=3"])


def test_store_and_profile_may_stand_before_a_command(tmp_path: Path, run: Run) -> None:
    store = tmp_path / "none"
    for words in (["--store", store, "status"], [f"--store={store}", "status"], ["status", "--store", store]):
        assert f"no store at {store}" in run(*words, code=1).err
    assert "No such option: --store" in run("--store", store, "prompts", "x", code=2).error
    assert "next: slvmeval" in run("--store", store).out
    (tmp_path / "bad.toml").write_text("no_such = 1\n")
    assert "unknown key 'no_such'" in run("--profile", tmp_path / "bad.toml", "status", code=1).err
