"""`report`, `compare` and `submission` on a release that baselines judged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.once import Once
from tests.slvmeval.cli.running import Run, lacks

pytestmark = pytest.mark.usefixtures("figures_unsaved")


@pytest.fixture
def judged(once: Once, judged_store: Path, run: Run) -> Path:
    """The store with the answers of `duration` and `coin`."""

    def make(folder: Path) -> None:
        judges = ("-e", "duration", "-e", "coin")
        run("evaluate", "--store", judged_store, *judges, "--direct", "--quiet")
        shutil.copytree(judged_store / "judgements", folder / "judgements")

    made = once("judged-by-baselines", make) / "judgements"
    shutil.copytree(made, judged_store / "judgements", dirs_exist_ok=True)
    return judged_store


def test_a_report_on_what_was_judged_against_published_values(judged: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "report"
    words: tuple[object, ...] = ("report", "--store", judged, "--out", out, "--quiet")
    # all that judged are shown unless some are named, with a page for each pair
    printed = run(*words, "--against", "paper")
    accuracy = (out / "tables" / "accuracy.csv").read_text(encoding="utf-8")
    assert not lacks(accuracy, "comprehensiveness,duration,", "comprehensiveness,coin,")
    words = (*words, "--set", "max_shown=0")
    # both have only the release's facts in common
    assert not lacks(printed.out, "The release, against SLVMEval", "57,883.5")
    assert "evaluator gpt-5-video (table 2): it has no answers here: not compared" in printed.err
    assert "table 3: These pairs have no votes yet: not compared" in printed.err
    file = tmp_path / "mine.toml"
    file.write_text(
        "[[tables]]\ntable = '4'\nsection = '1'\ngives = 'accuracy'\n"
        "columns = ['comprehensiveness', 'colour']\n[tables.rows]\nduration = ['90.0±5.0', '50.0']\n"
    )
    printed = run(*words, "-e", "duration", "--set", "interval=wilson", "--against", file, code=3)
    unknown = "table 4: unknown aspect 'colour' in accuracy (did you mean color?): not compared"
    assert printed.err.splitlines() == [unknown]
    # removing a clip makes the video shorter, so duration is right
    line = next(line for line in printed.out.splitlines() if "Comprehensiveness" in line)
    # of few pairs nothing is concluded, however great the difference
    assert line.split()[:4] == "Comprehensiveness 100.0 90.0 +10.0".split()
    assert "inconclusive" in line
    page = (out / "index.html").read_text(encoding="utf-8")
    for shown in ("Wilson&#39;s 95 % interval, n = pairs", "pub. 90.0±5.0", "diff. +10.0 (inc", "Against"):
        assert shown in page
    assert (out / "paper" / "table-2.tex").is_file()
    assert (out / "tables" / "against-accuracy.csv").is_file()
    accuracy = (out / "tables" / "accuracy.csv").read_text(encoding="utf-8")
    line = next(line for line in accuracy.splitlines() if line.startswith("comprehensiveness,duration,"))
    assert line.split(",")[3] == "1.0"
    printed = run(*words, "-e", "coin", "--public")
    assert (printed.out.strip(), printed.err) == (str(out / "index.html"), "")
    assert "duration" not in (out / "tables" / "accuracy.csv").read_text(encoding="utf-8")


def test_two_evaluators_are_compared(judged: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    words = ("compare", "duration", "coin", "--store", judged)
    printed = run(*words).out
    assert not lacks(printed, "duration against coin", "No significant difference for")
    lines = run(*words, "--out", out, "--set", "points=10").out.splitlines()
    assert lines[-1] == str(out / "comparison.html")
    assert "pairs for 10 points" in (out / "comparison.html").read_text(encoding="utf-8")
    assert "did you mean coin?" in run("compare", "duration", "cion", "--store", judged, code=1).err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    run(*words, "--out", tmp_path / "mine", code=1)


def test_a_jury_is_asked_from_stored_answers(judged: Path, run: Run) -> None:
    words = ("jury", "--store", judged, "--set", "max_members=1", "--max-dollars", "0")
    assert "best of 1" in run(*words).out
    made = run(*words, "-e", "duration", "-e", "coin", "--format", "json").json
    assert {row["jury"] for row in made["juries"]} >= {"majority", "best of 1"}
    assert [(row["evaluator"], row["usd"]) for row in made["jury-members"]] == [("duration", 0), ("coin", 0)]
    (alike,) = made["error-agreement"]
    assert (alike["first"], alike["second"]) == ("duration", "coin")
    assert "did you mean coin?" in run(*words, "-e", "cion", "-e", "duration", code=1).err
    assert "name two different evaluators" in run(*words, "-e", "coin", "-e", "coin", code=1).err
    assert "name two different evaluators" in run(*words, "-e", "coin", code=1).err


def test_what_cannot_be_meant_is_reported(judged_store: Path, tmp_path: Path, run: Run) -> None:
    report = ("report", "--store", judged_store, "--out", tmp_path / "out")
    for words, message in (
        ((), "no judgements yet for release"),
        (("-e", "cion"), "no judgement of release"),
        (("--against", "papr"), "--against papr: No such file or directory; write paper, or the path"),
    ):
        assert message in run(*report, *words, code=1).err
        assert not (tmp_path / "out").exists()


def test_pairs_of_an_aspect_that_the_release_has_not_are_refused(judged_store: Path, run: Run) -> None:
    words = ("--aspect", "aestetics", "--store", judged_store)
    assert "did you mean aesthetics?" in run("pairs", *words, code=1).err
    store = ("--store", judged_store)
    assert "has no source 'zzz'" in run("pairs", "--set", "source=zzz", *store, code=1).err


@pytest.mark.parametrize("key", ["interval", "ties", "failures"])
def test_report_with_a_choice_that_there_is_not_is_wrong_usage(key: str, tmp_path: Path, run: Run) -> None:
    said = run("report", "--out", tmp_path / "out", "--set", f"{key}=never", code=2).error
    assert f"{key}: must be" in said


def test_from_answers_to_a_leaderboard(judged_store: Path, tmp_path: Path, run: Run) -> None:
    store = ("--store", judged_store)
    evaluate = ("evaluate", *store, "-e", "coin", "--direct", "--quiet")
    card, file, board = tmp_path / "card.toml", tmp_path / "coin.json", tmp_path / "board"
    card.write_text('name = "A coin"\nauthors = ["A. Person"]\n')
    more = ("-e", "coin", "--card", card, *store)
    make = ("submission", "make", file, *more)
    assert "there are none" in run(*make, code=1).err
    run(*evaluate, "--aspect", "aesthetics")
    assert "nothing in place of" in run(*make, code=1).err
    assert not list(tmp_path.glob("*.json"))
    run(*evaluate)
    assert "answers, 0 of them failures" in run(*make).out
    assert "did you mean coin?" in run("submission", "make", file, "-e", "cion", *more[2:], code=1).err
    assert "is given twice" in run(*make, "-e", "duration", code=2).error
    output = run("submission", "check", file, *store).out
    assert not lacks(output, "A coin: ", "aesthetics")
    assert "directory" in run("submission", "make", tmp_path, *more, code=2).err
    broken = tmp_path / "broken.json"
    broken.write_text(file.read_text(encoding="utf-8").replace('"orders": "one"', '"orders": "both"'))
    assert "is invalid" in run("submission", "check", broken, *store, code=1).err
    card.rename(tmp_path / "folder.toml")
    run("leaderboard", tmp_path, *store, "--out", board, code=3)
    page = (board / "index.html").read_text(encoding="utf-8")
    assert not lacks(page, "A coin", "broken.json")
    assert str(tmp_path) not in page
    run("leaderboard", file, *store, "--out", board, "--set", "interval=wilson")
    assert "broken.json" not in (board / "index.html").read_text(encoding="utf-8")
    before = (board / "index.html").read_bytes()
    assert "there is no" in run("leaderboard", tmp_path / "no.json", *store, "--out", board, code=1).err
    assert "none of the" in run("leaderboard", broken, *store, "--out", board, code=1).err
    assert (board / "index.html").read_bytes() == before
