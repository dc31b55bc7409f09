"""`evaluate -e hf?…` on a small release, with a tiny checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage_schemas.judgements import JudgementsStore
from storage_schemas.store import Store
from tests.once import Once
from tests.slvmeval.cli.running import Run
from tests.tasks.scoring.judges.test_local_vlm import COMMIT, weights

pytestmark = pytest.mark.models


def test_a_model_of_this_process_judges_a_release(
    judged_store: Path, once: Once, tmp_path: Path, run: Run
) -> None:
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
        assert row.answered
        details = json.loads(row.details)
        assert (row.model, details["model"]["revision"]) == ("someone/qwen", COMMIT)
        assert row.cost_usd == 0
        assert details["generation_s"] > 0
    assert "s of GPU time per request, by 12 answers" in run(*words, "--dry-run").text
    again = run(*words, "--direct", "--workers", "1", "--format", "json").json["evaluators"]["tiny"]
    assert (again["asked"], again["found_before"]) == (0, 12)
    # it has no server that takes batches
    assert "cannot be asked in batches" in run(*words, "--batch", "--direct", code=1).err
