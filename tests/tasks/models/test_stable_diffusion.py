"""Stable Diffusion's loading and running code, on a tiny random checkpoint of the real classes."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.frames import Planes
from tests.once import Once

pytestmark = pytest.mark.models

WEIGHTS = "diffusion_pytorch_model.safetensors"


@pytest.fixture(scope="module")
def folder(once: Once) -> Path:
    from tests.tiny_models.inpainter import tiny_inpainter

    return once("tiny-inpainter", tiny_inpainter)


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """A checkpoint to spoil."""
    return Path(shutil.copytree(folder, tmp_path / "copied"))


def loaded(folder: Path, device: str = "cpu", **options: Any) -> Any:
    from tasks.models.stable_diffusion import load

    return load(folder, device, **({"dtype": "float32"} if device == "cpu" else {}) | options)


@pytest.fixture(scope="module")
def inpainter(folder: Path) -> Any:
    return loaded(folder)


def pictures(count: int, height: int = 64, width: int = 96) -> tuple[Planes, NDArray[np.bool_]]:
    shown = np.random.default_rng(1).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    masks = np.zeros((count, height, width), np.bool_)
    masks[:, height // 4 :, width // 4 :] = True
    return shown, masks


def paint(model: Any, shown: Planes, masks: NDArray[np.bool_], seeds: list[int], **changed: Any) -> Planes:
    options = {"prompt": "a meadow", "negative": "dog", "steps": 2, "guidance": 7.5, **changed}
    painted: Planes = model.inpaint(shown, masks, seeds=seeds, **options)
    return painted


def test_the_noise_of_a_frame_is_its_seeds_and_does_not_depend_on_the_others(inpainter: Any) -> None:
    shown, masks = pictures(3)
    together = paint(inpainter, shown, masks, [5, 2**62, 7])
    assert (together.shape, together.dtype) == (shown.shape, np.uint8)
    assert (paint(inpainter, shown, masks, [5, 2**62, 7]) == together).all()
    for place, seed in enumerate([5, 2**62, 7]):
        alone = paint(inpainter, shown[place : place + 1], masks[place : place + 1], [seed])
        # equal but for the order of sums in a larger batch
        assert np.abs(alone[0] - together[place].astype(int)).max() <= 1
    other = paint(inpainter, shown[1:2], masks[1:2], [5])
    assert np.abs(other[0] - together[1].astype(int)).max() > 1


def test_prompt_negative_and_guidance_count(inpainter: Any) -> None:
    shown, masks = pictures(1)
    plain = paint(inpainter, shown, masks, [1])
    assert (paint(inpainter, shown, masks, [1], prompt="a city") != plain).any()
    assert (paint(inpainter, shown, masks, [1], negative="cat") != plain).any()
    without = paint(inpainter, shown, masks, [1], guidance=1.0)
    assert (without != plain).any()
    assert (paint(inpainter, shown, masks, [1], guidance=1.0, negative="cat") == without).all()
    # what lies under the mask does not reach the model, what lies beside it does
    under, beside = (np.where(masks[..., None] == side, 255 - shown, shown) for side in (True, False))
    assert (paint(inpainter, under, masks, [1]) == plain).all()
    assert (paint(inpainter, beside, masks, [1]) != plain).any()


@pytest.mark.parametrize("size", [(4, 512), (284, 508), (68, 64), (12, 20)])
def test_sides_that_are_only_multiples_of_four(inpainter: Any, size: tuple[int, int]) -> None:
    shown, masks = pictures(2, *size)
    painted = paint(inpainter, shown, masks, [1, 2], steps=1)
    assert painted.shape == shown.shape
    assert len(np.unique(painted)) > 1
    assert paint(inpainter, shown[:0], masks[:0], []).shape == (0, *size, 3)


def test_the_padding_is_a_reflection(inpainter: Any) -> None:
    shown, masks = pictures(1, 68, 64)
    grown = np.pad(shown, ((0, 0), (0, 4), (0, 0), (0, 0)), "reflect")
    larger = np.pad(masks, ((0, 0), (0, 4), (0, 0)), "reflect")
    whole = paint(inpainter, grown, larger, [1])
    assert (whole[:, :68] == paint(inpainter, shown, masks, [1])).all()


def test_long_prompt_is_cut_between_words(inpainter: Any, caplog: pytest.LogCaptureFixture) -> None:
    shown, masks = pictures(1)
    # the tiny tokenizer has a token a letter: 25 words of three letters, and two marks
    reds = " ".join(["red"] * 25)
    for text, read in (("red " * 300, reds), ("x" * 5000, "x" * 75), ("red ball", "red ball"), ("", "")):
        assert inpainter.read(text) == read
    with caplog.at_level(logging.WARNING):
        first = paint(inpainter, shown, masks, [1], prompt="red " * 300)
        paint(inpainter, shown, masks, [1], prompt="red " * 300)
    assert ["first 25 words" in record.getMessage() for record in caplog.records] == [True]
    assert (paint(inpainter, shown, masks, [1], prompt=reds) == first).all()


@pytest.mark.parametrize("text", ["", "犬のいる公園", "<|endoftext|> {x} \0", "?!"])
def test_odd_prompts_run(inpainter: Any, text: str) -> None:
    shown, masks = pictures(1)
    assert paint(inpainter, shown, masks, [1], steps=1, prompt=text, negative=text).shape == shown.shape


def test_a_prompt_is_embedded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(folder)
    texts: list[str] = []
    encode = model._pipeline.encode_prompt

    def counted(prompt: Any, *args: Any, **kwargs: Any) -> Any:
        texts.extend([prompt] if prompt is not None else [])
        return encode(prompt, *args, **kwargs)

    monkeypatch.setattr(model._pipeline, "encode_prompt", counted)
    shown, masks = pictures(2)
    for _ in range(3):
        paint(model, shown, masks, [1, 2], steps=1)
    assert texts == ["a meadow", "dog"]
    monkeypatch.setattr("tasks.models.stable_diffusion.KEPT_EMBEDDINGS", 2)
    paint(model, shown, masks, [1, 2], steps=1, prompt="a city")
    assert len(model._embeddings) <= 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_for_gpus(folder: Path, inpainter: Any, dtype: str) -> None:
    half = loaded(folder, dtype=dtype)
    assert (half.dtype, half.device) == ("float32", "cpu")
    shown, masks = pictures(1)
    np.testing.assert_array_equal(paint(half, shown, masks, [1]), paint(inpainter, shown, masks, [1]))
    with pytest.raises(UserInputError, match=r"float8.*choose one of bfloat16"):
        loaded(folder, dtype="float8")


@pytest.mark.gpu
def test_on_a_gpu_half_precision_computes_the_same_up_to_rounding(folder: Path, inpainter: Any) -> None:
    half = loaded(folder, "cuda")
    assert (half.dtype, half.device) == ("float16", "cuda")
    shown, masks = pictures(1)
    difference = paint(half, shown, masks, [1]).astype(int) - paint(inpainter, shown, masks, [1])
    assert 0 < np.abs(difference).mean() < 20


def test_inpaint_out_of_memory_and_nan_are_errors(inpainter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from tasks.models.base import OutOfMemory

    shown, masks = pictures(2)

    def full(*args: Any, **kwargs: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(inpainter._pipeline.unet, "forward", full)
        with pytest.raises(OutOfMemory, match="CUDA out of memory"):
            paint(inpainter, shown, masks, [1, 2])
    last = inpainter._pipeline.unet.conv_out
    monkeypatch.setattr(last, "bias", torch.nn.Parameter(last.bias * float("nan")))
    with pytest.raises(PrerequisiteError, match="returned NaN"):
        paint(inpainter, shown, masks, [1, 2], steps=1)


def test_weights_in_half_precision_alone_are_taken(folder: Path, copied: Path, inpainter: Any) -> None:
    from tasks.models.stable_diffusion import weights_variant

    assert weights_variant(folder) is None
    for file in (
        copied / "unet" / WEIGHTS,
        copied / "vae" / WEIGHTS,
        copied / "text_encoder/model.safetensors",
    ):
        file.rename(file.with_suffix(".fp16.safetensors"))
    # in full precision there are pickles, as in the published repository: they are never opened
    (copied / "unet" / "diffusion_pytorch_model.bin").write_bytes(b"no weights")
    assert weights_variant(copied) == "fp16"
    shown, masks = pictures(1)
    assert (paint(loaded(copied), shown, masks, [1]) == paint(inpainter, shown, masks, [1])).all()


def test_no_safety_checker_is_loaded_though_the_checkpoint_names_one(folder: Path, inpainter: Any) -> None:
    assert "StableDiffusionSafetyChecker" in (folder / "model_index.json").read_text(encoding="utf-8")
    assert inpainter._pipeline.safety_checker is None


def test_what_is_no_such_checkpoint_is_refused(copied: Path) -> None:
    import torch
    from diffusers import UNet2DConditionModel
    from safetensors.torch import load_file

    with pytest.raises(PrerequisiteError, match="nothing-here cannot be loaded as a Stable Diffusion"):
        loaded(copied / "nothing-here")
    file = copied / "unet" / WEIGHTS
    pickled = file.with_suffix(".bin")
    torch.save(load_file(file), pickled)
    file.unlink()
    # these are the right weights, but nothing pickled is opened
    with pytest.raises(PrerequisiteError, match="copied cannot be loaded"):
        loaded(copied)
    pickled.unlink()
    config = UNet2DConditionModel.load_config(copied / "unet", local_files_only=True)
    UNet2DConditionModel.from_config({**config, "in_channels": 4}).save_pretrained(copied / "unet")
    with pytest.raises(PrerequisiteError, match="takes 4 channels"):
        loaded(copied)
    file.write_bytes(b"\0" * 100)
    with pytest.raises(PrerequisiteError, match="slvmeval models verify"):
        loaded(copied)


def test_a_compiled_model_gets_batches_of_few_sizes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    sizes: list[int] = []

    def compiled(module: Any, dynamic: bool) -> None:
        assert dynamic is False
        module.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))

    monkeypatch.setattr(torch.nn.Module, "compile", compiled)
    model = loaded(folder, compile=True)
    for count in (1, 2, 3, 4):
        shown, masks = pictures(count)
        assert paint(model, shown, masks, [*range(count)], steps=1).shape == shown.shape
    # twice as many as pictures: with and without the prompt
    assert sizes == [2, 4, 8, 8]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of torch's own compiler
def test_a_compiled_model_paints_the_same(folder: Path, inpainter: Any) -> None:
    model = loaded(folder, compile=True)
    shown, masks = pictures(3)
    difference = paint(model, shown, masks, [1, 2, 3]).astype(int) - paint(inpainter, shown, masks, [1, 2, 3])
    assert np.abs(difference).max() <= 2


@pytest.mark.gpu
def test_it_runs_on_a_gpu(folder: Path) -> None:
    """With the real weights where the model folder has them: what it paints is not noise."""
    from skimage import data

    real = Path(os.environ.get("SLVMEVAL_MODEL_FOLDERS", "")) / "stable-diffusion-inpainting"
    there = (real / "model_index.json").is_file()
    model = loaded(real if there else folder, "cuda")
    shown = np.stack([data.astronaut()[:288]] * 2)
    masks = np.zeros(shown.shape[:3], np.bool_)
    masks[:, 60:280, 130:330] = True
    painted = paint(model, shown, masks, [1, 2], steps=20 if there else 2)
    assert (paint(model, shown, masks, [1, 2], steps=20 if there else 2) == painted).all()
    assert np.abs(painted[0][masks[0]].astype(int) - shown[0][masks[0]]).mean() > 5
    if there:
        # the picture goes through the autoencoder beside the mask, and stays what it was
        assert np.abs(painted[0][~masks[0]].astype(int) - shown[0][~masks[0]]).mean() < 15
