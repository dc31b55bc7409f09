"""Builds whose captions are analysed by a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.release.options import BuildOptions
from slvmeval.cli.main import main
from storage_schemas.errors import PrerequisiteError, Reason
from storage_schemas.model import ModelServer
from storage_schemas.store import ANALYSIS, Store
from tasks.captions.analyser import AnalyserRecipe
from tests.flows.small_builds import changed, only, with_recipe
from tests.inline import build_inline
from tests.small_films import CLIPS
from tests.tiny_models.faulty_server import FaultyServer, Reply


def analysed(options: BuildOptions, **parameters: object) -> BuildOptions:
    """Let the model `tiny` analyse captions."""
    analyser = AnalyserRecipe(name="llm", parameters={"model": "tiny", **parameters})
    return with_recipe(options, caption_analysis=analyser)


@pytest.fixture
def asking(options: BuildOptions, video: Path) -> BuildOptions:
    """One film, one aspect, captions analysed by a server."""
    return analysed(only(options, "spatial_relationship"))


def at(options: BuildOptions, server: FaultyServer | str, **changes: Any) -> BuildOptions:
    url = server if isinstance(server, str) else server.url
    entry = ModelServer(url=url, patience_s=1.0)
    return changed(options, model_servers={"caption-analysis": entry}, **changes)


def test_caption_server_is_asked_once_about_each_caption_and_again_by_another_analyser(
    asking: BuildOptions,
) -> None:
    with FaultyServer() as server:
        result = build_inline(at(asking, server))
        # once whether it is there
        assert (server.listed, len(server.seen)) == (1, CLIPS)
    (pair,) = result.release.pairs()
    assert pair.aspect == "spatial_relationship"
    # nothing is left to ask: no server is needed, not even one by that name
    again = build_inline(asking)
    assert (again.new, again.release.version) == (False, result.release.version)
    with FaultyServer() as server:
        build_inline(at(analysed(asking, temperature=0.0), server))
        assert len(server.seen) == CLIPS
    assert len(list(Store.open(Path(asking.store)).manifests(ANALYSIS))) == 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FaultyServer(models=["other", "more"]), "does not serve tiny; it has other, more"),
        (lambda: FaultyServer(key="k"), "refused the key"),
    ],
    ids=["model", "key"],
)
def test_caption_server_that_cannot_be_used_is_found_before_any_work(
    make: Callable[[], FaultyServer], said: str, asking: BuildOptions
) -> None:
    with make() as server:
        with pytest.raises(PrerequisiteError) as problem:
            build_inline(at(asking, server))
        assert server.seen == []
    assert said in str(problem.value)
    assert server.url in str(problem.value)


def test_build_without_a_caption_server_says_what_to_add(asking: BuildOptions) -> None:
    with pytest.raises(PrerequisiteError) as problem:
        build_inline(asking)
    for part in ("'caption-analysis'", "[model_servers.caption-analysis]", "serve-llm", "tiny"):
        assert part in str(problem.value)
    with pytest.raises(PrerequisiteError, match=r"http://127\.0\.0\.1:9/v1 does not answer.*refused"):
        build_inline(at(asking, "http://127.0.0.1:9"))


def test_caption_server_that_announced_itself_in_the_store_is_found(asking: BuildOptions) -> None:
    store = Store.create(Path(asking.store))
    with FaultyServer(key="secret") as server:
        path = store.root / "servers" / "caption-analysis.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"url": server.url, "key": "secret", "model": "tiny", "host": "h"}))
        assert build_inline(asking).release.pairs()
    path.write_text("{}")
    with pytest.raises(PrerequisiteError, match="does not have the address of model server caption-analysis"):
        build_inline(analysed(asking, top_k=3))


def test_caption_that_failed_is_asked_for_again_by_retry_alone(asking: BuildOptions) -> None:
    def plan(_: int, body: dict[str, Any]) -> Reply:
        return Reply("no") if "number 7" in body["messages"][1]["content"] else Reply()

    with FaultyServer(plan) as server:
        result = build_inline(at(asking, server))
    (row,) = result.release.set_aside()
    assert row.reason is Reason.CAPTION_NOT_ANALYSED
    assert "clip 7" in row.message
    with FaultyServer() as server:
        build_inline(at(asking, server))
        assert (server.seen, server.listed) == ([], 0)
        result = build_inline(at(asking, server, retry=True))
        assert ["number 7" in seen.caption for seen in server.seen] == [True]
    assert len(result.release.pairs()) == 1


def test_plan_keeps_what_it_asked(
    asking: BuildOptions, video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, site = tmp_path / "recipe.json", tmp_path / "site.toml"
    recipe.write_text(asking.recipe.model_dump_json())
    with FaultyServer() as server:
        site.write_text(f'[model_servers]\ncaption-analysis = "{server.url}"\n')
        words = ["--profile", str(site), "--store", asking.store, "--recipe", str(recipe)]
        assert main(["build", "--dry-run", "-s", str(video.parent), *words]) == 0
        assert len(server.seen) == CLIPS
    assert build_inline(asking).release.pairs()
