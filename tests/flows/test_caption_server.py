"""Builds whose captions are analysed by a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.build.options import BuildOptions
from slvmeval.cli.main import main
from storage_schemas.errors import PrerequisiteError, Reason
from storage_schemas.model import ModelServer
from storage_schemas.store import ANALYSIS, Store
from tasks.captions.analyser import AnalyserRecipe
from tests.inline import build_inline
from tests.small_films import CLIPS
from tests.tiny_models.faulty_server import FaultyServer, Reply

AddFilm = Callable[[Path, int], Path]


@pytest.fixture
def asking(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> BuildOptions:
    """One film, one aspect, captions analysed by the model `tiny`."""
    add_film(tmp_path / "videos", 1)
    chosen = options.recipe.aspects["spatial_relationship"]
    recipe = options.recipe.model_copy(
        update={
            "aspects": {"spatial_relationship": chosen},
            "caption_analysis": AnalyserRecipe(name="llm", parameters={"model": "tiny"}),
        }
    )
    return options.model_copy(update={"recipe": recipe})


def at(options: BuildOptions, server: FaultyServer | str, **changes: Any) -> BuildOptions:
    url = server if isinstance(server, str) else server.url
    entry = ModelServer(url=url, patience_s=1.0)
    return options.model_copy(update={"model_servers": {"caption-analysis": entry}, **changes})


def test_a_build_asks_the_server_once_whether_it_is_there_and_once_about_each_caption(
    asking: BuildOptions,
) -> None:
    with FaultyServer() as server:
        result = build_inline(at(asking, server))
        assert (server.listed, len(server.seen)) == (1, CLIPS)
    (pair,) = result.release.pairs()
    assert pair.aspect == "spatial_relationship"
    # nothing is left to ask: no server is needed, not even one by that name
    again = build_inline(asking)
    assert not again.new
    assert again.release.version == result.release.version


def test_without_a_server_nothing_starts_and_the_lines_to_add_are_said(asking: BuildOptions) -> None:
    with pytest.raises(PrerequisiteError) as problem:
        build_inline(asking)
    for part in ("'caption-analysis'", "[model_servers.caption-analysis]", "serve-llm", "tiny"):
        assert part in str(problem.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FaultyServer(models=["other", "more"]), "does not serve tiny; it has other, more"),
        (lambda: FaultyServer(key="k"), "refused the key"),
    ],
    ids=["model", "key"],
)
def test_a_server_that_cannot_be_used_is_found_before_any_work(
    make: Callable[[], FaultyServer], said: str, asking: BuildOptions
) -> None:
    with make() as server:
        with pytest.raises(PrerequisiteError) as problem:
            build_inline(at(asking, server))
        assert server.seen == []
    assert said in str(problem.value)
    assert server.url in str(problem.value)


def test_a_server_that_is_not_there(asking: BuildOptions) -> None:
    with pytest.raises(PrerequisiteError, match=r"http://127\.0\.0\.1:9/v1 does not answer.*refused"):
        build_inline(at(asking, "http://127.0.0.1:9"))


def test_a_server_that_announced_itself_in_the_store_is_found(asking: BuildOptions) -> None:
    store = Store.create(Path(asking.store))
    with FaultyServer(key="secret") as server:
        path = store.root / "servers" / "caption-analysis.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"url": server.url, "key": "secret", "model": "tiny", "host": "h"}))
        assert build_inline(asking).release.pairs()
    path.write_text("{}")
    changed = AnalyserRecipe(name="llm", parameters={"model": "tiny", "top_k": 3})
    recipe = asking.recipe.model_copy(update={"caption_analysis": changed})
    with pytest.raises(PrerequisiteError, match="does not have the address of model server caption-analysis"):
        build_inline(asking.model_copy(update={"recipe": recipe}))


def test_what_failed_is_asked_for_again_by_retry_alone(asking: BuildOptions) -> None:
    def plan(_: int, body: dict[str, Any]) -> Reply:
        return Reply("no") if "number 7" in body["messages"][1]["content"] else Reply()

    with FaultyServer(plan) as server:
        result = build_inline(at(asking, server))
    (row,) = result.release.set_aside()
    assert row.reason is Reason.CAPTION_NOT_ANALYSED
    assert "clip 7" in row.message
    with FaultyServer() as server:
        build_inline(at(asking, server))
        assert server.seen == []
        assert server.listed == 0
        result = build_inline(at(asking, server, retry=True))
        assert ["number 7" in seen.caption for seen in server.seen] == [True]
    assert len(result.release.pairs()) == 1


def test_a_changed_analyser_is_asked_by_the_workers_and_keeps_the_frames(asking: BuildOptions) -> None:
    with FaultyServer() as server:
        build_inline(at(asking, server))
        changed = AnalyserRecipe(name="llm", parameters={"model": "tiny", "temperature": 0.0})
        recipe = asking.recipe.model_copy(update={"caption_analysis": changed})
        build_inline(at(asking, server, recipe=recipe))
        assert len(server.seen) == 2 * CLIPS
    assert len(list(Store.open(Path(asking.store)).manifests(ANALYSIS))) == 2


def test_a_plan_keeps_what_it_asked(
    asking: BuildOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text(asking.recipe.model_dump_json())
    site = tmp_path / "site.toml"
    with FaultyServer() as server:
        site.write_text(f'[model_servers]\ncaption-analysis = "{server.url}"\n')
        words = ["--profile", str(site), "--store", asking.store, "--recipe", str(recipe)]
        assert main(["plan", "-s", str(tmp_path / "videos"), *words]) == 0
        assert len(server.seen) == CLIPS
    assert build_inline(asking).release.pairs()
