"""``slvmeval gpu-check`` on this machine: output, exit codes, and the plan that uses its speeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slvmeval.cli.main import main
from tasks.pairs import gpu_check
from tasks.pairs.gpu_check import CheckedAspect, CheckedModel, GpuCheckReport, GpuCheckRequest

COLOR = CheckedAspect(
    aspect="color",
    operation="qwen-image-edit",
    pool="h100",
    device="cuda",
    frames=2,
    frame_s=18.5,
    peak_bytes=66_000_000_000,
    models=("qwen-image-edit-2509",),
    ran={"image_editor": {"device": "cuda"}, "detector": {"batch_sizes": [8, 4]}},
)
MADE = GpuCheckReport(
    host="g1",
    job="77",
    gpus=("NVIDIA H100",),
    gpu_bytes=85_000_000_000,
    models=(
        CheckedModel(
            name="qwen-image-edit-2509", device="cuda", dtype="bfloat16", verify_s=98.1, load_s=44.25
        ),
    ),
    aspects=(COLOR,),
    speeds_file="/store/speeds/x.json",
)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> list[GpuCheckReport]:
    """What the check finds; the request is not looked at."""
    found = [MADE]
    monkeypatch.setattr(gpu_check, "check_gpu", lambda request, tell: found[0])
    return found


def command(tmp_path: Path, *more: str) -> list[str]:
    return ["gpu-check", "--store", str(tmp_path / "store"), "--models", str(tmp_path), *more]


def test_it_prints_time_memory_device_and_dtype(
    tmp_path: Path, report: list[GpuCheckReport], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tmp_path)) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "g1, job 77, NVIDIA H100 of 85.0 GB" in output
    assert "qwen-image-edit-2509 98.1 44.2 cuda bfloat16" in output
    assert "color 2 18.5 66.0 GB h100 cuda qwen-image-edit detector 8, 4 ok" in output
    assert "speeds: /store/speeds/x.json" in output
    assert main(command(tmp_path, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["aspects"][0]["frame_s"] == 18.5


@pytest.mark.parametrize(("blocked", "code"), [(True, 1), (False, 3)])
def test_exit_codes_say_whether_a_build_would_fail(
    tmp_path: Path,
    report: list[GpuCheckReport],
    capsys: pytest.CaptureFixture[str],
    blocked: bool,
    code: int,
) -> None:
    changed = {"frame_s": None, "problem": "40 GB needed, 24 GB free", "blocked": blocked}
    report[0] = MADE.model_copy(update={"aspects": (COLOR.model_copy(update=changed),)})
    assert main(command(tmp_path)) == code
    output = capsys.readouterr().out
    assert "problem:   color (qwen-image-edit-2509): 40 GB needed, 24 GB free" in output


def test_a_report_without_a_check_is_an_error(
    tmp_path: Path, report: list[GpuCheckReport], capsys: pytest.CaptureFixture[str]
) -> None:
    report[0] = GpuCheckReport(problem="no GPU is visible to g1")
    assert main(command(tmp_path)) == 1
    assert capsys.readouterr().err.endswith("error: no GPU is visible to g1\n")


def test_missing_weights_are_said_with_the_command_that_fetches_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tmp_path)) == 1
    error = capsys.readouterr().err
    for name in ("grounding-dino-base", "stable-diffusion-inpainting", "qwen-image-edit-2509", "u2net"):
        assert f"slvmeval models fetch {name}" in error


def test_without_a_gpu_pool_it_runs_here_with_the_profiles_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[GpuCheckRequest] = []

    def check(request: GpuCheckRequest, tell: Any) -> GpuCheckReport:
        asked.append(request)
        return MADE

    monkeypatch.setattr(gpu_check, "check_gpu", check)
    profile = tmp_path / "site.toml"
    profile.write_text('store = "here"\nallow_cpu_models = true\n[placement]\ncolor = "cpu"\n')
    assert main(["gpu-check", "--profile", str(profile), "--recipe", "cpu-approx"]) == 0
    (request,) = asked
    assert request.store == str(tmp_path / "here")
    assert request.recipe.name == "cpu-approx"
    assert request.allow_cpu_models
    assert request.placement == {"color": "cpu"}


def test_an_unknown_recipe_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(tmp_path, "--recipe", "papr")) == 1
    assert "paper" in capsys.readouterr().err
