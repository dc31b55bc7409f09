"""`models`, `schema`, `doctor --gpu` and `serve-llm`: what there is, what is missing, and what one adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.vllm import VLLM_MODELS
from tasks.pairs import gpu_check
from tasks.pairs.gpu_check import CheckedAspect, CheckedModel, GpuCheckReport, GpuCheckRequest
from tests.slvmeval.cli.running import Run, lacks
from tests.tasks.models.checkpoints import mirror, write


def test_missing_and_wrong_models_say_how_to_get_them(tmp_path: Path, run: Run) -> None:
    at = ("--model-folder", tmp_path)
    fetch = "slvmeval models add u2netp"
    assert fetch in run("list", "models", *at).out
    deep = ("list", "models", "--deep", *at)
    assert fetch in run(*deep, "u2netp", code=1).out
    assert "no model 'u2nett'" in run("models", "add", "u2nett", *at, code=1).err
    run(*deep)
    assert "--deep: only for models" in run("list", "suites", "--deep", code=2).error
    (tmp_path / "u2netp.onnx").write_bytes(b"no weights")
    assert "  wrong: " in run(*deep, code=1).out
    rows = {row["name"]: row for row in run("list", "models", *at, "--format", "json").json}
    assert (rows["u2netp"]["path"], rows["u2netp"]["state"]) == (None, "wrong")
    assert (rows["u2net"]["path"], rows["u2net"]["state"]) == (None, "missing")
    dino = rows["grounding-dino-base"]
    assert (dino["kind"], dino["licence"], dino["bytes"]) == ("detector", "Apache-2.0", 933400872)
    assert dino["memory_bytes"] > dino["bytes"]
    assert dino["repository"] == "IDEA-Research/grounding-dino-base"


def test_a_model_of_ones_own_is_added_listed_verified_and_found(tmp_path: Path, run: Run) -> None:
    weights = ("--model-folder", tmp_path / "models")
    folder = write(tmp_path / "checkpoint")
    adding = ("models", "add", "my-detector", folder, "--kind", "detector", "--set", "memory=1.5", *weights)
    run(*adding, "--set", "files=no", code=2)
    place = tmp_path / "models" / "my-detector"
    assert run(*adding, "--set", "licence=MIT").out == f"{place}\n"
    assert "already exists" in run(*adding, code=1).err
    output = run("list", "models", *weights).out
    assert "my-detector: your own model\n  detector, 320.0 kB, needs 1.5 GB of memory, MIT\n" in output
    assert f"  present: {place}\n" in output
    assert f"  present: {place}\n" in run("list", "models", "my-detector", "--deep", *weights).out
    (place / "config.json").write_text("[]")
    again = ("list", "models", "my-detector", "--deep", "--set", "again=true", *weights)
    assert "  wrong: " in run(*again, code=1).out


def test_a_damaged_folder_is_listed_as_wrong_with_the_reason(tmp_path: Path, run: Run) -> None:
    (mirror(tmp_path, "mine") / "config.json").unlink()
    write(tmp_path / "grounding-dino-base")
    output = run("list", "models", "--model-folder", tmp_path).out
    assert not lacks(output, "  wrong: ", "config.json is missing", "slvmeval models add grounding-dino-base")


@pytest.mark.parametrize("what", ["recipe", "profile"])
def test_schemas_are_json_schema(what: str, run: Run) -> None:
    assert run("list", "schemas", what).json["additionalProperties"] is False


def test_tables_are_shown(run: Run) -> None:
    output = run("list", "schemas", "tables").out
    for name in ("sources", "clips", "pairs", "edits", "degraded_clips", "set_aside", "analyses"):
        assert f"\n{name}\n" in f"\n{output}"


# -- doctor --gpu -------------------------------------------------------------------------------------------

MODEL = "qwen-image-edit-2509"
COLOR = CheckedAspect.model_validate(
    {
        **{"aspect": "color", "operation": "qwen-image-edit", "pool": "h100", "device": "cuda", "frames": 2},
        **{"frame_s": 18.5, "peak_bytes": 66_000_000_000, "models": (MODEL,)},
        "ran": {"image_editor": {"device": "cuda"}, "detector": {"batch_sizes": [8, 4]}},
    }
)
QWEN = CheckedModel(name=MODEL, device="cuda", dtype="bfloat16", verify_s=98.1, load_s=44.25)
GPU: Any = {"host": "g1", "job": "77", "gpus": ("NVIDIA H100",), "gpu_bytes": 85_000_000_000}
MADE = GpuCheckReport(models=(QWEN,), aspects=(COLOR,), speeds_file="/store/speeds/x.json", **GPU)


@pytest.fixture
def check(run: Run, tmp_path: Path) -> Run:
    """Give the command on an empty store without models."""
    at = ("--store", tmp_path / "store", "--model-folder", tmp_path)
    return lambda *words, **more: run("doctor", "--gpu", *at, *words, **more)


def test_it_prints_what_was_found_and_exit_codes_say_whether_a_build_would_fail(
    check: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [MADE]
    monkeypatch.setattr(gpu_check, "check_gpu", lambda request, tell: found[0])
    output = check().text
    for said in (
        "g1, job 77, NVIDIA H100 of 85.0 GB",
        "qwen-image-edit-2509 98.1 44.2 cuda bfloat16",
        "color 2 18.5 66.0 GB h100 cuda qwen-image-edit detector 8, 4 ok",
        "speeds: /store/speeds/x.json",
    ):
        assert said in output
    assert check("--format", "json").json["aspects"][0]["frame_s"] == 18.5
    for blocked, code in ((True, 1), (False, 3)):
        changed = {"frame_s": None, "problem": "40 GB needed, 24 GB free", "blocked": blocked}
        found[0] = MADE.model_copy(update={"aspects": (COLOR.model_copy(update=changed),)})
        problem = "problem:   color (qwen-image-edit-2509): 40 GB needed, 24 GB free"
        assert problem in check(code=code).out
    # a report without a check is an error
    found[0] = GpuCheckReport(problem="no GPU is visible to g1")
    assert check(code=1).err.endswith("error: no GPU is visible to g1\n")


def test_missing_weights_and_unknown_recipes_are_reported(check: Run) -> None:
    error = check(code=1).err
    for name in ("grounding-dino-base", "stable-diffusion-inpainting", "qwen-image-edit-2509", "u2net"):
        assert f"slvmeval models add {name}" in error
    assert "paper" in check("--recipe", "papr", code=1).err


def test_without_a_gpu_pool_it_runs_here_with_the_profiles_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    asked: list[GpuCheckRequest] = []

    def check(request: GpuCheckRequest, tell: Any) -> GpuCheckReport:
        asked.append(request)
        return MADE

    monkeypatch.setattr(gpu_check, "check_gpu", check)
    profile = tmp_path / "site.toml"
    profile.write_text('store = "here"\nallow_cpu_models = true\n[placement]\ncolor = "cpu"\n')
    run("doctor", "--gpu", "--profile", profile, "--recipe", "cpu-approx")
    (request,) = asked
    assert (request.store, request.recipe.name) == (str(tmp_path / "here"), "cpu-approx")
    assert request.allow_cpu_models
    assert request.placement.placed == {"color": "cpu"}


# -- serve-llm: its command line and its job script; nothing is started --------------------------------

POOL = """
[pools.cpu]
partition = "cpu"
cores = 4
memory = "8GiB"
walltime = "12:00:00"

[pools.h100]
partition = "gpu"
gpus = 4
cores = 32
memory = "400GiB"
walltime = "12:00:00"
"""


@pytest.fixture
def site(tmp_path: Path) -> list[str]:
    (tmp_path / "site.toml").write_text(
        f'store = "{tmp_path}/store"\nprefect_api_url = "http://h/api"\n{POOL}'
    )
    return ["--profile", str(tmp_path / "site.toml"), "--model-folder", str(tmp_path / "models")]


def test_a_model_s_flags_are_printed_and_can_be_changed(site: list[str], run: Run) -> None:
    listed = run("list", "served-models").out
    assert all(name in listed for name in VLLM_MODELS)
    model = ("serve-llm", "qwen2.5-vl-72b")
    printed = run(*model, "--set", "gpus=2", "--set", "context=64000", *site)
    assert printed.out == (
        "vllm serve Qwen/Qwen2.5-VL-72B-Instruct --served-model-name Qwen/Qwen2.5-VL-72B-Instruct "
        '--max-model-len 64000 --limit-mm-per-prompt \'{"image": 768, "video": 0}\' '
        "--tensor-parallel-size 2 --mm-encoder-tp-mode data --host 127.0.0.1 --port 8000\n"
    )
    for said in (
        "147 GB, 74 GB on each of 2 GPUs, plus the context; an H100 has 80 GB",
        '[model_servers."qwen2.5-vl-72b"]',
        "slvmeval models add qwen2.5-vl-72b DIR --kind served",
        "VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES=0",
    ):
        assert said in printed.err
    printed = run(*model, "--set", "videos=2", *site)
    assert not lacks(printed.out, '\'{"image": 768, "video": 2}\'', "--trust-request-mm-kwargs")


def test_a_job_asks_for_cores_and_memory_in_proportion_to_its_gpus(site: list[str], run: Run) -> None:
    script = run("serve-llm", "qwen3-vl-235b", "--script", *site).out
    for line in ("--partition=gpu", "--cpus-per-task=64", f"--mem={800 * 1024}M", "--gres=gpu:h100:8"):
        assert f"#SBATCH {line}" in script
    assert "--name qwen3-vl --model Qwen/Qwen3-VL-235B-A22B-Thinking-FP8" in script


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["qwen3-vl-235b", "--submit"], "hf download Qwen/Qwen3-VL-235B-A22B-Thinking-FP8 --local-dir DIR"),
        (["qwen3-8b", "--submit"], "slvmeval models add qwen3-8b"),
        (["grounding-dino-base"], "is a model of kind detector"),
        (["qwen-image-edit-2509"], "is a model of kind image-editor, which builds load themselves"),
        (["qwen3-vl-235"], "no model 'qwen3-vl-235': did you mean qwen3-vl-235b or"),
        (["qwen3-8b", "--set", "name=a b"], "use at most 64 letters"),
        (["--set", "name=../x"], "--set name='../x': use at most 64 letters"),
        (["--set", "name=x\n#SBATCH --uid=0", "--script"], "use at most 64 letters"),
        (["zzz"], "qwen3-8b"),
    ],
)
def test_what_cannot_be_served_is_reported(words: list[str], message: str, site: list[str], run: Run) -> None:
    # a name that cannot be one is wrong usage
    printed = run("serve-llm", *words, *site, code=2 if "--set" in words else 1)
    assert printed.error.count(message) == 1
    # a name far from all gets the models that can be served
    assert "u2net" not in printed.err
    assert not printed.out
