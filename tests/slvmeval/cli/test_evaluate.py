"""The commands `evaluate`, `evaluators` and `judgements`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slvmeval.cli.main import main
from tests.planted_evaluators import PlantedPackage

Capture = pytest.CaptureFixture[str]


def test_baselines_judge_and_the_answers_go_to_another_store(
    judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    words = ["evaluate", "-e", "duration", "-e", "coin", "--direct", "--workers", "1", "--quiet"]
    summary = tmp_path / "summary.json"
    assert main([*words, "--store", str(judged_store), "--summary", str(summary)]) == 0
    output = capsys.readouterr().out
    assert "release main, version 1: 6 pairs" in output
    assert "duration" in output
    values = json.loads(summary.read_text())["evaluators"]
    assert values["coin"]["asked"] == 6
    assert values["duration"]["aspects"]["aesthetics"]["answered"] == 2
    # repeating it sends no requests
    assert main([*words, "--store", str(judged_store), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["evaluators"]
    assert (again["coin"]["asked"], again["coin"]["found_before"]) == (0, 6)
    file = tmp_path / "mine.parquet"
    assert main(["judgements", "export", str(file), "--store", str(judged_store)]) == 0
    assert main(["judgements", "import", str(file), "--store", str(judged_store)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"12 judgements: {file}", "0 judgements were added"]
    assert main(["judgements", "export", str(file.parent), "--store", str(judged_store)]) == 2
    assert "directory" in capsys.readouterr().err


def test_a_dry_run_says_what_then_happens(
    judged_store: Path, planted: PlantedPackage, tmp_path: Path, capsys: Capture
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        'as_of = "2026-11-22"\nsource = "a list"\n[models.toy]\ninput_per_million = 1000\n'
        "output_per_million = 0\n"
    )
    words = ["evaluate", "-e", "planted?tokens=250", "-e", "lengths", "--store", str(judged_store)]
    words += ["--prices", str(prices)]
    assert main([*words, "--dry-run", "--json", "--quiet"]) == 0
    output = json.loads(capsys.readouterr().out)
    rows = {(row["evaluator"], row["aspect"]): row for row in output["rows"]}
    assert output["prices_as_of"] == "2026-11-22"
    assert len(rows) == 6
    one = {"requests": 4, "calls": 4, "images": 8, "tokens_in": 1000, "tokens_out": 0, "usd": 1.0}
    assert rows["right", "aesthetics"] == {"evaluator": "right", "aspect": "aesthetics", **one}
    assert rows["lengths", "aesthetics"]["usd"] is None
    assert rows["lengths", "aesthetics"]["requests"] == 2
    assert not planted.asked("right")
    assert not (judged_store / "judgements").exists()
    assert main([*words, "--dry-run", "--sample", "1", "--quiet"]) == 0
    assert "prices of 2026-11-22" in capsys.readouterr().out
    assert main([*words, "--direct", "--workers", "1", "--quiet", "--json"]) == 0
    happened = json.loads(capsys.readouterr().out)["evaluators"]["right"]
    assert (happened["asked"], happened["tokens"], happened["usd"]) == (12, 3000, pytest.approx(3.0))


def test_exit_codes(judged_store: Path, planted: PlantedPackage, capsys: Capture) -> None:
    words = ["--direct", "--workers", "1", "--quiet", "--store", str(judged_store)]
    assert main(["evaluate", *words]) == 2
    assert main(["evaluate", "-e", "lenghts", *words]) == 1
    assert "did you mean lengths" in capsys.readouterr().err
    assert main(["evaluate", "-e", "planted?mood=missing", *words]) == 1
    assert "weights are missing" in capsys.readouterr().err
    assert main(["evaluate", "-e", "planted?mood=missing", "-e", "lengths", *words]) == 3
    assert "missing stopped: weights are missing" in capsys.readouterr().out
    assert main(["evaluate", "other", "-e", "lengths", *words]) == 1


def test_evaluators_from_a_file(
    judged_store: Path, planted: PlantedPackage, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "judges.toml"
    file.write_text(
        '[evaluators.planted-fast]\nuse = "planted"\nconcurrency = 4\nrequests_per_minute = 6000\n'
        '[evaluators.planted-first]\nuse = "planted"\nmood = "first"\n'
    )
    words = ["evaluate", "--evaluators", str(file), "--aspect", "aesthetics", "--json", "--quiet"]
    assert main([*words, "--direct", "--workers", "1", "--store", str(judged_store)]) == 0
    output = json.loads(capsys.readouterr().out)["evaluators"]
    assert {name: one["asked"] for name, one in output.items()} == {"planted-fast": 4, "planted-first": 4}
    file.write_text("evaluators = 3")
    assert main([*words, "--store", str(judged_store)]) == 1
    assert "[evaluators.LABEL]" in capsys.readouterr().err


def test_listing_imports_no_heavy_library() -> None:
    script = (
        "import sys; from slvmeval.cli.main import main; main(['evaluators', 'list']);"
        "print([m for m in ('torch', 'transformers', 'openai', 'cv2', 'zarr') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = ran.stdout.splitlines()
    assert lines[-1] == "[]"
    assert any(line.startswith("gpt-5-video ") for line in lines)
