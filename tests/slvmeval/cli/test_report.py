from __future__ import annotations

from pathlib import Path

import pytest

from slvmeval.cli.main import main


def test_a_report_on_what_was_judged(
    judged_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(judged_store)]
    out = tmp_path / "report"
    assert main(["report", *store, "--out", str(out)]) == 1
    assert "nobody has judged release" in capsys.readouterr().err
    judges = ["-e", "duration", "-e", "coin"]
    assert main(["evaluate", *store, *judges, "--direct", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["report", *store, "--out", str(out), "--quiet", "--interval", "wilson"]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == str(out / "index.html")
    assert printed.err == ""
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Wilson&#39;s 95 % interval, n = pairs" in page
    accuracy = (out / "tables" / "accuracy.csv").read_text(encoding="utf-8")
    # removing a clip makes the video shorter, so duration is right
    assert "comprehensiveness,duration," in accuracy
    line = next(line for line in accuracy.splitlines() if line.startswith("comprehensiveness,duration,"))
    assert line.split(",")[3] == "1.0"
    assert (
        main(["report", *store, "--out", str(out), "--quiet", "-e", "coin", "--public", "--pair-pages", "0"])
        == 0
    )
    assert "duration" not in (out / "tables" / "accuracy.csv").read_text(encoding="utf-8")


def test_two_evaluators_are_compared(
    judged_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(judged_store)]
    assert main(["evaluate", *store, "-e", "duration", "-e", "coin", "--direct", "--quiet"]) == 0
    capsys.readouterr()
    out = tmp_path / "out"
    assert main(["compare", "duration", "coin", *store]) == 0
    printed = capsys.readouterr().out
    assert "duration against coin" in printed
    assert "Nothing is shown for" in printed
    assert main(["compare", "duration", "coin", *store, "--out", str(out), "--points", "10"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(out / "comparison.html")
    assert "pairs for 10 points" in (out / "comparison.html").read_text(encoding="utf-8")
    assert main(["compare", "duration", "cion", *store]) == 1
    assert "did you mean coin?" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    assert main(["compare", "duration", "coin", *store, "--out", str(tmp_path / "mine")]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--interval", "bayes"], "--interval bayes: choose clustered, wilson or paper"),
        (["--ties", "never"], "--ties never: choose half, wrong or dropped"),
        (["-e", "cion"], "no judgement of release"),
    ],
)
def test_what_cannot_be_meant_is_said(
    judged_store: Path, tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--store", str(judged_store), "--out", str(tmp_path / "out"), *words]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_report_against_published_values(
    judged_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(judged_store)]
    assert main(["evaluate", *store, "-e", "duration", "--direct", "--quiet"]) == 0
    capsys.readouterr()
    out = tmp_path / "report"
    assert main(["report", *store, "--out", str(out), "--quiet", "--against", "paper"]) == 0
    printed = capsys.readouterr()
    # both have only the release's facts in common
    assert "The release, against SLVMEval" in printed.out
    assert "57,883.5" in printed.out
    assert "evaluator gpt-5-video (table 2): it has no answers on this release: not compared" in printed.err
    assert "table 3: These pairs have no votes yet: not compared" in printed.err
    file = tmp_path / "mine.toml"
    file.write_text(
        "[[tables]]\ntable = '4'\nsection = '1'\ngives = 'accuracy'\n"
        "columns = ['comprehensiveness', 'colour']\n[tables.rows]\nduration = ['90.0±5.0', '50.0']\n"
    )
    words = ["report", *store, "--out", str(out), "--quiet", "--against", str(file)]
    assert main(words) == 3
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        "table 4: unknown aspect 'colour' in accuracy (did you mean color?): not compared"
    ]
    line = next(line for line in printed.out.splitlines() if "Comprehensiveness" in line)
    assert line.split()[:8] == [
        "Comprehensiveness",
        "100.0",
        "0.0",
        "90.0",
        "5.0",
        "+10.0",
        "5.0",
        "duration",
    ]
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "pub. 90.0±5.0" in page
    assert "diff. +10.0±5.0" in page
    assert "Against" in page
    assert (out / "paper" / "table-2.tex").is_file()
    assert (out / "tables" / "against-accuracy.csv").is_file()


def test_a_file_of_published_values_that_is_not_there(
    judged_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["report", "--store", str(judged_store), "--out", str(out), "--against", "papr"]) == 1
    assert "--against papr: No such file or directory; write paper, or the path" in capsys.readouterr().err
    assert not out.exists()
