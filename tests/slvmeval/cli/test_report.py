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
    said = capsys.readouterr()
    assert said.out.strip() == str(out / "index.html") and said.err == ""
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Wilson&#39;s 95 % interval, n = pairs" in page
    accuracy = (out / "tables" / "accuracy.csv").read_text(encoding="utf-8")
    # a removed clip makes a shorter video, which the duration tells
    assert "comprehensiveness,duration," in accuracy
    line = next(line for line in accuracy.splitlines() if line.startswith("comprehensiveness,duration,"))
    assert line.split(",")[3] == "1.0"
    assert (
        main(["report", *store, "--out", str(out), "--quiet", "-e", "coin", "--public", "--pairs", "0"]) == 0
    )
    assert "duration" not in (out / "tables" / "accuracy.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--interval", "bayes"], "--interval bayes: choose clustered, wilson or paper"),
        (["--ties", "never"], "--ties never: choose half, wrong or dropped"),
        (["-e", "cion"], "no judgement of release"),
    ],
)
def test_what_cannot_be_meant_is_said(
    judged_store: Path, tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--store", str(judged_store), "--out", str(tmp_path / "out"), *words]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
