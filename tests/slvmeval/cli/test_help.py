from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from slvmeval.cli.main import app, main
from storage_schemas.errors import Reason, SetAside, UserInputError

ROOT = Path(__file__).parents[3]


def commands(command: object, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield words, str(getattr(command, "help", ""))
    else:
        for name, sub in below.items():
            yield from commands(sub, (*words, name))


ALL = list(commands(typer.main.get_command(app)))


def test_the_commands_are_those_that_the_documents_name() -> None:
    assert {" ".join(words) for words, _ in ALL} == {
        *("init", "build", "retry", "plan", "demo", "doctor", "status", "open", "verify", "gc"),
        *("gallery", "materialise", "export", "pull", "pairs list", "pairs show", "sources scan"),
        "sources categorise",
        *("schema show", "models list", "models fetch", "models add", "models verify", "models path"),
        *("evaluate", "evaluators list", "evaluators new", "judgements export", "judgements import"),
        *("report", "compare", "submission make", "submission check", "submission push", "submission pull"),
        "leaderboard",
        *("prompts list", "prompts export", "prompts check"),
        *("meta-sets list", "meta-sets check", "meta-sets agreement", "meta-sets proxy-study"),
        *("suite list", "suite video-bench", "suite locot2v-bench", "suite manifest", "suite leaderboard"),
        *("suite scores", "suite alignment", "suite ablations", "suite correlations"),
        "suite aesthetics-bound",
        *("suite prompts make", "suite prompts review", "suite prompts accept", "suite prompts statistics"),
        *("slurm script", "gpu-check", "deploy", "run", "serve-llm", "captions compare", "captions show"),
        *("annotate publish", "annotate publish-ratings", "annotate serve", "annotate translate"),
        "annotate collect",
        *("annotate export", "annotate import", "annotate status", "annotate links", "annotate erase"),
        *("annotate filter", "annotate retention", "annotate codes"),
        *("annotate quality", "annotate exclude", "annotate clear", "annotate simulate"),
        *("annotate backup", "annotate restore"),
    }


@pytest.mark.parametrize(("words", "text"), ALL, ids=[" ".join(words) for words, _ in ALL])
def test_every_command_teaches_by_an_example(
    words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"Example: `slvmeval {' '.join(words)}" in text
    assert main([*words, "--help"]) == 0
    assert "Usage:" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--help"], ["build", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        f"import sys\nfrom slvmeval.cli.main import main\nassert main({words!r}) == 0\n"
        "heavy = {'numpy', 'prefect', 'dask', 'zarr', 'cv2', 'av', 'pyarrow', 'spacy', 'torch'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "words", [["--bogus"], ["bild"], ["build", "--workers", "0"], ["build"], ["plan"], ["pairs", "show"]]
)
def test_wrong_usage_exits_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "Usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (UserInputError("this is wrong: do that"), "error: this is wrong: do that\n"),
        (SetAside(Reason.OUT_OF_SPACE, "no space left"), "error: out_of_space: no space left\n"),
    ],
)
def test_our_errors_are_a_message_and_exit_1(
    problem: Exception, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr("slvmeval.cli.terminal.settings", fail)
    assert main(["status"]) == 1
    assert capsys.readouterr().err == message


def test_an_interrupt_says_how_to_resume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("slvmeval.cli.terminal.settings", interrupt)
    assert main(["status"]) == 130
    assert "interrupted; run the same command again to resume" in capsys.readouterr().err


def test_an_error_in_place_of_a_termination_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            raise ZeroDivisionError

    monkeypatch.setattr("slvmeval.cli.terminal.settings", end)
    assert main(["status"]) == 143
    assert "interrupted; run the same command again to resume" in capsys.readouterr().err


def test_an_unforeseen_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("slvmeval.cli.terminal.settings", fail)
    with pytest.raises(ZeroDivisionError):
        main(["status"])


def test_a_module_is_the_command(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "slvmeval", "status", "--store", str(tmp_path / "none")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert ran.returncode == 1
    assert "no store" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-s", "foldr:/x"], "Did you mean 'folder:/x'?"),
        (["-s", "/x", "--recipe", "cpu-aprox"], "Did you mean 'cpu-approx'?"),
        (["-s", "/x", "--recipe", "/none.toml"], "recipe /none.toml: No such file"),
        (["-s", "/x", "--set", "clips_per_pairs=3"], "Did you mean 'clips_per_pair'?"),
        (["-s", "/x", "--set", "aspects.colour.strength=1"], "Did you mean 'color'?"),
        (["-s", "/x", "--set", "aspects.color.parameters.no_such=1"], "no_such"),
        (["-s", "/x", "--set", "clips_per_pair"], "write KEY=VALUE"),
        (["-s", "/x", "--set", "clips_per_pair=0"], "clips_per_pair"),
        (["-s", "/x", "--release", "../up"], "a release's name has at most 64 letters"),
        (["-s", "/x", "--profile", "/none.toml"], "profile /none.toml: No such file"),
    ],
)
def test_what_cannot_be_meant_is_said_before_any_work(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    assert main(["build", "--store", str(store), *words]) == 1
    assert message in capsys.readouterr().err
    assert not store.exists()


def test_a_changed_recipe_is_not_called_by_the_old_name() -> None:
    from flows.build.options import recipe_with

    recipe = recipe_with("cpu-approx", ["clips_per_pair=3", "aspects.aesthetics.parameters.contrast=-0.5"])
    assert (recipe.name, recipe.clips_per_pair) == ("cpu-approx-changed", 3)
    assert recipe.parameters("aesthetics").model_dump()["contrast"] == -0.5
    assert recipe_with("cpu-approx", ["name=mine", "fps=1/2"]).name == "mine"
    with pytest.raises(UserInputError, match="'paper' is a built-in recipe with other values"):
        recipe_with("paper", ["name=paper", "clips_per_pair=3"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["qwen-image-edit-2509"], "is a model of kind image-editor, which builds load themselves"),
        (["--name", "../x"], "--name '../x': use at most 64 letters"),
        (["--name", "x\n#SBATCH --uid=0", "--script"], "use at most 64 letters"),
    ],
)
def test_what_cannot_be_served_is_said(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve-llm", *words]) == 1
    printed = capsys.readouterr()
    assert message in printed.err
    assert not printed.out


@pytest.mark.parametrize("command", ["build", "plan"])
def test_a_rule_for_damaged_videos_that_does_not_exist_is_named_by_its_option(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [command, "-s", str(tmp_path), "--store", str(tmp_path / "store"), "--damaged", "conceil"]
    assert main(words) == 1
    assert capsys.readouterr().err == "error: --damaged conceil: did you mean conceal?\n"
