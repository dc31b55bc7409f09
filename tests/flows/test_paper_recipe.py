"""The whole recipe `paper` on the CPU: its own operations on tiny checkpoints of the models' classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage_schemas.errors import PrerequisiteError
from storage_schemas.model import ModelServer
from storage_schemas.release import Release
from storage_schemas.store import ANALYSIS, DEGRADED_CLIP
from tasks.recipe import Recipe
from tests.inline import build_inline
from tests.small_films import options_in
from tests.tiny_models.faulty_server import FaultyServer
from tests.tiny_models.paper_site import by_rules, tiny_models, tiny_paper

pytestmark = [pytest.mark.models, pytest.mark.xdist_group("paper")]

AddFilm = Callable[[Path, int], Path]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("weights")
    return str(tiny_models(folder, tmp_path_factory.mktemp("checkpoints"))), str(model_folder)


@pytest.fixture(autouse=True)
def small_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the editor see its picture in 64×64 px, not in the million pixels that the real one works on."""
    from tasks.models.torch_model import prepare_torch

    prepare_torch()
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as pipeline

    monkeypatch.setattr(pipeline, "VAE_IMAGE_SIZE", 64 * 64)
    monkeypatch.setattr(pipeline, "CONDITION_IMAGE_SIZE", 56 * 56)


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer(by_rules, models=["Qwen/Qwen3-8B"]) as running:
        yield running


def build(
    folder: Path,
    recipe: Recipe,
    models: tuple[str, ...],
    server: FaultyServer | str | None,
    release: str = "main",
) -> Release:
    url = server.url if isinstance(server, FaultyServer) else server
    servers = {} if url is None else {"caption-analysis": ModelServer(url=url)}
    more = {"model_folders": models, "allow_cpu_models": True, "model_servers": servers, "release": release}
    return build_inline(options_in(folder, recipe).model_copy(update=more)).release


def test_every_aspect_is_made_by_the_papers_operation(
    tmp_path: Path, add_film: AddFilm, models: tuple[str, ...], server: FaultyServer
) -> None:
    add_film(tmp_path / "videos", 1)
    recipe = tiny_paper()
    release = build(tmp_path, recipe, models, server)
    counts = {aspect: count["built"] for aspect, count in release.summary().items()}
    assert counts == dict.fromkeys(recipe.aspects, 1)
    pairs = {record.aspect: record for record in release.pairs()}
    # with other models and fewer steps they are not the paper's, and do not say so
    assert pairs["object_integrity"].strength == pairs["color"].strength == "custom"
    assert pairs["aesthetics"].strength == "paper"

    store = release.store
    clips = {}
    for manifest in store.manifests(DEGRADED_CLIP):
        clips.setdefault(manifest.content["aspect"], manifest)
    erased, coloured = clips["object_integrity"], clips["color"]
    assert erased.consumes["models"].keys() == {"tiny-detector", "tiny-inpainter"}
    assert len(erased.consumes["models"]["tiny-detector"]["digest"]) == 64
    assert erased.content["measured"]["gone"]["frames"] >= 1
    assert {"changed_share", "rest_shift", "edges_kept"} <= coloured.content["measured"].keys()
    for manifest in (erased, coloured):
        assert manifest.provenance["packages"]["torch"].startswith("2.")
        assert manifest.provenance["packages"]["diffusers"]
        assert manifest.provenance["frames_per_second"] > 0
    # one answer a caption, kept with the analysis; no caption was asked about twice
    (analysis,) = list(store.manifests(ANALYSIS))
    assert analysis.consumes["analyser"]["analyser"] == "llm"
    assert len(server.seen) == 14
    sampling = server.seen[0].body
    assert (sampling["temperature"], sampling["top_p"], sampling["top_k"]) == (0.6, 0.95, 20)
    assert sampling["repetition_penalty"] == 1.2
    assert sampling["min_p"] == 0

    asked = len(server.seen)
    again = build(tmp_path, recipe, models, server)
    assert len(server.seen) == asked
    assert again.version == release.version


def test_the_faster_recipe_never_passes_for_the_papers(
    tmp_path: Path, add_film: AddFilm, models: tuple[str, ...], server: FaultyServer
) -> None:
    add_film(tmp_path / "videos", 1)
    fast, slow = tiny_paper("paper-lightning"), tiny_paper()
    only = {"aspects": {"color": fast.aspects["color"]}}
    quick = next(iter(build(tmp_path, fast.model_copy(update=only), models, server).pairs()))
    assert quick.parameters["step_cache"] > 0
    assert quick.strength == "custom"
    exact = slow.model_copy(update={"aspects": {"color": slow.aspects["color"]}})
    other = next(iter(build(tmp_path, exact, models, server, release="exact").pairs()))
    assert other.drawn_clips == quick.drawn_clips
    assert other.pair_id != quick.pair_id


def test_all_that_is_missing_is_reported_before_any_work(
    tmp_path: Path, add_film: AddFilm, models: tuple[str, ...], server: FaultyServer
) -> None:
    add_film(tmp_path / "videos", 1)
    with pytest.raises(PrerequisiteError) as problem:
        build(tmp_path, tiny_paper(), (str(tmp_path / "nothing"),), server)
    output = str(problem.value)
    assert all(name in output for name in ("tiny-detector", "tiny-inpainter", "tiny-editor", "u2netp"))
    with pytest.raises(PrerequisiteError, match=r"\n\[model_servers\.caption-analysis\]\nurl = "):
        build(tmp_path, tiny_paper(), models, None)
    with pytest.raises(PrerequisiteError, match=r"caption-analysis at .* does not answer"):
        build(tmp_path, tiny_paper(), models, "http://127.0.0.1:1/v1")
    assert not server.seen
    assert not list((tmp_path / "store").glob("artifacts/*/*/*"))
