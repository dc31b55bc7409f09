"""Eligible and needed clips, and what captions must say, before a build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slvmeval.cli.build.clip_counts import MAX_FILMS, print_counts
from tests.slvmeval.cli.running import Run
from tests.small_films import write_captions

RECIPE = """
name = "small"
long_side = 160
[aspects.aesthetics]
operation = "ffmpeg-eq"
[aspects.spatial_relationship]
operation = "horizontal-flip"
[aspects.dynamics_degree]
operation = "middle-frame"
[aspects.color]
operation = "named-colour-hue-shift"
"""
EXPECTED = {
    "aesthetics": {"eligible": 14, "needed": 5},
    "spatial_relationship": {"eligible": 0, "needed": 5},
    "dynamics_degree": {"eligible": 0, "needed": 5},
    "color": {"eligible": 3, "needed": 5},
}
SHORT = ("spatial_relationship", "dynamics_degree", "color")


def test_plain_captions_that_give_no_pair_in_three_aspects_say_what_they_lack(
    tmp_path: Path, add_film: Callable[[Path, int], Path], run: Run
) -> None:
    videos, recipe = tmp_path / "videos", tmp_path / "recipe.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    texts = [f"A quiet street, part {n}." for n in range(11)] + ["A red boat lies on the beach."] * 3
    lines: list[dict[str, object]] = [
        {"start_s": 3 * n, "end_s": 3 * n + 3, "caption": text} for n, text in enumerate(texts)
    ]
    write_captions(add_film(videos, 1).with_suffix(".jsonl"), lines)
    scan = ("sources", "scan", videos, "--recipe", recipe)
    plan = ("build", "--dry-run", "--sources", videos, "--recipe", recipe, "--store", tmp_path / "store")

    (scanned,) = run(*scan, "--format", "json").json
    planned = run(*plan, "--format", "json").json
    (film,) = planned["clips"]
    assert scanned["clips"] == film["aspects"] == EXPECTED
    assert (film["source"], film["id"]) == (scanned["title"], scanned["id"])
    assert scanned["captions_must_say"] == planned["captions_must_say"]
    assert tuple(planned["captions_must_say"]) == SHORT
    assert not any(planned["aspects"][name]["planned"] for name in SHORT)

    for words in (scan, plan):
        text = run(*words).text
        assert "aesthetics 14/5" in text
        for name in SHORT:
            assert f"{name} {EXPECTED[name]['eligible']}/5" in text
            assert f"captions: {name} has too few clips in 1 of 1 films. " in text
        assert 'Give an object exactly one colour: "A red boat lies on the beach."' in text

    add_film(videos, 2)
    two = [row["clips"] for row in run(*scan, "--set", "sample=1", "--format", "json").json]
    assert two == [EXPECTED, {}]
    assert "captions: those of 1 of 2 sources were looked at" in run(*scan, "--set", "sample=1").text
    assert "14/5" not in run(*scan, "--set", "sample=0").text


def test_of_many_films_those_with_too_few_clips_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    enough, few = {"color": {"eligible": 5, "needed": 5}}, {"color": {"eligible": 4, "needed": 5}}
    print_counts([])
    assert capsys.readouterr().out == ""
    print_counts([*((f"film{n}", enough) for n in range(MAX_FILMS)), ("last", few)])
    out = capsys.readouterr().out
    assert out.index("last") < out.index("film0")
    assert f"film{MAX_FILMS - 1} " not in out
    assert "… and 1 more films; --format json lists all" in out
    assert f"color has too few clips in 1 of {MAX_FILMS + 1} films" in out


def test_without_the_package_that_reads_captions_a_scan_lists_sources_only(
    tmp_path: Path, add_film: Callable[[Path, int], Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_film(tmp_path / "videos", 1)
    monkeypatch.setattr("storage_schemas.extras.is_installed", lambda module: module != "spacy")
    printed = run("sources", "scan", tmp_path / "videos")
    assert "clips are not counted by aspect: spacy is not installed: pip install" in printed.error
    assert "film1.mp4" in printed.text
    assert "eligible clips" not in printed.text
