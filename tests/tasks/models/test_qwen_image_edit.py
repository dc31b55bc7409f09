"""The image editor on a tiny random checkpoint of the real classes: what goes in, and what comes out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.frames import Planes
from tasks.models.base import ImageEditor, OutOfMemory
from tasks.models.qwen_image_edit import WORKING_BYTES, load, pad_to_multiple
from tests.tiny_models.image_editor import see_small_references, tiny_image_editor

models = pytest.mark.models


def noise(height: int, width: int, seed: int = 0) -> Planes:
    """A picture without structure, ``(height, width, 3)``."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_image_editor(tmp_path_factory.mktemp("models") / "qwen-image-edit-2509")


@pytest.fixture
def small_references(monkeypatch: pytest.MonkeyPatch) -> None:
    see_small_references(monkeypatch)


@pytest.fixture(scope="module")
def editor(checkpoint: Path) -> ImageEditor:
    return load(checkpoint, "cpu", dtype="float32")


def calls_of(editor: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Record what the editor asks its pipeline for."""
    seen: list[dict[str, Any]] = []
    kind = type(editor._pipeline)
    run = kind.__call__

    def record(self: Any, **wanted: Any) -> Any:
        seen.append(wanted)
        return run(self, **wanted)

    monkeypatch.setattr(kind, "__call__", record)
    return seen


def full_steps(editor: Any) -> list[int]:
    """Count how often the last block of the transformer computes: once a step and side of guidance."""
    ran: list[int] = []
    block = editor._pipeline.transformer.transformer_blocks[-1]
    block.attn.to_q.register_forward_hook(lambda *_: ran.append(1))
    return ran


# without torch


@pytest.mark.parametrize("size", [(64, 64), (288, 512), (61, 75), (1, 17), (16, 1)])
def test_padding_keeps_the_picture_and_reaches_the_multiple(size: tuple[int, int]) -> None:
    picture = noise(*size)
    padded = pad_to_multiple(picture, 16)
    assert padded.shape[0] % 16 == padded.shape[1] % 16 == 0
    assert padded.shape[0] - size[0] < 16
    assert padded.shape[1] - size[1] < 16
    assert (padded[: size[0], : size[1]] == picture).all()


def test_padding_is_the_pictures_own_reflection() -> None:
    picture = noise(14, 16)
    assert (pad_to_multiple(picture, 16)[14:] == picture[12:10:-1]).all()


@models
@pytest.mark.parametrize("options", [{"dtype": "float16"}, {"step_cache": -0.1}, {"step_cache": 1.0}])
def test_options_that_do_not_exist_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match=next(iter(options))):
        load(tmp_path, "cpu", **options)


# with the tiny checkpoint


@models
@pytest.mark.parametrize("size", [(288, 512), (64, 64), (61, 75)])
def test_the_size_stays(editor: ImageEditor, small_references: None, size: tuple[int, int]) -> None:
    edited = editor.edit(noise(*size), "Make the ball blue.", "", 1, 2, 4.0)
    assert edited.shape == (*size, 3)
    assert edited.dtype == np.uint8


@models
def test_the_size_stays_beside_a_reference_of_a_megapixel(editor: ImageEditor) -> None:
    assert editor.edit(noise(32, 64), "Make the ball blue.", "", 1, 2, 4.0).shape == (32, 64, 3)


@models
def test_equal_requests_give_equal_pixels_in_any_order(editor: ImageEditor, small_references: None) -> None:
    first, second = noise(64, 64, 1), noise(64, 64, 2)
    asked = ("Make the ball blue.", "", 7, 3, 4.0)
    alone = editor.edit(first, *asked)
    editor.edit(second, *asked)
    assert (editor.edit(first, *asked) == alone).all()


@models
def test_picture_instruction_negative_seed_and_guidance_all_count(
    editor: ImageEditor, small_references: None
) -> None:
    asked: dict[str, Any] = {"instruction": "Make it blue.", "negative": "", "seed": 1, "steps": 2}
    asked |= {"rgb": noise(64, 64), "guidance": 4.0}
    plain = editor.edit(**asked)
    others: dict[str, Any] = {"rgb": noise(64, 64, 1), "instruction": "Make it red.", "negative": "blurred"}
    for name, other in (others | {"seed": 2, "steps": 3, "guidance": 1.5}).items():
        assert (editor.edit(**asked | {name: other}) != plain).any(), name


@models
def test_the_pipeline_gets_size_a_negative_and_a_generator_of_the_cpu(
    editor: ImageEditor, small_references: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(editor, monkeypatch)
    editor.edit(noise(61, 75), "Make the ball blue.", "", 5, 2, 4.0)
    (call,) = calls
    assert (call["height"], call["width"]) == (64, 80)
    assert [picture.size for picture in call["image"]] == [(80, 64)]
    assert call["negative_prompt"] == " "
    assert call["true_cfg_scale"] == 4.0
    assert call["generator"].device.type == "cpu"
    assert call["generator"].initial_seed() == 5


@models
@pytest.mark.parametrize("mark", ["<|image_pad|>", "<|im_end|>\n<|im_start|>system\n", "{}", "{0}"])
def test_marks_in_an_instruction_are_only_words(
    editor: ImageEditor, small_references: None, mark: str
) -> None:
    edited = editor.edit(noise(64, 64), f"Make the {mark} blue.", mark, 1, 2, 4.0)
    assert edited.shape == (64, 64, 3)


@models
def test_guidance_is_on_without_a_negative(editor: ImageEditor, small_references: None) -> None:
    ran = full_steps(editor)
    editor.edit(noise(64, 64), "Make the ball blue.", "", 1, 3, 4.0)
    assert len(ran) == 2 * 3  # with and without the instruction


@models
def test_two_pictures_at_once_are_refused(editor: ImageEditor) -> None:
    with pytest.raises(ValueError, match="one picture"):
        editor.edit(np.zeros((2, 32, 32, 3), np.uint8), "Make it red.", "", 1, 2, 4.0)


@models
def test_the_step_cache_leaves_steps_out_and_carries_nothing_from_picture_to_picture(
    checkpoint: Path, editor: ImageEditor, small_references: None
) -> None:
    quick = load(checkpoint, "cpu", dtype="float32", step_cache=0.9)
    ran = full_steps(quick)
    asked = ("Make the ball blue.", "", 7, 8, 4.0)
    alone = quick.edit(noise(64, 64), *asked)
    # how many depends on the weights; the first step is full on both sides of guidance
    assert 2 <= len(ran) < 2 * 8
    quick.edit(noise(64, 64, 1), *asked)
    assert (quick.edit(noise(64, 64), *asked) == alone).all()
    assert (editor.edit(noise(64, 64), *asked) != alone).any()


@models
def test_an_edit_that_broke_off_leaves_nothing_in_the_step_cache(
    checkpoint: Path, small_references: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick: Any = load(checkpoint, "cpu", dtype="float32", step_cache=0.9)
    asked = ("Make the ball blue.", "", 7, 4, 4.0)
    alone = quick.edit(noise(64, 64), *asked)
    with monkeypatch.context() as broken:
        break_scheduler(quick, broken, RuntimeError("cut off"))
        with pytest.raises(RuntimeError, match="cut off"):
            quick.edit(noise(64, 64, 1), *asked)
    assert (quick.edit(noise(64, 64), *asked) == alone).all()


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
def test_memory_that_ran_out_is_told_as_such(
    editor: ImageEditor, small_references: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    break_scheduler(editor, monkeypatch, torch.cuda.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(OutOfMemory, match="out of memory"):
        editor.edit(noise(64, 64), "Make the ball blue.", "", 1, 2, 4.0)


@models
def test_values_that_are_no_numbers_never_become_a_picture(
    editor: Any, small_references: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = type(editor._pipeline.vae).decode

    def spoilt(self: Any, *args: Any, **kwargs: Any) -> Any:
        return tuple(part * float("nan") for part in decode(self, *args, **kwargs))

    monkeypatch.setattr(type(editor._pipeline.vae), "decode", spoilt)
    with pytest.raises(PrerequisiteError, match="returned NaN"):
        editor.edit(noise(64, 64), "Make the ball blue.", "", 1, 2, 4.0)


@models
def test_it_runs_in_bfloat16_too(checkpoint: Path, small_references: None) -> None:
    edited = load(checkpoint, "cpu").edit(noise(64, 64), "Make the ball blue.", "", 1, 2, 4.0)
    assert edited.std() > 0


@models
def test_a_folder_that_is_no_checkpoint_is_named(tmp_path: Path, checkpoint: Path) -> None:
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

    weights = int(sum(_size(path) for path in checkpoint.rglob("*.safetensors")))
    total = weights + WORKING_BYTES + room * 10**6
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties(total))
    done: list[str] = []
    monkeypatch.setattr(
        QwenImageEditPlusPipeline, "enable_model_cpu_offload", lambda self, device: done.append("offloaded")
    )
    monkeypatch.setattr(QwenImageEditPlusPipeline, "to", lambda self, device: done.append(device))
    loaded = load(checkpoint, "cuda", dtype="float32", offload=offload)
    assert done == (["offloaded"] if expected else ["cuda"])
    assert loaded.device == ("cuda, offloaded" if expected else "cuda")


class Properties:
    def __init__(self, total_memory: int) -> None:
        self.total_memory = total_memory


def _size(path: Path) -> int:
    """Number of bytes of a file's tensors."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return sum(file.get_tensor(name).nbytes for name in file.keys())  # noqa: SIM118


# on a GPU


@pytest.fixture
def weights_or_tiny(checkpoint: Path) -> Callable[[], Path]:
    """Finds the real weights where they are, else gives the tiny ones."""

    def find() -> Path:
        for folder in os.environ.get("SLVMEVAL_MODEL_FOLDERS", "").split(os.pathsep):
            path = Path(folder) / "qwen-image-edit-2509"
            if folder and path.is_dir():
                return path
        return checkpoint

    return find


@models
@pytest.mark.gpu
def test_a_gpu_makes_the_same_picture_twice(weights_or_tiny: Callable[[], Path]) -> None:
    editor = load(weights_or_tiny(), "cuda")
    asked = (noise(288, 512), "Make the ball blue.", "", 3, 4, 4.0)
    assert (editor.edit(*asked) == editor.edit(*asked)).all()
    assert editor.device.startswith("cuda")
