"""`evaluate`, `evaluators` and `judgements`: baselines, judges of a server and of this process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.stand_in_server import MODEL
from slvmeval import open_release
from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import report_of
from tests.once import Once
from tests.planted_evaluators import PlantedPackage
from tests.slvmeval.cli.running import Run, lacks
from tests.tasks.scoring.judges.test_local_vlm import COMMIT, weights


def test_baselines_judge_and_answers_go_to_other_stores(judged_store: Path, tmp_path: Path, run: Run) -> None:
    store = ("--store", judged_store)
    words = ("evaluate", "-e", "duration", "-e", "coin", "--direct", "--workers", "1", "--quiet", *store)
    summary = tmp_path / "summary.json"
    output = run(*words, "--summary", summary).out
    assert not lacks(output, "release main, version 1: 6 pairs", "duration")
    # the result first: accuracies, with intervals, and what makes a page of them
    assert re.search(r"All pairs +6 .*\d\.\d \[\d+, \d+\]", output)
    assert f"next: slvmeval report main --out report --open --store {judged_store}" in output
    values = json.loads(summary.read_text())["evaluators"]
    assert values["coin"]["asked"] == 6
    assert values["duration"]["aspects"]["aesthetics"]["answered"] == 2
    # repeating it sends no requests
    again = run(*words, "--format", "json").json["evaluators"]
    assert (again["coin"]["asked"], again["coin"]["found_before"]) == (0, 6)
    file = tmp_path / "mine.parquet"
    assert run("judgements", "export", file, *store).out == f"12 judgements: {file}\n"
    assert run("judgements", "import", file, *store).out == "0 judgements were added\n"
    assert "directory" in run("judgements", "export", file.parent, *store, code=2).err
    # with other settings it has a second column
    other = run("evaluate", "-e", "coin?seed=5", "--direct", "--workers", "1", "--quiet", *store).out
    assert len(re.findall(r"coin \([0-9a-f]{6}\)", other)) == 2


def test_progress_names_the_films(judged_store: Path, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    (film, *_) = open_release(judged_store).sources()
    with caplog.at_level("INFO"):
        run("evaluate", "-e", "coin", "--direct", "--workers", "1", "--store", judged_store)
    assert re.search(rf"coin \d/\d: {re.escape(film.title)}", caplog.text)
    assert film.source_id not in caplog.text


def test_a_dry_run_says_what_then_happens(
    judged_store: Path, planted: PlantedPackage, tmp_path: Path, run: Run
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        'as_of = "2026-11-22"\nsource = "a list"\n[models.toy]\ninput_per_million = 1000\n'
        "output_per_million = 0\n"
    )
    words = ["evaluate", "-e", "planted?tokens=250", "-e", "lengths", "--store", judged_store]
    words += ["--set", f"prices={prices}", "--quiet"]
    output = run(*words, "--dry-run", "--format", "json").json
    rows = {(row["evaluator"], row["aspect"]): row for row in output["rows"]}
    assert output["prices_as_of"] == "2026-11-22"
    assert len(rows) == 6
    one = {"requests": 4, "calls": 4, "images": 8, "tokens_in": 1000, "tokens_out": 0, "usd": 1.0}
    assert rows["right", "aesthetics"] == {"evaluator": "right", "aspect": "aesthetics", **one}
    assert (rows["lengths", "aesthetics"]["usd"], rows["lengths", "aesthetics"]["requests"]) == (None, 2)
    assert not planted.asked("right")
    assert not (judged_store / "judgements").exists()
    assert "prices of 2026-11-22" in run(*words, "--dry-run", "--set", "sample=1").out
    happened = run(*words, "--direct", "--workers", "1", "--format", "json").json["evaluators"]["right"]
    assert (happened["asked"], happened["tokens"], happened["usd"]) == (12, 3000, pytest.approx(3.0))


def test_the_list_says_what_each_sees_and_needs(planted: PlantedPackage, run: Run) -> None:
    output = run("list", "evaluators", "--format", "json").json
    assert output["hf"]["needs"] == ["weights", "package", "GPU"]
    assert set(output["planted"]) == {"from"}
    assert "planted" in run("list", "evaluators").out
    named = run("list", "evaluators", "vlm-video", "planted", "--format", "json").json
    assert {one["name"] for one in named["planted"]["settings"]} >= {"mood", "tokens"}
    assert "settings of hf" in run("list", "evaluators", "hf").out
    assert "did you mean vlm-video" in run("list", "evaluators", "vlm-vidoe", code=1).err


def test_exit_codes(judged_store: Path, planted: PlantedPackage, run: Run) -> None:
    words = ("--direct", "--workers", "1", "--quiet", "--store", judged_store)
    missing = ("-e", "planted?mood=missing")
    run("evaluate", *words, code=2)
    assert "did you mean lengths" in run("evaluate", "-e", "lenghts", *words, code=1).err
    assert "weights are missing" in run("evaluate", *missing, *words, code=1).err
    both = run("evaluate", *missing, "-e", "lengths", *words, code=3).out
    assert "missing stopped: weights are missing" in both
    run("evaluate", "other", "-e", "lengths", *words, code=1)
    refused = run("evaluate", "-e", "planted?mood=refused", *words, code=3).out
    assert "for the message of each failure: slvmeval judgements export judgements.parquet" in refused


def test_evaluators_of_a_file(judged_store: Path, planted: PlantedPackage, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "judges.toml"
    file.write_text(
        '[evaluators.planted-fast]\nuse = "planted"\nconcurrency = 4\nrequests_per_minute = 6000\n'
        '[evaluators.planted-first]\nuse = "planted"\nmood = "first"\n'
    )
    words = ["evaluate", "--evaluator", file, "--aspect", "aesthetics", "--format", "json", "--quiet"]
    words += ["--direct", "--workers", "1", "--store", judged_store]
    output = run(*words).json["evaluators"]
    assert {name: one["asked"] for name, one in output.items()} == {"planted-fast": 4, "planted-first": 4}
    file.write_text("evaluators = 3")
    assert "[evaluators.LABEL]" in run(*words, code=1).err


@pytest.fixture
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "infra.stand_in_server", "--port", "0"]
    environment = os.environ | {"VLLM_API_KEY": "its key"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


@pytest.mark.slow
def test_both_forms_are_judged_kept_apart_and_reported(
    url: str, judged_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "its key")
    profile = tmp_path / "site.toml"
    entry = f'url = "{url}"\nmodel = "{MODEL}"\nkey_variable = "STAND_IN_KEY"\n'
    profile.write_text(f"[model_servers.qwen3-vl]\n{entry}")
    words = ["--store", judged_store, "--profile", profile, "--direct", "--workers", "1"]
    words += ["--aspect", "aesthetics"]
    for judge in ("qwen3-vl-video", "qwen3-vl-video?frames_as=images&label=images", "qwen3-vl-video"):
        run("evaluate", "-e", judge, *words)
    store = Store.open(judged_store)
    rows = JudgementsStore(store).rows()
    by_form = {
        label: [json.loads(row.details)["frames_as"] for row in rows if row.evaluator == label]
        for label in ("qwen3-vl-video", "images")
    }
    # two pairs in two orders each; the last command asked nothing
    assert by_form == {"qwen3-vl-video": ["video"] * 4, "images": ["images"] * 4}
    assert all(row.answered for row in rows)
    assert len({row.key for row in rows}) == 8
    assert len({row.settings for row in rows}) == 2
    report = report_of(load_judged_release(Release.open(store, "main")))
    costs = {row["evaluator"]: row["frames_as"] for row in report.tables["cost"].rows}
    assert costs == {"qwen3-vl-video": "video", "images": "images"}


@pytest.mark.models
def test_a_model_of_this_process_judges(judged_store: Path, once: Once, tmp_path: Path, run: Run) -> None:
    site = tmp_path / "site.toml"
    site.write_text("allow_cpu_models = true\n")
    words = ["evaluate", "-e", "hf?model=someone/qwen&dtype=float32&label=tiny", "--store", judged_store]
    words += ["--model-folder", weights(once), "--profile", site, "--quiet"]
    assert "free; the store has no answer of it" in run(*words, "--dry-run").text
    counts = run(*words, "--direct", "--workers", "1", "--format", "json").json["evaluators"]["tiny"]
    assert (counts["asked"], counts["usd"]) == (12, 0)
    rows = list(JudgementsStore(Store.open(judged_store)).rows(["tiny"]))
    assert len(rows) == 12
    for row in rows:
        details = json.loads(row.details)
        assert (row.answered, row.model, row.cost_usd) == (True, "someone/qwen", 0)
        assert details["model"]["revision"] == COMMIT
        assert details["generation_s"] > 0
    assert "s of GPU time per request, by 12 answers" in run(*words, "--dry-run").text
    again = run(*words, "--direct", "--workers", "1", "--format", "json").json["evaluators"]["tiny"]
    assert (again["asked"], again["found_before"]) == (0, 12)
    # it has no server that takes batches
    assert "cannot be asked in batches" in run(*words, "--batch", "--direct", code=1).err
