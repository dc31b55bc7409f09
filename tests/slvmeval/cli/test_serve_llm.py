"""``slvmeval serve-llm``: its command line and its job script; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.vllm import VLLM_MODELS
from slvmeval.cli.main import main

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
    return ["--profile", str(tmp_path / "site.toml"), "--models", str(tmp_path / "models")]


def test_all_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve-llm", "--list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in VLLM_MODELS)


def test_a_model_s_flags_are_printed_and_can_be_changed(
    site: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve-llm", "qwen2.5-vl-72b", "--gpus", "2", "--max-model-len", "64000", *site]) == 0
    printed = capsys.readouterr()
    assert printed.out == (
        "vllm serve Qwen/Qwen2.5-VL-72B-Instruct --served-model-name Qwen/Qwen2.5-VL-72B-Instruct "
        '--max-model-len 64000 --limit-mm-per-prompt \'{"image": 768, "video": 0}\' '
        "--tensor-parallel-size 2 --mm-encoder-tp-mode data --host 127.0.0.1 --port 8000\n"
    )
    assert "147 GB, 74 GB on each of 2 GPUs, besides the context; an H100 has 80 GB" in printed.err
    assert '[model_servers."qwen2.5-vl-72b"]' in printed.err
    assert "slvmeval models add qwen2.5-vl-72b DIR --kind served" in printed.err
    assert "VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES=0" in printed.err
    assert main(["serve-llm", "qwen2.5-vl-72b", "--videos", "2", *site]) == 0
    printed = capsys.readouterr()
    assert '\'{"image": 768, "video": 2}\'' in printed.out
    assert "--trust-request-mm-kwargs" in printed.out


def test_a_job_asks_for_cores_and_memory_in_proportion_to_its_gpus(
    site: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve-llm", "qwen3-vl-235b", "--script", *site]) == 0
    script = capsys.readouterr().out
    for line in ("--partition=gpu", "--cpus-per-task=64", f"--mem={800 * 1024}M", "--gres=gpu:h100:8"):
        assert f"#SBATCH {line}" in script
    assert "--name qwen3-vl --model Qwen/Qwen3-VL-235B-A22B-Thinking-FP8" in script


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["qwen3-vl-235b", "--submit"], "hf download Qwen/Qwen3-VL-235B-A22B-Thinking-FP8 --local-dir DIR"),
        (["qwen3-8b", "--submit"], "slvmeval models fetch qwen3-8b"),
        (["grounding-dino-base"], "is a model of kind detector"),
        (["qwen3-vl-235"], "no model 'qwen3-vl-235': did you mean qwen3-vl-235b or"),
        (["qwen3-8b", "--name", "a b"], "use at most 64 letters"),
    ],
)
def test_what_cannot_be_served_is_said(
    words: list[str], message: str, site: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve-llm", *words, *site]) == 1
    assert message in capsys.readouterr().err


def test_a_name_far_from_all_gets_the_models_that_can_be_served(
    site: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve-llm", "zzz", *site]) == 1
    message = capsys.readouterr().err
    assert message.count("qwen3-8b") == 1
    assert "u2net" not in message
