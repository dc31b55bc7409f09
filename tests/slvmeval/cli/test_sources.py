"""Options of a data set, from the command line to its adapter."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from flows.release.options import BuildOptions, last_options, request_path, source_root
from slvmeval.cli.main import main
from storage_schemas.errors import UserInputError
from storage_schemas.json_checksum import with_checksum
from storage_schemas.store import Store
from tasks.recipe import load_recipe
from tasks.sources.vript_times import TimeKeys
from tests.slvmeval.cli.running import Run


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


def test_source_root_takes_a_question_mark_of_a_folder_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
