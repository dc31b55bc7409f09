"""`evaluate` with a judge that sends videos, against the stand-in server, to the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.build.options import BuildOptions, SourceRoot
from infra.stand_in_server import MODEL
from slvmeval.cli.main import main
from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.recipe import Recipe
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import report_of
from tests.inline import build_inline

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
    url: str,
    tmp_path: Path,
    add_film: Callable[[Path, int], Path],
    small_recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "its key")
    add_film(tmp_path / "videos", 0)
    recipe = small_recipe.model_copy(update={"aspects": {"aesthetics": small_recipe.aspects["aesthetics"]}})
    sources = (SourceRoot(path=str(tmp_path / "videos")),)
    build_inline(BuildOptions(store=str(tmp_path / "store"), sources=sources, recipe=recipe))
    profile = tmp_path / "site.toml"
    entry = f'url = "{url}"\nmodel = "{MODEL}"\nkey_variable = "STAND_IN_KEY"\n'
    profile.write_text(f"[model_servers.qwen3-vl]\n{entry}")
    words = ["--store", str(tmp_path / "store"), "--profile", str(profile), "--direct", "--workers", "1"]
    as_images = "qwen3-vl-video?frames_as=images&label=images"
    for judge in ("qwen3-vl-video", as_images, "qwen3-vl-video"):
        assert main(["evaluate", "-e", judge, *words]) == 0
    capsys.readouterr()
    store = Store.open(tmp_path / "store")
    rows = JudgementsStore(store).rows()
    by_form = {
        label: [json.loads(row.details)["frames_as"] for row in rows if row.evaluator == label]
        for label in ("qwen3-vl-video", "images")
    }
    # one pair in two orders each; the last command asked nothing
    assert by_form == {"qwen3-vl-video": ["video"] * 2, "images": ["images"] * 2}
    assert all(row.answered for row in rows)
    assert len({row.key for row in rows}) == 4
    assert len({row.settings for row in rows}) == 2
    report = report_of(load_judged_release(Release.open(store, "main")))
    costs = {row["evaluator"]: row["frames_as"] for row in report.tables["cost"].rows}
    assert costs == {"qwen3-vl-video": "video", "images": "images"}
