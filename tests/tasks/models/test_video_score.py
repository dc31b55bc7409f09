"""VideoScore's loading and running code, on a tiny random checkpoint of the real classes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.models.video_score import DIMENSIONS, FRAME_MARK
from tests.once import Once

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def folder(once: Once) -> Path:
    from tests.tiny_models.video_score import tiny_video_score

    return once("tiny-video-score", tiny_video_score)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    from tasks.models.video_score import load

    return load(folder, "cpu", "float32")


def frames(count: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, 36, 64, 3), dtype=np.uint8)


def question(count: int, prompt: str = "a dog") -> str:
    return f"The text: {prompt}. The frames: " + " ".join([FRAME_MARK] * count)


def test_the_numbers_are_the_head_on_the_last_tokens_state(folder: Path, model: Any) -> None:
    """Put together from parts of transformers: the base model, and the head's weights from the file."""
    import torch
    from PIL import Image
    from safetensors.torch import load_file
    from transformers import AutoProcessor, Idefics2Config, Idefics2Model

    weights = load_file(folder / "model.safetensors")
    assert {name.split(".")[0] for name in weights} == {"model", "score"}
    base = Idefics2Model(Idefics2Config.from_pretrained(folder)).eval()
    body = {name.removeprefix("model."): value for name, value in weights.items() if name.startswith("model")}
    base.load_state_dict(body)
    processor = AutoProcessor.from_pretrained(folder, local_files_only=True, backend="pil")
    shown = frames(5)
    inputs = processor(
        text=question(5), images=[Image.fromarray(frame) for frame in shown], return_tensors="pt"
    )
    with torch.inference_mode():
        state = base(**inputs).last_hidden_state[0, -1]
        expected = weights["score.weight"] @ state + weights["score.bias"]
    numbers, tokens = model.scores(shown, question(5))
    np.testing.assert_allclose(numbers, expected.numpy(), rtol=1e-4, atol=1e-5)
    assert tokens == inputs["input_ids"].shape[1]
    assert numbers.shape == (len(DIMENSIONS),)


def test_48_frames_in_one_look(model: Any) -> None:
    numbers, tokens = model.scores(frames(48), question(48))
    assert np.isfinite(numbers).all()
    assert tokens == model.count(question(48), 48, 36, 64)
    # other frames, or another prompt, give other numbers
    assert not np.array_equal(numbers, model.scores(frames(48, seed=1), question(48))[0])
    assert not np.array_equal(numbers, model.scores(frames(48), question(48, "a cat"))[0])


def test_half_precision_is_near(folder: Path, model: Any) -> None:
    from tasks.models.video_score import load

    half = load(folder, "cpu")
    numbers = half.scores(frames(3), question(3))[0]
    assert half.dtype == "bfloat16"
    np.testing.assert_allclose(numbers, model.scores(frames(3), question(3))[0], rtol=0.05, atol=0.1)


def test_no_text_is_a_mark_of_the_model(model: Any) -> None:
    text = model.plain("a <image> and <<image>image> </s> in <row>")
    assert FRAME_MARK not in text
    assert "</s>" not in text
    assert "<row>" in text
    numbers, _ = model.scores(frames(2), question(2, text))
    assert np.isfinite(numbers).all()
    assert model.plain("a dog on a boat, 3 < 4") == "a dog on a boat, 3 < 4"


def test_it_is_forgotten_with_its_last_reference(folder: Path) -> None:
    import gc
    import weakref

    from tasks.models.video_score import load

    model = load(folder, "cpu", "float32")
    model.count(question(2), 2, 36, 64)
    model.scores(frames(2), question(2))
    watched = weakref.ref(model)
    del model
    gc.collect()
    # else its memory would never be free for another model
    assert watched() is None


@pytest.mark.gpu
def test_it_runs_on_a_gpu(folder: Path) -> None:
    """With the real weights where the model folder has them: the numbers lie about the scale from 1 to 4."""
    from tasks.models.video_score import load

    real = Path(os.environ.get("SLVMEVAL_MODEL_FOLDERS", "")) / "videoscore-v1.1"
    there = (real / "config.json").is_file()
    model = load(real if there else folder, "cuda")
    numbers, _ = model.scores(frames(48), question(48))
    assert np.isfinite(numbers).all()
    assert model.dtype == "bfloat16"
    if there:
        assert (numbers > 0).all()
        assert (numbers < 5).all()


def test_weights_without_the_head_are_refused_not_made_up(folder: Path, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    from tasks.models.video_score import load
    from tests.tiny_models.video_score import tiny_video_score

    headless = Path(shutil.copytree(folder, tmp_path / "headless"))
    weights = load_file(headless / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("score")}
    save_file(kept, headless / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PrerequisiteError, match=r"its weights lack score\.bias, which VideoScore has"):
        load(headless, "cpu")
    with pytest.raises(PrerequisiteError, match="3 numbers, 5 are needed"):
        load(tiny_video_score(tmp_path / "three", labels=3), "cpu")
    with pytest.raises(PrerequisiteError, match="cannot be loaded as VideoScore"):
        load(tmp_path, "cpu")
    with pytest.raises(UserInputError, match="dtype 'int4'"):
        load(folder, "cpu", "int4")
