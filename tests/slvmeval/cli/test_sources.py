"""Options of a data set, eligible clips and what captions must say, and videos that are cut off."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from flows.release.options import BuildOptions, last_options, request_path, source_root
from slvmeval.cli.build.clip_counts import MAX_FILMS, print_counts
from slvmeval.cli.main import main
from storage_schemas.errors import UserInputError
from storage_schemas.json_checksum import with_checksum
from storage_schemas.store import Store
from tasks.recipe import Recipe, load_recipe
from tasks.sources.vript_times import TimeKeys
from tests.slvmeval.cli.running import Run
from tests.small_films import caption_lines, write_captions


def test_source_root_takes_options_behind_a_question_mark() -> None:
    root = source_root(
        'vript:/data/v?unpack=true&only_present=true&time_keys={"start": ["from"], "end": ["to"]}'
    )
    assert (root.kind, root.path) == ("vript", "/data/v")
    keys = TimeKeys(start=("from",), end=("to",))
    assert root.options == {"unpack": True, "only_present": True, "time_keys": keys}
    assert source_root("vript:/data/v?unpack=false").options == {"unpack": False}
    assert source_root("vript:/data/v").options == {}
    for text, message in (
        ("vript:/v?unpak=true", "its options are unpack, only_present, time_keys. Did you mean 'unpack'?"),
        ("vript:/v?unpack", "write KEY=VALUE"),
        ("vript:/v?unpack=7", "option unpack"),
        ("vript:/v?time_keys=from", "option time_keys"),
        ('vript:/v?time_keys={"begin": ["from"]}', "its keys are start, end, pair, duration"),
        ("folder:/v?unpack=true", "it has no options"),
        ("/v?unpack=true", "it has no options"),
        ("vript:?unpack=true", "give the folder"),
    ):
        with pytest.raises(UserInputError) as problem:
            source_root(text)
        assert message in str(problem.value)


def test_source_root_takes_a_folder_s_question_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("why?unpack=true", "why?", "vript:x"):
        (tmp_path / name).mkdir()
    assert source_root("vript:why?unpack=true").path == "why?unpack=true"
    assert source_root("why?unpack=true").path == "why?unpack=true"
    both = source_root("vript:why??unpack=true")
    assert (both.path, both.options) == ("why?", {"unpack": True})
    assert source_root("vript:x").kind == "folder"


def test_adapter_gets_its_options(tmp_path: Path, run: Run) -> None:
    # Vript's layout with one captioned video that is missing
    root = tmp_path / "vript"
    for name in ("vript_captions", "vript_long_videos", "vript_long_videos_clips"):
        (root / name).mkdir(parents=True)
    scene = {"a-Scene-001": {"caption": {"content": "A red ball."}}}
    value = {"meta": {"video_id": "a"}, "data": scene}
    (root / "vript_captions" / "a_caption.json").write_text(json.dumps(value))
    assert "video_missing" in run("sources", "scan", f"vript:{root}", "--format", "json", code=3).out
    assert run("sources", "scan", f"vript:{root}?only_present=true", "--format", "json").json == []
    assert "cannot unpack" in run("sources", "scan", f"vript:{root}?unpack=true", code=1).err


def test_title_is_shown_where_the_terminal_lacks_its_letters(
    tmp_path: Path, add_film: Callable[[Path, int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    film = add_film(tmp_path / "videos", 1)
    for path in (film, film.with_suffix(".jsonl")):
        path.rename(path.with_stem("Кот"))
    shown = BytesIO()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.stdout", TextIOWrapper(shown, encoding="latin-1"))
    assert main(["sources", "scan", str(tmp_path / "videos")]) == 0
    sys.stdout.flush()
    assert rb"\u041a\u043e\u0442" in shown.getvalue()


def test_retry_asks_the_adapter_for_the_same(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    root = source_root('vript:/v?unpack=true&time_keys={"start": ["from"]}')
    options = BuildOptions(store=str(store.root), sources=(root,), recipe=load_recipe("cpu-approx"))
    store.cache.mkdir()
    request_path(store, "main").write_bytes(with_checksum(options.model_dump_json()))
    assert last_options(store, "main").sources == (root,)


# -- clips by aspect, before a build ---------------------------------------------------------------------

FOUR_ASPECTS = """
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
    recipe.write_text(FOUR_ASPECTS, encoding="utf-8")
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


# -- a video that is cut off -----------------------------------------------------------------------------


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
