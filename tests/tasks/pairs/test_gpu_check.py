"""The check of a site's GPUs on tiny checkpoints: what it loads, measures and says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.aspects.speeds import GpuWork, gpu_hours, measured_speeds
from tasks.models import hub as hub_module
from tasks.models.base import OutOfMemory
from tasks.models.residence import Residence
from tasks.pairs import gpu_check
from tasks.pairs.gpu_check import CheckedAspect, GpuCheckReport, GpuCheckRequest, check_gpu, main
from tasks.recipe import AspectRecipe, Recipe
from tests.tiny_models.paper_site import tiny_models, tiny_paper

WITH_MODELS = ("background_consistency", "object_integrity", "color")
models_only = pytest.mark.models


@pytest.fixture(autouse=True)
def own_residence(monkeypatch: pytest.MonkeyPatch) -> Residence:
    own = Residence()
    monkeypatch.setattr(hub_module, "residence", lambda: own)
    monkeypatch.setattr(gpu_check, "residence", lambda: own)
    return own


@pytest.fixture
def small_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the editor see its picture in 64×64 px, not in a million pixels."""
    from tasks.models.torch_model import prepare_torch

    prepare_torch()
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as pipeline

    monkeypatch.setattr(pipeline, "VAE_IMAGE_SIZE", 64 * 64)
    monkeypatch.setattr(pipeline, "CONDITION_IMAGE_SIZE", 56 * 56)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_models(tmp_path_factory.mktemp("weights"), tmp_path_factory.mktemp("checkpoints")))


def only(recipe: Recipe, *aspects: str) -> Recipe:
    return recipe.model_copy(update={"aspects": {name: recipe.aspects[name] for name in aspects}})


def request(tmp_path: Path, recipe: Recipe, *folders: str, **fields: Any) -> GpuCheckRequest:
    fields = {"allow_cpu_models": True} | fields
    return GpuCheckRequest(store=str(tmp_path / "store"), recipe=recipe, model_folders=folders, **fields)


@pytest.fixture
def few_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU takes long for a frame, whatever the checkpoint."""
    monkeypatch.setattr(gpu_check, "FRAMES", 4)


@models_only
@pytest.mark.usefixtures("few_frames", "small_views")
def test_each_aspect_with_models_is_made_and_measured(
    tmp_path: Path, folder: str, model_folder: Path, own_residence: Residence
) -> None:
    recipe = tiny_paper()
    said: list[str] = []
    report = check_gpu(request(tmp_path, recipe, folder, str(model_folder)), said.append)
    assert not report.failed
    assert {aspect.aspect for aspect in report.aspects} == set(WITH_MODELS)
    for aspect in report.aspects:
        assert (aspect.problem, aspect.frames) == ("", 2 if aspect.aspect == "color" else 4)
        assert (aspect.frame_s or 0) > 0
        assert 1e8 < (aspect.peak_bytes or 0) < 2e10
    # each was loaded once, and each load is there
    names = [model.name for model in report.models]
    assert sorted(names) == ["tiny-detector", "tiny-editor", "tiny-inpainter", "u2netp"]
    assert {model.dtype for model in report.models if model.name != "u2netp"} == {"float32"}
    assert all(model.load_s > 0 for model in report.models)
    assert any("tiny-editor on cpu" in line for line in said)
    assert report.gpus == ()

    rows = measured_speeds(tmp_path / "store")
    assert Path(report.speeds_file).parent == tmp_path / "store" / "speeds"
    # only work of the GPU pool has hours in a plan
    assert {row.operation for row in rows} == {"grounding-dino-sd-inpainting", "qwen-image-edit"}
    color = recipe.parameters("color")
    hours = gpu_hours([GpuWork("color", "qwen-image-edit", color, 3600, 64)], measured=rows)
    (edited,) = (row for row in rows if row.operation == "qwen-image-edit")
    assert hours["kind"] == "measured"
    assert hours["hours"] == pytest.approx(edited.least_s, abs=1e-3)
    assert "doctor --gpu` on" in hours["sources"]["qwen-image-edit"]
    # a frame of another size or by another model takes another time
    other = gpu_hours([GpuWork("color", "qwen-image-edit", color, 3600, 512)], measured=rows)
    assert other["not_known"] == {"qwen-image-edit": 3600}


@models_only
@pytest.mark.usefixtures("few_frames")
def test_a_detector_that_does_not_find_the_ball_is_timed_all_the_same(tmp_path: Path, folder: str) -> None:
    recipe = only(tiny_paper(), "object_integrity")
    (entry,) = recipe.aspects.values()
    strict = {"parameters": entry.parameters | {"box_threshold": 1.0, "text_threshold": 1.0}}
    recipe = recipe.model_copy(update={"aspects": {"object_integrity": entry.model_copy(update=strict)}})
    (made,) = check_gpu(request(tmp_path, recipe, folder)).aspects
    assert made.frame_s is not None
    assert "finds nothing of the caption" in made.note
    assert "thresholds of 0" in made.note


@models_only
def test_out_of_memory_is_an_aspects(tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **options: Any) -> Any:
        raise OutOfMemory("CUDA out of memory. Tried to allocate 2.00 GiB")

    def problem() -> str:
        report = check_gpu(request(tmp_path, only(tiny_paper(), "object_integrity"), folder))
        assert report.failed
        assert not report.speeds_file
        assert not report.models
        return report.aspects[0].problem

    with monkeypatch.context() as patched:
        patched.setattr(gpu_check, "main_memory_free", lambda: 1000)
        said = problem()
    assert said.startswith("model tiny-detector needs ")
    assert "1.0 kB left" in said
    monkeypatch.setattr(hub_module, "load_model", full)
    said = problem()
    assert "model tiny-detector does not fit into the memory of cpu" in said
    assert "B needed" in said
    assert "0.0 GB" not in said


@pytest.mark.gpu
def test_on_a_gpu_time_and_memory_are_the_gpus(tmp_path: Path, folder: str, small_views: None) -> None:
    from tasks.models.device import visible_gpus

    recipe = only(tiny_paper(), "object_integrity", "color")
    report = check_gpu(request(tmp_path, recipe, folder, allow_cpu_models=False))
    assert not report.failed
    assert report.gpus == visible_gpus()
    assert {model.device for model in report.models} == {"cuda"}
    assert all(0 < (made.peak_bytes or 0) < 4e9 for made in report.aspects)
    assert {row.device for row in measured_speeds(tmp_path / "store")} == {report.gpus[0]}


def test_what_is_wrong_is_reported_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError) as problem:
        check_gpu(request(tmp_path, tiny_paper(), str(tmp_path)))
    assert all(name in str(problem.value) for name in ("tiny-detector", "tiny-inpainter", "tiny-editor"))
    with pytest.raises(UserInputError, match="uses no models"):
        check_gpu(request(tmp_path, only(tiny_paper(), "aesthetics"), str(tmp_path)))


def test_no_gpu_is_an_error_unless_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tasks.models.device.visible_gpus", lambda: ())
    entry = AspectRecipe(operation="rembg-u2net", strength="small-network")
    recipe = Recipe(name="t", aspects={"background_consistency": entry})
    on_gpu: dict[str, Any] = {
        "placement": {"placed": {"background_consistency": "gpu"}},
        "allow_cpu_models": False,
    }
    monkeypatch.setattr(gpu_check, "ModelCheck", NothingMissing)
    with pytest.raises(PrerequisiteError, match="no GPU is visible"):
        check_gpu(request(tmp_path, recipe, str(tmp_path), **on_gpu))
    # the same as a job: the report has the error
    assert main("ANSWER ", request(tmp_path, recipe, str(tmp_path), **on_gpu).model_dump_json()) == 1
    report = GpuCheckReport.model_validate_json(capsys.readouterr().out.removeprefix("ANSWER "))
    assert report.failed
    assert "no GPU is visible" in report.problem


class NothingMissing(hub_module.ModelCheck):
    """Finds every model."""

    def _look(self, name: str) -> Any:
        return "checksum"


def test_a_clip_that_cannot_be_degraded_is_not_a_failure_of_the_site() -> None:
    about = CheckedAspect(aspect="a", operation="o", pool="h100", device="cpu", problem="nothing found")
    assert not GpuCheckReport(aspects=(about,)).failed
    assert GpuCheckReport(aspects=(about.model_copy(update={"blocked": True}),)).failed


def test_the_jobs_memory_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_MEM_PER_NODE", raising=False)
    there = gpu_check.main_memory_free()
    assert there is not None
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "1")
    assert gpu_check.main_memory_free() == 0


def test_peak_memory_is_of_what_runs_within() -> None:
    with gpu_check.peak_memory("cpu") as peak:
        before = peak()
        held = np.ones(80_000_000, np.uint8)
        assert before is not None
        assert (peak() or 0) >= before + 60_000_000
        assert held.any()
