"""The paper's two diffusion operations in jobs of the pool `h100`, on tiny checkpoints and a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_schemas.store import DEGRADED_CLIP
from tasks.recipe import Recipe
from tests.flows.small_builds import AddFilm
from tests.slurm.building import Building
from tests.slurm.conftest import Slurm
from tests.tiny_models.faulty_server import FaultyServer
from tests.tiny_models.paper_site import by_rules, tiny_models, tiny_paper

pytestmark = pytest.mark.models

ON_H100 = ("object_integrity", "color")


@pytest.fixture
def recipe() -> Recipe:
    paper = tiny_paper()
    names = ("technical_quality", *ON_H100)
    aspects = {name: paper.aspects[name] for name in names}
    return paper.model_copy(update={"aspects": aspects, "clips_per_pair": 1})


@pytest.fixture
def building(slurm: Slurm, add_film: AddFilm, recipe: Recipe, tmp_path: Path) -> Iterator[Building]:
    """A build of one film by the paper's operations, with its weights and its server of captions."""
    add_film(tmp_path / "videos", 1)
    (tmp_path / "recipe.json").write_text(recipe.model_dump_json())
    models = tiny_models(tmp_path / "weights", tmp_path / "checkpoints")
    with FaultyServer(by_rules, models=["Qwen/Qwen3-8B"]) as answering:
        made = Building(slurm, tmp_path, api="", h100_memory="3GiB")
        made.site_lines = (
            f'model_folders = ["{models}"]\nmodel_servers = {{ caption-analysis = "{answering.url}" }}\n'
        )
        yield made
        if made.process is not None and made.process.poll() is None:
            made.kill()


def test_diffusion_runs_on_the_gpu_partition(building: Building) -> None:
    building.start()
    assert building.end() == 0, building.said()
    release = building.release()
    assert {aspect: count["built"] for aspect, count in release.summary().items()} == {
        "technical_quality": 1, "object_integrity": 1, "color": 1,
    }  # fmt: skip
    where = {
        manifest.content["aspect"]: manifest.provenance for manifest in release.store.manifests(DEGRADED_CLIP)
    }
    assert {where[aspect]["partition"] for aspect in ON_H100} == {"h100"}
    assert where["technical_quality"]["partition"] == "cpu"
    # both models were loaded in one process, which let each other's go or kept both
    assert len({(where[aspect]["job"], where[aspect]["host"]) for aspect in ON_H100}) == 1
    log = "\n".join(path.read_text() for path in building.store.glob("cache/slurm-logs/*h100*"))
    assert "frames/s" in log
