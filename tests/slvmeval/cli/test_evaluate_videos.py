"""`evaluate` with a judge that sends videos, against the stand-in server, to the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.stand_in_server import MODEL
from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import report_of
from tests.slvmeval.cli.running import Run

pytestmark = pytest.mark.slow


@pytest.fixture
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "infra.stand_in_server", "--port", "0"]
    environment = os.environ | {"VLLM_API_KEY": "its key"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


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
