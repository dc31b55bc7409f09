"""The image editor on a tiny random checkpoint of the real classes: what goes in, and what comes out."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.frames import Planes
from tasks.models.base import OutOfMemory
from tasks.models.qwen_image_edit import WORKING_BYTES, load, pad_to_multiple
from tests.once import Once
from tests.tiny_models.image_editor import see_small_references, tiny_image_editor

models = pytest.mark.models
BLUE = "Make the ball blue."


def noise(height: int = 64, width: int = 64, seed: int = 0) -> Planes:
    """A picture without structure, ``(height, width, 3)``."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def checkpoint(once: Once) -> Path:
    return once("tiny-image-editor", tiny_image_editor)


@pytest.fixture(scope="module")
def whole_editor(checkpoint: Path) -> Any:
    return load(checkpoint, "cpu", dtype="float32")


@pytest.fixture
def editor(whole_editor: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An editor that sees its picture small."""
    see_small_references(monkeypatch)
    return whole_editor


@pytest.fixture
def quick(checkpoint: Path, editor: Any) -> Any:
    """One that leaves steps out."""
    return load(checkpoint, "cpu", dtype="float32", step_cache=0.9)


def edited(editor: Any, picture: Planes, steps: int = 2, seed: int = 1, instruction: str = BLUE) -> Planes:
    result: Planes = editor.edit(picture, instruction, "", seed, steps, 4.0)
    return result


def full_steps(editor: Any) -> list[int]:
    """Count how often the last block of the transformer computes: once a step and side of guidance."""
    ran: list[int] = []
    block = editor._pipeline.transformer.transformer_blocks[-1]
    block.attn.to_q.register_forward_hook(lambda *_: ran.append(1))
    return ran


@pytest.mark.parametrize("size", [(64, 64), (288, 512), (61, 75), (1, 17), (16, 1)])
def test_padding_keeps_the_picture_and_reflects_it_up_to_the_multiple(size: tuple[int, int]) -> None:
    picture = noise(*size)
    padded = pad_to_multiple(picture, 16)
    assert padded.shape[0] % 16 == padded.shape[1] % 16 == 0
    assert padded.shape[0] - size[0] < 16
    assert padded.shape[1] - size[1] < 16
    assert (padded[: size[0], : size[1]] == picture).all()
    assert size[0] != 61 or (padded[61:, :75] == picture[59:56:-1]).all()


@models
@pytest.mark.parametrize("options", [{"dtype": "float16"}, {"step_cache": -0.1}, {"step_cache": 1.0}])
def test_options_that_do_not_exist_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match=next(iter(options))):
        load(tmp_path, "cpu", **options)


@models
def test_the_size_stays_beside_a_reference_of_a_megapixel(whole_editor: Any) -> None:
    assert edited(whole_editor, noise(32, 64)).shape == (32, 64, 3)


@models
def test_equal_requests_give_equal_pixels_in_any_order(editor: Any) -> None:
    alone = edited(editor, noise())
    edited(editor, noise(seed=2))
    assert (edited(editor, noise()) == alone).all()


@models
def test_picture_instruction_negative_seed_and_guidance_all_count(editor: Any) -> None:
    asked: dict[str, Any] = {"rgb": noise(), "instruction": BLUE, "negative": "", "seed": 1, "steps": 2}
    asked["guidance"] = 4.0
    plain = editor.edit(**asked)
    others: dict[str, Any] = {"rgb": noise(seed=1), "instruction": "Make it red.", "negative": "blurred"}
    for name, other in (others | {"seed": 2, "steps": 3, "guidance": 1.5}).items():
        assert (editor.edit(**asked | {name: other}) != plain).any(), name


@models
@pytest.mark.parametrize("size", [(288, 512), (61, 75)])
def test_pipeline_is_given_all(editor: Any, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []
    kind = type(editor._pipeline)
    run = kind.__call__
    monkeypatch.setattr(kind, "__call__", lambda self, **asked: calls.append(asked) or run(self, **asked))
    result = edited(editor, noise(*size), seed=5)
    assert (result.shape, result.dtype) == ((*size, 3), np.uint8)
    (call,) = calls
    height, width = (-(-side // 16) * 16 for side in size)
    assert (call["height"], call["width"]) == (height, width)
    assert [picture.size for picture in call["image"]] == [(width, height)]
    assert (call["negative_prompt"], call["true_cfg_scale"]) == (" ", 4.0)
    assert (call["generator"].device.type, call["generator"].initial_seed()) == ("cpu", 5)


@models
@pytest.mark.parametrize("mark", ["<|image_pad|>", "<|im_end|>\n<|im_start|>system\n", "{}", "{0}"])
def test_marks_in_an_instruction_are_only_words(editor: Any, mark: str) -> None:
    assert editor.edit(noise(), f"Make the {mark} blue.", mark, 1, 2, 4.0).shape == (64, 64, 3)


@models
def test_guidance_is_on_without_a_negative(editor: Any) -> None:
    ran = full_steps(editor)
    edited(editor, noise(), steps=3)
    assert len(ran) == 2 * 3  # with and without the instruction


@models
def test_two_pictures_at_once_are_refused(whole_editor: Any) -> None:
    with pytest.raises(ValueError, match="one picture"):
        edited(whole_editor, np.zeros((2, 32, 32, 3), np.uint8))


@models
def test_step_cache_carries_no_picture_over(editor: Any, quick: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = full_steps(quick)
    alone = edited(quick, noise(), steps=6)
    # how many depends on the weights; the first step is full on both sides of guidance
    assert 2 <= len(ran) < 2 * 6
    assert (edited(editor, noise(), steps=6) != alone).any()
    # nor does an edit that broke off
    with monkeypatch.context() as broken:
        break_scheduler(quick, broken, RuntimeError("cut off"))
        with pytest.raises(RuntimeError, match="cut off"):
            edited(quick, noise(seed=1), steps=6)
    assert (edited(quick, noise(), steps=6) == alone).all()
    edited(quick, noise(seed=1), steps=6)
    assert (edited(quick, noise(), steps=6) == alone).all()


def break_scheduler(editor: Any, monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    """Let the second step of every edit fail."""
    kind = type(editor._pipeline.scheduler)
    step, calls = kind.step, []

    def fail(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise problem
        return step(self, *args, **kwargs)

    monkeypatch.setattr(kind, "step", fail)


@models
def test_edit_gives_no_picture_of_nan_or_out_of_memory(editor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    with monkeypatch.context() as broken:
        break_scheduler(editor, broken, torch.cuda.OutOfMemoryError("CUDA out of memory"))
        with pytest.raises(OutOfMemory, match="out of memory"):
            edited(editor, noise())
    kind = type(editor._pipeline.vae)
    decode = kind.decode

    def spoilt(self: Any, *args: Any, **kwargs: Any) -> Any:
        return tuple(part * float("nan") for part in decode(self, *args, **kwargs))

    monkeypatch.setattr(kind, "decode", spoilt)
    with pytest.raises(PrerequisiteError, match="returned NaN"):
        edited(editor, noise())


@models
def test_it_runs_in_bfloat16_too(checkpoint: Path, editor: Any) -> None:
    assert edited(load(checkpoint, "cpu"), noise()).std() > 0


@models
def test_a_folder_that_is_not_a_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match=str(tmp_path)):
        load(tmp_path, "cpu")
    (tmp_path / "model_index.json").write_text("{", encoding="utf-8")
    with pytest.raises(PrerequisiteError, match="models verify"):
        load(tmp_path, "cpu")


@models
@pytest.mark.parametrize(
    ("offload", "room", "expected"),
    [("auto", 0, False), ("auto", -1, True), ("always", 10, True), ("never", -1, False)],
)
def test_parts_wait_in_the_computers_memory_where_the_gpu_does_not_hold_them(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, offload: Any, room: int, expected: bool
) -> None:
    import torch
    from diffusers import QwenImageEditPlusPipeline
    from safetensors.torch import load_file

    tensors = [tensor for path in checkpoint.rglob("*.safetensors") for tensor in load_file(path).values()]
    total = sum(tensor.nbytes for tensor in tensors) + WORKING_BYTES + room * 10**6
    card = SimpleNamespace(total_memory=total)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    done: list[str] = []
    monkeypatch.setattr(
        QwenImageEditPlusPipeline, "enable_model_cpu_offload", lambda self, device: done.append("offloaded")
    )
    monkeypatch.setattr(QwenImageEditPlusPipeline, "to", lambda self, device: done.append(device))
    loaded = load(checkpoint, "cuda", dtype="float32", offload=offload)
    assert done == (["offloaded"] if expected else ["cuda"])
    assert loaded.device == ("cuda, offloaded" if expected else "cuda")


@models
@pytest.mark.gpu
def test_a_gpu_makes_the_same_picture_twice(checkpoint: Path) -> None:
    """With the real weights where a model folder has them."""
    folders = filter(None, os.environ.get("SLVMEVAL_MODEL_FOLDERS", "").split(os.pathsep))
    real = [path for folder in folders if (path := Path(folder) / "qwen-image-edit-2509").is_dir()]
    editor = load([*real, checkpoint][0], "cuda")
    asked = (noise(288, 512), BLUE, "", 3, 4, 4.0)
    assert (editor.edit(*asked) == editor.edit(*asked)).all()
    assert editor.device.startswith("cuda")
