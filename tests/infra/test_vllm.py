"""How vLLM serves the papers' models: what those who ask them need."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from infra.vllm import VLLM_MODELS, vllm_command
from tasks.annotation.translation import TranslationParameters
from tasks.captions.llm import LlmParameters
from tasks.extras.locot2v.settings import READY
from tasks.extras.locot2v.text_similarity import READY as EMBEDDINGS
from tasks.llm.vision_models import VLM_MODELS, VlmModel
from tasks.models.registry import MODEL_SPECS

#: Models that judges and suites ask with pictures or texts, as they look for them.
ASKED: list[VlmModel] = [VLM_MODELS["qwen3-vl"], *READY.values()]


@pytest.mark.parametrize("asked", ASKED, ids=lambda one: one.model)
def test_judges_and_suites_find_the_context_and_the_images_that_they_count_on(asked: VlmModel) -> None:
    (served,) = [one for one in VLLM_MODELS.values() if one.repository == asked.model]
    assert served.server == asked.server
    assert served.context >= asked.context_tokens
    # the smallest picture's tokens say how many fit into the context
    fitting = asked.context_tokens // min(asked.image_tokens(16 * n, 9 * n) for n in range(1, 33))
    if asked.frames_as == "video":
        assert served.videos >= 2
        assert served.video_pixels == asked.video_pixels
    if served.asks == "images":
        assert served.images >= min(asked.most_images, fitting)
    else:
        assert served.images == 0


def test_texts_are_asked_of_the_servers_that_are_started() -> None:
    by_server = {one.server: one for one in VLLM_MODELS.values()}
    assert len(by_server) == len(VLLM_MODELS)
    for parameters in (LlmParameters(), TranslationParameters()):
        assert by_server[parameters.server].repository == parameters.model
    embedding = EMBEDDINGS["qwen3-embedding-0.6b"]
    served = by_server[embedding.server]
    assert (served.repository, served.asks) == (embedding.model, "embeddings")
    assert served.context >= embedding.most_tokens
    assert VLLM_MODELS["qwen3-8b"].repository == MODEL_SPECS["qwen3-8b"].repository


def test_weights_leave_room_on_the_gpus_that_share_them() -> None:
    for name, one in VLLM_MODELS.items():
        assert one.weights_gb is not None
        # DeepSeek-V3.1 is for H200s
        assert one.weights_gb / one.gpus < (141 if name == "deepseek-v3.1" else 80) * 0.7, name


def test_the_command_has_the_flags_of_long_video() -> None:
    command = vllm_command("/w/vl", VLLM_MODELS["qwen3-vl-235b"], more=["--seed", "1"])
    value = dict(pairwise(command))
    assert command[:3] == ["vllm", "serve", "/w/vl"]
    assert command[-2:] == ["--seed", "1"]
    assert value["--served-model-name"] == "Qwen/Qwen3-VL-235B-A22B-Thinking-FP8"
    assert value["--max-model-len"] == "262144"
    assert value["--tensor-parallel-size"] == "8"
    assert json.loads(value["--limit-mm-per-prompt"]) == {"image": 3971, "video": 2}
    # requests say the rate of their videos, and every frame is read
    assert "--trust-request-mm-kwargs" in command
    assert json.loads(value["--media-io-kwargs"]) == {"video": {"num_frames": -1}}
    assert json.loads(value["--mm-processor-kwargs"]) == {"videos_kwargs": {"max_pixels": 402_653_184}}
    assert "--revision" not in command


def test_the_command_of_a_model_of_texts() -> None:
    command = vllm_command("Qwen/Qwen3-8B", VLLM_MODELS["qwen3-8b"], revision="abc", program="env/bin/vllm")
    assert command[:3] == ["env/bin/vllm", "serve", "Qwen/Qwen3-8B"]
    assert command[command.index("--revision") + 1] == "abc"
    assert command[command.index("--reasoning-parser") + 1] == "qwen3"
    assert not {"--limit-mm-per-prompt", "--tensor-parallel-size"} & set(command)


def test_a_model_of_images_gets_no_videos_unless_asked_for() -> None:
    model = VLLM_MODELS["qwen2.5-vl-7b"]
    plain, more = (vllm_command("w", one) for one in (model, model.model_copy(update={"videos": 2})))
    assert '{"image": 768, "video": 0}' in plain
    assert "--trust-request-mm-kwargs" not in plain
    assert '{"image": 768, "video": 2}' in more
    assert "--trust-request-mm-kwargs" in more
    assert "--mm-processor-kwargs" not in more
