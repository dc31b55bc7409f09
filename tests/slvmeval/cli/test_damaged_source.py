"""A source whose video is cut off is named wherever sources or pairs are listed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.recipe import Recipe
from tests.slvmeval.cli.running import Run
from tests.small_films import caption_lines, write_captions


@pytest.fixture
def site(
    tmp_path: Path,
    add_film: Callable[[Path, int], Path],
    small_recipe: Recipe,
    ffmpeg: str,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """Words of a command for two films, of which the second is cut off behind 36 of 42 s."""
    for number in (1, 2):
        film = add_film(tmp_path / "videos", number)
        # that take no time to analyse
        lines = [{**line, "caption": f"{n}."} for n, line in enumerate(caption_lines())]
        write_captions(film.with_suffix(".jsonl"), lines)
    whole = tmp_path / "whole.mp4"
    command = [ffmpeg, "-v", "error", "-i", str(film), "-c", "copy", "-movflags", "+faststart", str(whole)]
    subprocess.run(command, check=True)
    content = whole.read_bytes()
    film.write_bytes(content[: len(content) * 6 // 7])
    recipe = tmp_path / "recipe.json"
    aspects = {"aesthetics": small_recipe.aspects["aesthetics"]}
    fewer = {"aspects": aspects, "least_duration_s": 5.0, "clips_per_pair": 2}
    recipe.write_text(small_recipe.model_copy(update=fewer).model_dump_json())
    monkeypatch.setenv("SLVMEVAL_STORE", str(tmp_path / "store"))
    return ["--sources", str(tmp_path / "videos"), "--recipe", str(recipe), "--set", "damaged=truncate"]


def test_it_is_named_by_the_plan_the_build_and_the_lists(
    site: list[str], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = "film2: the video is cut off, used up to its last complete frame"
    planned = run("build", "--dry-run", *site, code=(0, 3)).text
    assert f"damaged: {marked}" in planned
    values = run("build", "--dry-run", *site, "--format", "json", code=(0, 3)).json
    assert values["sources"]["damaged"] == [{"source": "film2", "damage": "truncated"}]
    # a quota that does not do is reported, too
    with monkeypatch.context() as patch:
        patch.setenv("SLVMEVAL_QUOTA_BYTES", "5000")
        assert "5.0 kB are left of the profile's quota_bytes" in run("build", "--dry-run", *site).out
    summary = tmp_path / "summary.json"
    assert marked in run("build", "--direct", "--quiet", *site, "--summary", summary, code=(0, 3)).text
    (damaged,) = json.loads(summary.read_text())["sources"]["damaged"]
    assert (damaged["title"], damaged["damage"]) == ("film2", "truncated")
    assert "truncated 1" in run("status").text
    assert "film2 (truncated)" in run("pairs").text
    pairs = run("pairs", "--format", "json").json
    assert sorted(pair["source_damage"] for pair in pairs) == ["", "truncated"]
    (cut,) = (pair["pair_id"] for pair in pairs if pair["source_damage"])
    assert "the video is cut off" in run("pairs", "--pair", cut).text
    assert run("pairs", "--pair", cut, "--format", "json").json["source_damage"] == "truncated"
